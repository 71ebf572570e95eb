use super::*;
use crate::channel::testing::Base;

fn door(base: &Base, pairs: bool) -> Arc<Door> {
    let channel = ChannelId::new("telegram.main");
    let (store, world) = (base.store.clone(), base.world.clone());
    Door::new(channel, vec!["ann".to_owned()], pairs, store, world)
}

async fn make(base: &Base) -> String {
    let channel = ChannelId::new("telegram.main");
    let by = Decider { who: "ops".into(), via: "test".into() };
    let hour = Duration::from_secs(3_600);
    new_code(&base.store, &base.world, channel, hour, by).await.unwrap().code
}

impl Door {
    async fn says(&self, sender: &str, text: &str) -> Admission {
        self.admit(sender, None, Some(text)).await.unwrap()
    }
}

#[test]
fn a_code_is_read_as_people_write_it_and_nothing_else_is_one() {
    for text in [
        "0123ABCD",
        " 0123-abcd ",
        "o123 abcd",
        "/pair 0I23ABCD",
        "/pair@bot 0123abcd",
        "/start 0123ABCD",
    ] {
        assert!(code::read(text).is_some_and(|code| code.ends_with("23ABCD")), "{text}");
    }
    for text in ["", "hello", "0123ABC", "0123ABCDE", "tell me 0123ABCD", "/help", "/pair", "да"]
    {
        assert_eq!(code::read(text), None, "{text}");
    }
    assert_eq!(code::read("/pair pass-word!"), Some(String::new()));
    let (one, other) = (code::fresh().unwrap(), code::fresh().unwrap());
    assert!(one.len() == CODE_LENGTH && one != other);
    let of = |channel: &str| code::hash(&ChannelId::new(channel), &one);
    assert_ne!(of("a"), of("b"), "a code is its channel's");
}

// R4, A076: with a list and no pairing, a stranger hears nothing
#[tokio::test]
async fn without_pairing_the_list_decides_and_strangers_hear_nothing() {
    let base = Base::new().await;
    let door = door(&base, false);
    let code = make(&base).await;
    assert_eq!(door.says("ann", "hi").await, Admission::Allowed);
    for text in ["hi", "/start", "/help", "/status", code.as_str()] {
        assert_eq!(door.says("eve", text).await, Admission::Refused(None), "{text}");
    }
    assert!(base.store.pairings().await.unwrap().is_empty());
    base.end().await;
}

// R4
#[tokio::test]
async fn a_stranger_is_told_once_and_let_in_by_a_code_of_their_own() {
    let base = Base::new().await;
    let door = door(&base, true);
    let told = door.says("eve", "hi").await;
    assert!(matches!(&told, Admission::Refused(Some(text)) if text.contains("code")), "{told:?}");
    assert_eq!(door.says("eve", "/status").await, Admission::Refused(None));
    let code = make(&base).await;
    assert!(matches!(door.says("eve", &code).await, Admission::Paired(_)));
    assert_eq!(door.says("eve", "hi").await, Admission::Allowed);
    assert!(matches!(door.says("bob", &code).await, Admission::Refused(Some(_))), "used up");
    // Another door of the same channel, as after a restart, knows it too.
    let again = self::door(&base, true);
    assert_eq!(again.admit("eve", None, None).await.unwrap(), Admission::Allowed);
    let all = base.store.pairings().await.unwrap();
    assert_eq!((all.len(), all[0].sender.as_str(), all[0].made_by.as_str()), (1, "eve", "ops"));
    base.end().await;
}

#[tokio::test]
async fn guessing_is_locked_out() {
    let base = Base::new().await;
    let door = door(&base, true);
    let code = make(&base).await;
    for _ in 0..BOUNDS.tries {
        assert!(matches!(door.says("eve", "/pair 00000000").await, Admission::Refused(Some(_))));
    }
    let locked = door.says("eve", &code).await;
    assert!(
        matches!(&locked, Admission::Refused(Some(text)) if text.contains("too many")),
        "{locked:?}"
    );
    assert!(matches!(door.says("bob", &code).await, Admission::Paired(_)));
    base.end().await;
}
