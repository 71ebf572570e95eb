//! What a turn is told of memory, and what a memory that misbehaves costs it.

use jiff::SignedDuration;
use rookery_messages::chat::UserKind;
use rookery_messages::ids::MemoryId;
use rookery_messages::memory::{
    Category, Forget, ListQuery, Memory, MemoryEntry, MemoryError, MemoryScope, NewMemory,
    RecallQuery, Recalled, Source, Stored,
};

use super::*;
use crate::memory::Floor;
use crate::memory::sqlite::{SqliteMemory, SqliteMemoryOptions};
use crate::turn::MemoryAccess;

/// A memory that gives these entries, or fails, or hangs.
enum Double {
    Gives(Vec<Recalled>),
    Fails,
    Hangs,
}

impl Memory for Double {
    fn store(&self, _: NewMemory) -> BoxFuture<'_, Result<Stored, MemoryError>> {
        Box::pin(std::future::ready(Err(MemoryError::Busy)))
    }

    fn recall(&self, _: RecallQuery) -> BoxFuture<'_, Result<Vec<Recalled>, MemoryError>> {
        Box::pin(async move {
            match self {
                Self::Gives(entries) => Ok(entries.clone()),
                Self::Fails => Err(MemoryError::Unavailable("the disk is away".into())),
                Self::Hangs => std::future::pending().await,
            }
        })
    }

    fn list(&self, _: ListQuery) -> BoxFuture<'_, Result<Vec<MemoryEntry>, MemoryError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn get(&self, _: MemoryId) -> BoxFuture<'_, Result<Option<MemoryEntry>, MemoryError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn forget(&self, _: Forget) -> BoxFuture<'_, Result<u64, MemoryError>> {
        Box::pin(std::future::ready(Ok(0)))
    }
}

fn access(memory: Arc<dyn Memory>, deadline: Duration) -> MemoryAccess {
    let floor = Floor { least: 0.4, half_life: SignedDuration::from_hours(168) };
    MemoryAccess { memory, floor, deadline, suppressed: false }
}

async fn rig(access: MemoryAccess) -> Rig {
    let change = |setup: &mut Setup| setup.bundle.memory = Some(access);
    Rig::built(RiskProfile::default(), RuntimeProfile::default(), change).await
}

fn entry(agent: &str, key: &str, content: &str) -> NewMemory {
    NewMemory {
        id: MemoryId(system_world().ids.next()),
        agent: AgentName::new(agent),
        scope: MemoryScope::Agent,
        key: key.into(),
        content: content.into(),
        category: Category::Core,
        source: Source::Model,
        via: None,
        turn: None,
        at: system_world().now(),
    }
}

/// What the turns' requests say in the person's place.
fn said(rig: &Rig) -> Vec<Vec<String>> {
    let requests = rig.provider.requests.lock();
    let users = |request: &ModelRequest| {
        let users = request.messages.iter().filter(|message| message.starts_turn());
        users.map(|message| message.text().to_owned()).collect()
    };
    requests.iter().map(users).collect()
}

/// Success and number of entries of each time memory was asked.
fn recalls(told: &[Observation]) -> Vec<(bool, u32)> {
    told.iter()
        .filter_map(|seen| match seen {
            Observation::Recalled { success, entries, .. } => Some((*success, *entries)),
            _ => None,
        })
        .collect()
}

fn block(line: &str) -> String {
    format!("{}\n{line}\n{}\n\n", text::MEMORY_OPEN, text::MEMORY_CLOSE)
}

// V-B6, V-B16, V-B17, R6
#[tokio::test]
async fn a_turn_is_told_once_what_is_remembered_in_each_request_and_its_record_is_free_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.db");
    let options = SqliteMemoryOptions { path, durability: Durability::Process, max_entries: 9 };
    let memory: Arc<dyn Memory> = Arc::new(SqliteMemory::open(&options).unwrap());
    memory.store(entry("home", "m1", "a message about teal")).await.unwrap();
    memory.store(entry("other", "m1 message", "a message of another agent")).await.unwrap();
    let rig = rig(access(Arc::clone(&memory), Duration::from_secs(30))).await;
    rig.script([asks(&[("read", json!({}))]), says("done"), says("done again")]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    let preamble = block("- m1: a message about teal");
    let told = format!("{preamble}message m1");
    assert_eq!(said(&rig), [[told.clone()], [told.clone()]]);
    assert_eq!(recalls(&rig.observed(turn).await), [(true, 1)]);
    // The next turn's history is free of it, and its own message has its own.
    let (_, mut events) = rig.accept("m2", "ws").await;
    events.end().await;
    let last = said(&rig).pop().unwrap();
    assert_eq!(last, ["message m1".to_owned(), format!("{preamble}message m2")]);
    let stored = rig.store.messages(ChannelId::new("ws"), "c1".into(), 50).await.unwrap().unwrap();
    for stored in stored {
        assert!(!stored.message.text().contains("teal"), "{stored:?}");
    }
    rig.quiet().await;
    memory.close().await;
}

