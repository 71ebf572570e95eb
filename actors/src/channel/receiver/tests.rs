mod bots;

use std::collections::VecDeque;

use rookery_messages::BoxFuture;
use rookery_messages::approval::ApprovalState;
use rookery_messages::attachment::Attachment;
use rookery_messages::channel::{
    AttachmentRef, Capabilities, ChannelEvent, DownloadFault, Incoming, Outgoing, Press,
    QueuePolicy, Received, SendAttempt,
};
use rookery_messages::envelope::{ReplyAddress, Sender as Person};
use rookery_messages::ids::AgentName;
use rookery_messages::store::StoreError;
use rookery_messages::turn::TurnClaim;
use tokio::sync::{Notify, mpsc};

use super::*;
use crate::channel::testing::{Base, SOON};
use crate::channel::{Intake, IntakeArgs, prompt};
use crate::runtime::{Child, SpawnSpec};

const CHANNEL: &str = "fake.one";

type Batch = Result<Vec<Received>, ReceiveFault>;

/// A platform that gives what it is told to give, and remembers what it was asked.
struct Platform {
    id: ChannelId,
    batches: tokio::sync::Mutex<mpsc::Receiver<Batch>>,
    files: Mutex<VecDeque<Result<Vec<u8>, DownloadFault>>>,
    asked: Mutex<Vec<String>>,
    changed: Notify,
}

impl Platform {
    fn note(&self, what: String) {
        self.asked.lock().push(what);
        self.changed.notify_waiters();
    }

    /// Waits until something of this kind was asked.
    async fn asked(&self, what: &str) {
        tokio::time::timeout(SOON, async {
            loop {
                let changed = self.changed.notified();
                if self.asked.lock().iter().any(|asked| asked == what) {
                    return;
                }
                changed.await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{what} was not asked: {:?}", self.asked.lock()));
    }

    fn count(&self, what: &str) -> usize {
        self.asked.lock().iter().filter(|asked| asked.starts_with(what)).count()
    }
}

impl ChannelAdapter for Platform {
    fn id(&self) -> &ChannelId {
        &self.id
    }

    fn own_id(&self) -> Option<String> {
        Some("me".to_owned())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { attachments: Some(100), buttons: true, ..Capabilities::default() }
    }

    fn send<'a>(&'a self, message: &'a Outgoing<'a>) -> BoxFuture<'a, SendAttempt> {
        let edit = message.edit.map(|id| format!(" over {id}")).unwrap_or_default();
        self.note(format!("send {}{edit}", message.text.lines().last().unwrap_or_default()));
        Box::pin(async { SendAttempt::Sent { external_id: None } })
    }

    fn receive(&self) -> BoxFuture<'_, Batch> {
        Box::pin(async {
            match self.batches.lock().await.recv().await {
                Some(batch) => batch,
                None => std::future::pending().await,
            }
        })
    }

    fn acknowledge<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<(), ReceiveFault>> {
        self.note(format!("ack {token}"));
        Box::pin(async { Ok(()) })
    }

    fn download<'a>(
        &'a self,
        file: &'a AttachmentRef,
        _: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, DownloadFault>> {
        self.note(format!("download {}", file.id));
        let file = self.files.lock().pop_front();
        Box::pin(async { file.unwrap_or_else(|| Ok(b"bytes".to_vec())) })
    }

    fn answer<'a>(&'a self, press: &'a Press, text: &'a str) -> BoxFuture<'a, ()> {
        self.note(format!("answer {} {text}", press.id));
        Box::pin(async {})
    }
}

struct Rig {
    base: Base,
    platform: Arc<Platform>,
    give: mpsc::Sender<Batch>,
    work: tempfile::TempDir,
    status: Arc<ReceiverStatus>,
    intake: Child<rookery_messages::channel::IntakeMsg>,
}

impl Rig {
    async fn new() -> Self {
        let base = Base::new().await;
        let (give, batches) = mpsc::channel(16);
        let platform = Arc::new(Platform {
            id: ChannelId::new(CHANNEL),
            batches: tokio::sync::Mutex::new(batches),
            files: Mutex::default(),
            asked: Mutex::default(),
            changed: Notify::new(),
        });
        let args = IntakeArgs {
            channel: ChannelId::new(CHANNEL),
            queue: QueuePolicy::Queue,
            queue_limit: 20,
            debounce: Duration::ZERO,
            claim: None,
            store: base.store.clone(),
            hub: Arc::clone(&base.hub),
            router: base.router.clone(),
            sender: None,
            observer: ObserverHandle::nobody(),
        };
        let intake = base.spawner.spawn::<Intake>(SpawnSpec::new("intake"), args).await.unwrap();
        let work = tempfile::tempdir().unwrap();
        Self { base, platform, give, work, status: Arc::default(), intake }
    }