// V-B7
#[tokio::test]
async fn where_nothing_is_remembered_the_message_is_sent_as_it_is_and_the_event_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.db");
    let options = SqliteMemoryOptions { path, durability: Durability::Process, max_entries: 9 };
    let memory: Arc<dyn Memory> = Arc::new(SqliteMemory::open(&options).unwrap());
    let rig = rig(access(Arc::clone(&memory), Duration::from_secs(30))).await;
    for id in ["m1", "m2"] {
        let (turn, mut events) = rig.accept(id, "ws").await;
        assert_eq!(events.end().await.0, Outcome::Answered);
        assert_eq!(recalls(&rig.observed(turn).await), [(true, 0)]);
        assert_eq!(said(&rig).pop().unwrap().pop().unwrap(), format!("message {id}"));
        // The second time there is something, which has nothing to do with it.
        memory.store(entry("home", "tea", "green")).await.unwrap();
    }
    rig.quiet().await;
    memory.close().await;
}

// V-B8, I8
#[tokio::test]
async fn a_memory_that_fails_or_hangs_costs_a_turn_its_deadline_and_nothing_else() {
    for double in [Double::Fails, Double::Hangs] {
        let rig = rig(access(Arc::new(double), Duration::from_millis(20))).await;
        let (turn, mut events) = rig.accept("m1", "ws").await;
        assert_eq!(events.end().await, (Outcome::Answered, Some("done".into())));
        assert_eq!(said(&rig), [["message m1"]]);
        assert_eq!(recalls(&rig.observed(turn).await), [(false, 0)]);
        rig.quiet().await;
    }
}

// R19
#[tokio::test]
async fn a_turn_that_waits_for_memory_can_be_stopped() {
    let rig = rig(access(Arc::new(Double::Hangs), Duration::from_secs(3_600))).await;
    let (turn, mut events) = rig.accept("m1", "ws").await;
    rig.until(|directory| {
        let turns = directory.of_kind("turn");
        turns.first().is_some_and(|turn| turn.waiting_on().as_deref() == Some("calling"))
    })
    .await;
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    assert!(rig.provider.requests.lock().is_empty());
    rig.quiet().await;
}

// V-B5
#[tokio::test]
async fn where_it_is_suppressed_memory_is_not_even_asked() {
    let hangs = access(Arc::new(Double::Hangs), Duration::from_secs(3_600));
    let rig = rig(MemoryAccess { suppressed: true, ..hangs }).await;
    let (turn, mut events) = rig.accept("m1", "ws").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(recalls(&rig.observed(turn).await), []);
    rig.quiet().await;
}

// V-B1, R5
#[tokio::test]
async fn a_delegate_is_told_nothing_unasked() {
    let found = Recalled { entry: of_home(), score: Some(0.9) };
    let rig = rig(access(Arc::new(Double::Gives(vec![found])), Duration::from_secs(30))).await;
    rig.script([
        asks(&[("delegate", json!({ "task": "look inside" }))]),
        says("inner"),
        says("outer"),
    ]);
    let (_, mut events) = rig.accept("m1", "ws").await;
    assert_eq!(events.end().await.1.as_deref(), Some("outer"));
    let told = said(&rig);
    assert!(told[0][0].starts_with(text::MEMORY_OPEN), "{told:?}");
    assert_eq!(told[1], ["look inside"]);
    rig.quiet().await;
}

fn of_home() -> MemoryEntry {
    let NewMemory { id, agent, scope, key, content, category, source, via, turn, at } =
        entry("home", "m1", "a message about teal");
    MemoryEntry {
        id,
        agent,
        scope,
        key,
        content,
        category,
        source,
        via,
        turn,
        created_at: at,
        updated_at: at,
        superseded_by: None,
    }
}

// A100
#[tokio::test]
async fn what_a_backend_gives_in_spite_of_the_filter_is_not_told() {
    let foreign = MemoryEntry { agent: AgentName::new("other"), key: "a".into(), ..of_home() };
    let outside = MemoryEntry { source: Source::External, key: "b".into(), ..of_home() };
    let elsewhere = MemoryScope::Session(ConversationId(uuid::Uuid::nil()));
    let elsewhere = MemoryEntry { scope: elsewhere, key: "c".into(), ..of_home() };
    let found = [foreign, outside, elsewhere, of_home()];
    let found = found.map(|entry| Recalled { entry, score: None }).to_vec();
    let rig = rig(access(Arc::new(Double::Gives(found)), Duration::from_secs(30))).await;
    let (_, mut events) = rig.accept("m1", "ws").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    let told = format!("{}message m1", block("- m1: a message about teal"));
    assert_eq!(said(&rig), [[told]]);
    let requests = rig.provider.requests.lock().clone();
    let kinds = requests[0].messages.iter().filter(
        |message| matches!(message, ChatMessage::User { kind, .. } if *kind != UserKind::Message),
    );
    assert_eq!(kinds.count(), 0);
    rig.quiet().await;
}