    async fn start(&self) -> Child<ReceiverMsg> {
        self.start_with(BotRules::default()).await
    }

    async fn start_with(&self, bots: BotRules) -> Child<ReceiverMsg> {
        let args = ReceiverArgs {
            adapter: Arc::clone(&self.platform) as Arc<dyn ChannelAdapter>,
            admit: Arc::new(AllowList(vec!["ann".into(), "bot".into(), "me".into()])),
            commands: None,
            bots,
            intake: IntakeHandle {
                address: self.intake.address.clone(),
                agent: AgentName::new("home"),
            },
            workspace: self.work.path().to_owned(),
            grant_for: Duration::from_secs(60),
            prompts: Arc::default(),
            sender: None,
            store: self.base.store.clone(),
            router: self.base.router.clone(),
            redactor: Arc::new(Redactor::new([])),
            observer: ObserverHandle::nobody(),
            status: Arc::clone(&self.status),
        };
        let spec = SpawnSpec::new("receiver");
        self.base.spawner.spawn::<Receiver>(spec, args).await.unwrap()
    }

    async fn give(&self, token: &str, events: Vec<ChannelEvent>) {
        let received = events.into_iter().map(|event| Received { token: token.into(), event });
        self.give.send(Ok(received.collect())).await.unwrap();
    }

    async fn texts(&self) -> Vec<String> {
        let turns = self.base.store.turns(None, None, None, 50).await.unwrap();
        let mut texts = Vec::new();
        for turn in turns.iter().rev() {
            let claim = self.base.claim(turn.conversation_id).await;
            self.base.answer(&claim, "ok").await;
            texts.push(claim.text);
        }
        texts
    }

    async fn until_trouble(&self, trouble: Option<&str>) {
        tokio::time::timeout(SOON, async {
            while self.status.trouble().as_deref() != trouble {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap();
    }

    async fn until_turns(&self, count: usize) {
        tokio::time::timeout(SOON, async {
            while self.base.store.turns(None, None, None, 50).await.unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap();
    }

    /// A claimed turn of Ann's, whose call waits for her.
    async fn asking(&self) -> (TurnClaim, rookery_messages::approval::Approval) {
        self.give("0", vec![said("ann", "m0", "do it")]).await;
        self.platform.asked("ack 0").await;
        let turn = self.base.store.turns(None, None, None, 1).await.unwrap().remove(0);
        let claim = self.base.claim(turn.conversation_id).await;
        let approval = self.base.ask(&claim).await;
        (claim, approval)
    }
}

fn incoming(who: &str, id: &str, text: &str) -> Incoming {
    Incoming {
        external_id: id.into(),
        sender: Person::person(who),
        conversation: "chat".into(),
        thread: None,
        reply_to: None,
        quote: None,
        private: true,
        text: text.into(),
        attachments: Vec::new(),
        album: None,
    }
}

fn said(who: &str, id: &str, text: &str) -> ChannelEvent {
    ChannelEvent::Message(Box::new(incoming(who, id, text)))
}

fn with_file(id: &str, text: &str, file: &str, album: Option<&str>) -> ChannelEvent {
    let file = AttachmentRef {
        id: file.into(),
        name: format!("../{file} 1.txt"),
        mime: Some("text/plain".into()),
        size: None,
    };
    ChannelEvent::Message(Box::new(Incoming {
        attachments: vec![file],
        album: album.map(str::to_owned),
        ..incoming("ann", id, text)
    }))
}

fn pressed(who: Option<&str>, chat: &str, data: &str) -> ChannelEvent {
    ChannelEvent::Press(Box::new(Press {
        id: format!("p-{}", who.unwrap_or("nobody")),
        sender: who.map(Person::person),
        address: ReplyAddress {
            channel: ChannelId::new(CHANNEL),
            conversation: chat.into(),
            thread: None,
            reply_to: None,
        },
        message: "55".into(),
        data: data.into(),
    }))
}

// R4, A076
#[tokio::test]
async fn a_strangers_message_is_dropped_before_any_download_and_without_a_word() {
    let rig = Rig::new().await;
    let _receiver = rig.start().await;
    let mut stranger = incoming("eve", "m1", "/start");
    let ChannelEvent::Message(file) = with_file("x", "", "f", None) else { panic!("a message") };
    stranger.attachments = file.attachments;
    rig.give("1", vec![ChannelEvent::Message(Box::new(stranger))]).await;
    rig.platform.asked("ack 1").await;
    assert_eq!(*rig.platform.asked.lock(), ["ack 1"]);
    assert!(rig.base.store.turns(None, None, None, 5).await.unwrap().is_empty());
    assert!(rig.base.store.spooled(ChannelId::new(CHANNEL)).await.unwrap().is_empty());
    rig.base.end().await;
}

// R3, I2
#[tokio::test]
async fn what_is_acknowledged_is_durable_and_a_redelivery_changes_nothing() {
    let rig = Rig::new().await;
    let _receiver = rig.start().await;
    *rig.base.fault.lock() = Some(StoreError::Busy);
    rig.give("1", vec![said("ann", "m1", "one"), said("ann", "m2", "two")]).await;
    tokio::task::yield_now().await;
    assert_eq!(rig.platform.count("ack"), 0);
    *rig.base.fault.lock() = None;
    rig.platform.asked("ack 1").await;
    assert_eq!(rig.base.store.turns(None, None, None, 5).await.unwrap().len(), 2);
    rig.give("2", vec![said("ann", "m1", "one")]).await;
    rig.platform.asked("ack 2").await;
    assert_eq!(rig.texts().await, ["one", "two"]);
    rig.base.end().await;
}

#[tokio::test]
async fn attachments_are_fetched_off_the_path_and_what_follows_in_the_chat_waits_for_them() {
    let rig = Rig::new().await;
    rig.platform.files.lock().push_back(Err(DownloadFault { cause: "gone".into(), again: false }));
    let _receiver = rig.start().await;
    rig.give("1", vec![with_file("m1", "first", "bad", None), with_file("m2", "", "good", None)])
        .await;
    rig.give("2", vec![said("ann", "m3", "third")]).await;
    rig.platform.asked("ack 2").await;
    rig.until_turns(3).await;
    assert_eq!(
        rig.texts().await,
        [
            "first\n[attachment \"../bad 1.txt\" was not fetched: gone]",
            "[attached: attachments/m2-1-good_1.txt (text/plain, 5 bytes)]",
            "third",
        ]
    );
    let history = rig.base.store.messages(ChannelId::new(CHANNEL), "chat".into(), 9).await;
    let history = history.unwrap().unwrap();
    let good = Attachment {
        name: "../good 1.txt".into(),
        path: "attachments/m2-1-good_1.txt".into(),
        media_type: "text/plain".into(),
        size: 5,
    };
    let kept: Vec<_> = history.iter().flat_map(|stored| stored.message.attachments()).collect();
    assert_eq!(kept, [&good]);
    let saved = rig.work.path().join("attachments/m2-1-good_1.txt");
    assert_eq!(std::fs::read(saved).unwrap(), b"bytes");
    // It is known for a while: delivered again, it is neither fetched nor taken again.
    rig.give("3", vec![with_file("m2", "", "good", None)]).await;
    rig.platform.asked("ack 3").await;
    assert_eq!(rig.platform.count("download good"), 1);
    rig.base.end().await;
}

// A058
#[tokio::test]
async fn an_album_is_one_message_and_what_comes_too_late_is_another() {
    let rig = Rig::new().await;
    let _receiver = rig.start().await;
    rig.give("1", vec![with_file("m1", "cap one", "a", Some("g"))]).await;
    rig.give(
        "2",
        vec![with_file("m2", "", "b", Some("g")), with_file("m3", "cap three", "c", Some("g"))],
    )
    .await;
    rig.until_turns(1).await;
    rig.give("3", vec![with_file("m4", "late", "d", Some("g"))]).await;
    rig.until_turns(2).await;
    let line = |m, f| format!("[attached: attachments/m{m}-1-{f}_1.txt (text/plain, 5 bytes)]");
    let album = format!("cap one\n{}\n{}\ncap three\n{}", line(1, 'a'), line(2, 'b'), line(3, 'c'));
    assert_eq!(rig.texts().await, [album, format!("late\n{}", line(4, 'd'))]);
    rig.base.end().await;
}

// A058
#[tokio::test]
async fn what_a_killed_receiver_had_acknowledged_is_finished_by_the_next() {
    let rig = Rig::new().await;
    let receiver = rig.start().await;
    rig.give("1", vec![with_file("m1", "one", "a", Some("g"))]).await;
    rig.platform.asked("ack 1").await;
    receiver.handle.kill();
    receiver.handle.ended().await;
    let _receiver = rig.start().await;
    rig.until_turns(1).await;
    assert_eq!(rig.texts().await.len(), 1);
    rig.base.end().await;
}

// A057
#[tokio::test]
async fn a_conflict_is_waited_out_and_one_that_lasts_is_on_show() {
    let rig = Rig::new().await;
    let _receiver = rig.start().await;
    let conflict = || Err(ReceiveFault::Conflict { cause: "another instance".into() });
    rig.give.send(conflict()).await.unwrap();
    rig.give("1", vec![said("ann", "m1", "one")]).await;
    rig.platform.asked("ack 1").await;
    assert_eq!(rig.status.trouble(), None);
    for _ in 0..3 {
        rig.give.send(conflict()).await.unwrap();
    }
    rig.until_trouble(Some("another instance")).await;
    rig.give("2", vec![said("ann", "m2", "two")]).await;
    rig.platform.asked("ack 2").await;
    rig.until_trouble(None).await;
    rig.base.end().await;
}

#[tokio::test]
async fn a_lasting_fault_ends_the_receiver_for_good_with_its_cause() {
    let rig = Rig::new().await;
    let receiver = rig.start().await;
    let cause = "the token is not known".to_owned();
    rig.give.send(Err(ReceiveFault::Permanent { cause: cause.clone() })).await.unwrap();
    let exit = tokio::time::timeout(SOON, receiver.handle.ended()).await.unwrap();
    assert_eq!(exit, ExitReason::Failed { error: cause.clone(), permanent: true });
    assert_eq!(rig.status.trouble(), Some(cause));
    rig.base.end().await;
}

// A081, A088, I7
#[tokio::test]
async fn a_press_decides_only_by_somebody_asked_and_in_the_chat_where_it_was_asked() {
    let rig = Rig::new().await;
    let _receiver = rig.start().await;
    let (_claim, approval) = rig.asking().await;
    let data = prompt::buttons(&approval)[0][0].data.clone();
    let refused = [
        (
            Some("eve"),
            "chat",
            data.as_str(),
            "you are not among those who may decide this; it stays open",
        ),
        (
            Some("ann"),
            "other",
            data.as_str(),
            "this request belongs to another chat; it stays open",
        ),
        (None, "chat", data.as_str(), "it is not known who pressed; nothing was decided"),
        (Some("ann"), "chat", "ap:a:zz", "this button means nothing here"),
    ];
    for (n, (who, chat, data, said)) in refused.into_iter().enumerate() {
        let token = format!("r{n}");
        rig.give(&token, vec![pressed(who, chat, data)]).await;
        rig.platform.asked(&format!("ack {token}")).await;
        rig.platform.asked(&format!("answer p-{} {said}", who.unwrap_or("nobody"))).await;
        let stands = rig.base.store.approval(approval.id).await.unwrap().unwrap();
        assert_eq!(stands.state, ApprovalState::Pending, "{who:?} {chat}");
    }
    let audit = rig.base.store.audit_rows(None, 20).await.unwrap();
    let named = audit.iter().any(|row| row.action == "approval.not_allowed" && row.who == "eve");
    assert!(named, "{audit:?}");

    rig.give("ok", vec![pressed(Some("ann"), "chat", &data)]).await;
    rig.platform.asked("answer p-ann approved").await;
    rig.platform.asked("send already decided by ann via fake.one: approved over 55").await;
    let decided = rig.base.store.approval(approval.id).await.unwrap().unwrap();
    assert_eq!(decided.state, ApprovalState::Approved);

    // A replay changes nothing and says what stands.
    rig.give("again", vec![pressed(Some("ann"), "chat", &data)]).await;
    rig.platform.asked("answer p-ann already decided by ann via fake.one: approved").await;
    assert_eq!(rig.base.store.approval(approval.id).await.unwrap().unwrap(), decided);
    rig.base.end().await;
}
