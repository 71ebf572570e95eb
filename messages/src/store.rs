//! The store: a synchronous backend contract, its requests and answers, its typed errors.
//!
//! One writer applies batches of [`Write`]s, each batch one transaction with a savepoint per request,
//! so that one refusal doesn't fail the rest. Readers answer [`Read`]s beside it.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::address::Message;
use crate::approval::{Approval, Decider, Decision, Grant, GrantScope};
use crate::chat::{ChatMessage, Usage};
use crate::delegation::NewChild;
use crate::envelope::{Envelope, Inbound, ReplyAddress};
use crate::ids::{
    AgentName, ApprovalId, CallId, ChannelId, ConversationId, EnvelopeId, GrantId, MessageId,
    OutboxId, TurnId,
};
use crate::journal::JournalEntry;
use crate::tool::ProcessRecord;
use crate::turn::{CallRecord, Fence, Outcome, TurnClaim, TurnFinish, TurnRecord, TurnState};

/// Why the store did not do it. All but `Stale`, `Conflict` and `NotFound` mean: nothing was written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the database.
    #[error(
        "the database is in use by another process ({owner}); stop that one, or give this one another store.path"
    )]
    InUse {
        /// What the lock file says of the owner.
        owner: String,
    },
    /// The file's schema is newer than this binary.
    #[error(
        "the database has schema version {found}, this binary knows {known}; use a newer binary, or restore the backup made before the upgrade"
    )]
    SchemaNewer {
        /// The file's.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// The disk is full.
    #[error(
        "the disk that holds the database is full: {0}; free space, the service goes on by itself"
    )]
    Full(String),
    /// The database is locked, or the disk does not answer.
    #[error("the database can't be written now: {0}")]
    Unavailable(String),
    /// The file is damaged.
    #[error("the database is damaged: {0}; restore a backup, or move the file away")]
    Corrupt(String),
    /// The writer's queue is full.
    #[error("the store's queue is full; try again")]
    Busy,
    /// The store has stopped.
    #[error("the store has stopped")]
    Closed,
    /// The write came from a former owner or attempt (I3).
    #[error("a stale attempt tried to write")]
    Stale,
    /// The thing has already ended, or is in a state that does not allow this.
    #[error("conflict: {0}")]
    Conflict(String),
    /// There is no such thing.
    #[error("not found")]
    NotFound,
    /// No answer came in time. Whether it was written is unknown: send the same key again.
    #[error("the store did not answer in time")]
    Timeout,
    /// Anything else the backend says.
    #[error("the store failed: {0}")]
    Failed(String),
}

impl StoreError {
    /// Short stable word for metrics and the API.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "store_in_use",
            Self::SchemaNewer { .. } => "store_schema_newer",
            Self::Full(_) => "store_full",
            Self::Unavailable(_) => "store_unavailable",
            Self::Corrupt(_) => "store_corrupt",
            Self::Busy => "store_busy",
            Self::Closed => "store_closed",
            Self::Stale => "store_stale",
            Self::Conflict(_) => "store_conflict",
            Self::NotFound => "not_found",
            Self::Timeout => "store_timeout",
            Self::Failed(_) => "store_failed",
        }
    }

    /// Whether the same write may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Unavailable(_) | Self::Busy | Self::Timeout)
    }
}

/// A message of the history, as stored.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StoredMessage {
    /// Our id; appending the same one twice changes nothing (A114).
    pub id: MessageId,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// When it was appended.
    pub at: Timestamp,
    /// The message.
    pub message: ChatMessage,
}

/// A request to the writer.
#[derive(Clone, Debug)]
pub enum Write {
    /// Take a message in: inbox row, turn id, conversation; or find the one already taken.
    Accept(Accept),
    /// The next row of a conversation: a running one without an actor first, then the oldest queued.
    Claim(Claim),
    /// A turn's step.
    Commit(Box<TurnCommit>),
    /// A turn's actor leaves in good order, to be taken up by a later life: its next attempt is no sign
    /// of a crash.
    ReleaseTurn {
        /// The turn.
        turn: TurnId,
        /// Its conversation.
        conversation_id: ConversationId,
        /// Its fence.
        fence: Fence,
    },
    /// Ask for a turn's end: a queued one is ended here, a running one is marked.
    CancelTurn {
        /// The turn.
        turn: TurnId,
        /// Now.
        at: Timestamp,
        /// Who asks, for the audit.
        by: Decider,
    },
    /// Decide an approval: one compare-and-set on *pending* (I7).
    DecideApproval(DecideApproval),
    /// Take a grant back. One that is revoked stays as it is.
    RevokeGrant {
        /// The grant.
        id: GrantId,
        /// Now.
        at: Timestamp,
        /// Who asks, for the audit.
        by: Decider,
    },
    /// Take outbox rows of a channel that are due: pending → sending.
    ClaimOutbox {
        /// The channel.
        channel: ChannelId,
        /// Now.
        at: Timestamp,
        /// At most so many.
        limit: u32,
    },
    /// A channel's sender begins anew: what a former incarnation left sending becomes pending again,
    /// possibly repeated.
    ReleaseOutbox {
        /// The channel.
        channel: ChannelId,
        /// Now.
        at: Timestamp,
    },
    /// How a send went.
    MarkOutbox {
        /// The row.
        id: OutboxId,
        /// Now.
        at: Timestamp,
        /// How it went.
        result: SendResult,
    },
    /// A dead letter is sent again, or thrown away.
    DeadLetter {
        /// The row.
        id: OutboxId,
        /// `true`: back to pending; `false`: gone.
        retry: bool,
        /// Now.
        at: Timestamp,
        /// Who asks, for the audit.
        by: Decider,
    },
    /// A tool started a process group.
    ProcessStarted(ProcessRecord),
    /// The group is gone.
    ProcessEnded {
        /// The group's id.
        pgid: i32,
        /// The call that started it.
        call: CallId,
    },
    /// An actor crashed.
    Crash(CrashRow),
    /// A row for the audit that belongs to no other write.
    Audit(AuditRow),
}

/// A message to take in.
#[derive(Clone, Debug)]
pub struct Accept {
    /// What was received.
    pub inbound: Inbound,
    /// Fresh id, used if the message is new.
    pub envelope: EnvelopeId,
    /// Fresh id, used if the message is new.
    pub turn: TurnId,
    /// Fresh id, used if the conversation is new.
    pub conversation_id: ConversationId,
    /// At most so many waiting rows a conversation.
    pub queue_limit: u32,
    /// It is handed on by another turn.
    pub child: Option<Box<NewChild>>,
    /// Now.
    pub at: Timestamp,
}

/// A session asks for its next row.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The conversation.
    pub conversation_id: ConversationId,
    /// Now.
    pub at: Timestamp,
    /// Attempts in a row that may end in a crash without having got any further; after that the turn is
    /// failed instead.
    pub max_attempts: u32,
    /// Load the newest messages up to about so many characters (whole turns).
    pub history_chars: usize,
}

/// What a claim found.
#[derive(Clone, PartialEq, Debug)]
pub enum ClaimOutcome {
    /// Nothing to do.
    Nothing,
    /// A turn to run; its `started` entry is written.
    Turn(Box<TurnClaim>),
    /// A turn had its last attempt: it is failed, its notice is in the outbox, its envelope is a dead letter.
    Exhausted(Box<TurnRecord>),
}

/// One step of a turn: one transaction under its fence.
#[derive(Clone, Debug)]
pub struct TurnCommit {
    /// The turn.
    pub turn: TurnId,
    /// Its conversation.
    pub conversation_id: ConversationId,
    /// Its fence.
    pub fence: Fence,
    /// Now.
    pub at: Timestamp,
    /// New journal entries; one already there (same attempt and seq) is skipped.
    pub entries: Vec<JournalEntry>,
    /// Messages to append; one already there (same id) is skipped.
    pub messages: Vec<StoredMessage>,
    /// Calls to insert or update.
    pub calls: Vec<CallRecord>,
    /// The turn's new state.
    pub state: Option<TurnState>,
    /// Tokens so far.
    pub usage: Option<Usage>,
    /// New approval requests.
    pub approvals: Vec<Approval>,
    /// Pending approvals of this turn become *cancelled*.
    pub withdraw_approvals: bool,
    /// The outcome: a compare-and-set on *not ended*.
    pub finish: Option<TurnFinish>,
    /// What to send.
    pub outbox: Vec<NewOutbox>,
    /// Rows for the audit.
    pub audit: Vec<AuditRow>,
}

impl TurnCommit {
    /// An empty step.
    pub fn new(turn: TurnId, conversation_id: ConversationId, fence: Fence, at: Timestamp) -> Self {
        Self {
            turn,
            conversation_id,
            fence,
            at,
            entries: Vec::new(),
            messages: Vec::new(),
            calls: Vec::new(),
            state: None,
            usage: None,
            approvals: Vec::new(),
            withdraw_approvals: false,
            finish: None,
            outbox: Vec::new(),
            audit: Vec::new(),
        }
    }
}

/// A step is written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommitAck {
    /// Outbox rows that were added, with their channel: their senders get a hint.
    pub outbox: Vec<(OutboxId, ChannelId)>,
    /// With a turn's end: the conversation has no other open row now. What comes later brings a hint.
    pub nothing_waits: bool,
    /// With a cancelled turn's end: tasks it had begun, which are to stop with it.
    pub stops: Vec<(ConversationId, TurnId)>,
}

/// A decision to make.
#[derive(Clone, Debug)]
pub struct DecideApproval {
    /// The request.
    pub approval: ApprovalId,
    /// The decision.
    pub decision: Decision,
    /// Who decides, by which surface.
    pub decider: Decider,
    /// The decider holds role operator or admin, or is the runtime: the approver list does not apply.
    pub privileged: bool,
    /// Now.
    pub at: Timestamp,
    /// For *always*: the grant to write, with the same transaction. It covers what the request offers.
    pub grant: Option<NewGrant>,
}

/// What of a grant its giver chooses; the rest is the request's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewGrant {
    /// A fresh id.
    pub id: GrantId,
    /// How far it holds.
    pub scope: GrantScope,
    /// Until when.
    pub expires_at: Timestamp,
}

/// How a decision went.
#[derive(Clone, PartialEq, Debug)]
pub enum DecideOutcome {
    /// It stands.
    Decided(Box<Approval>),
    /// Somebody was faster; this is what stands.
    AlreadyDecided(Box<Approval>),
    /// The decider is not among the approvers; the request stays open.
    NotAllowed,
    /// There is no such request.
    NotFound,
}

/// What accepting did.
#[derive(Clone, PartialEq, Debug)]
pub struct AcceptOutcome {
    /// The envelope, new or found.
    pub envelope: Envelope,
    /// It had been accepted before.
    pub duplicate: bool,
    /// It was not taken: the conversation has too many waiting rows.
    pub rejected: bool,
}

/// What a cancel found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CancelOutcome {
    /// It had not begun; it is cancelled now.
    Ended,
    /// It runs; the mark is set.
    Marked,
    /// It had ended before.
    AlreadyEnded,
    /// There is no such turn.
    NotFound,
}

/// A message to send.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewOutbox {
    /// Its id: also the nonce, where a platform takes one.
    pub id: OutboxId,
    /// The channel.
    pub channel: ChannelId,
    /// Where to.
    pub address: ReplyAddress,
    /// What.
    pub payload: OutboxPayload,
}

/// What is sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OutboxPayload {
    /// A turn's end.
    Reply {
        /// The turn.
        turn: TurnId,
        /// How it ended.
        outcome: Outcome,
        /// The text to show.
        text: String,
    },
    /// A word to the sender: queue full, reply expired.
    Notice {
        /// The turn it is about, if any.
        turn: Option<TurnId>,
        /// The text to show.
        text: String,
    },
}

/// An outbox row in a sender's hands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutboxRow {
    /// What to send.
    pub message: NewOutbox,
    /// How often it was tried before.
    pub attempts: u32,
    /// An earlier try's outcome is unknown: this may be a copy.
    pub possibly_repeated: bool,
    /// When it was written.
    pub created_at: Timestamp,
}

/// How a send went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendResult {
    /// The platform has it.
    Sent {
        /// The platform's id of the message.
        external_id: Option<String>,
    },
    /// It failed; try again then.
    Retry {
        /// Not before.
        at: Timestamp,
        /// Why.
        cause: String,
    },
    /// It may have arrived.
    Unknown {
        /// Why.
        cause: String,
        /// Send the same again (policy `resend`), then; or hold it as a dead letter.
        resend_at: Option<Timestamp>,
    },
    /// It can't be sent.
    Dead {
        /// Why.
        cause: String,
    },
}

/// A dead letter as the admin API shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The row.
    pub id: OutboxId,
    /// `reply`, `notice`; or `turn`: the envelope itself, after its last attempt (it can't be retried).
    pub kind: String,
    /// The channel.
    pub channel: ChannelId,
    /// The turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// Why.
    pub cause: String,
    /// `permanent` or `transient`.
    pub class: String,
    /// When.
    #[serde(with = "crate::time::millis")]
    pub at: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
}

/// An actor's crash, as stored and shown.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CrashRow {
    /// Row id; 0 until stored.
    #[serde(default)]
    pub id: i64,
    /// The actor's kind.
    pub kind: String,
    /// Its path.
    pub path: String,
    /// What happened.
    pub cause: String,
    /// `file:line:column` of a panic.
    pub location: Option<String>,
    /// When last.
    #[serde(with = "crate::time::millis")]
    pub at: Timestamp,
    /// How often the same kind crashed for the same cause at the same place.
    pub count: u64,
    /// The message it died in.
    pub message_in_hand: Option<String>,
}

/// A row of the audit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AuditRow {
    /// When.
    #[serde(with = "crate::time::millis")]
    pub at: Timestamp,
    /// Who.
    pub who: String,
    /// By which surface.
    pub via: String,
    /// What: `approval.approve`, `actor.stop`, `turn.cancel` …
    pub action: String,
    /// On what: an id or path.
    pub target: String,
    /// More, secrets cleaned.
    pub detail: Value,
}

/// A question to a reader.
#[derive(Clone, Debug)]
pub enum Read {
    /// One turn.
    Turn(TurnId),
    /// What journal and history say of one call of a turn.
    CallTrail {
        /// The turn.
        turn: TurnId,
        /// The call.
        call: CallId,
    },
    /// Turns, newest first.
    Turns {
        /// Of this platform conversation id.
        conversation: Option<String>,
        /// In this channel.
        channel: Option<ChannelId>,
        /// In this state.
        state: Option<TurnState>,
        /// At most so many.
        limit: u32,
    },
    /// Background tasks of a conversation, newest first.
    Tasks {
        /// The conversation above all parents.
        root: ConversationId,
        /// At most so many.
        limit: u32,
    },
    /// A conversation's history by channel and platform id, oldest first: the newest `limit`.
    Messages {
        /// The channel.
        channel: ChannelId,
        /// The platform's id of the conversation.
        conversation: String,
        /// At most so many.
        limit: u32,
    },
    /// Conversations with an open row that is a session's to run.
    OpenConversations,
    /// Whether a conversation has an open row.
    HasOpen(ConversationId),
    /// Approvals, oldest first.
    Approvals {
        /// Only pending ones.
        pending: bool,
        /// At most so many.
        limit: u32,
    },
    /// One approval.
    Approval(ApprovalId),
    /// A grant that covers a call now.
    Grant {
        /// The conversation.
        conversation_id: ConversationId,
        /// The agent.
        agent: AgentName,
        /// The tool's resolved name.
        tool: String,
        /// The key of what the call is.
        key: String,
        /// Now.
        at: Timestamp,
    },
    /// Grants, newest first.
    Grants {
        /// Ended and revoked ones too.
        all: bool,
        /// Now.
        at: Timestamp,
        /// At most so many.
        limit: u32,
    },
    /// How accepted envelopes ended.
    Ledger,
    /// Dead letters, oldest first.
    DeadLetters,
    /// Crashes, newest first.
    Crashes {
        /// At most so many.
        limit: u32,
    },
    /// Process groups of former lives.
    Processes,
    /// The audit, newest first.
    Audit {
        /// Nothing older.
        since: Option<Timestamp>,
        /// At most so many.
        limit: u32,
    },
    /// When the next outbox row of a channel is due.
    OutboxDue(ChannelId),
    /// Conversations, newest first.
    Conversations {
        /// At most so many.
        limit: u32,
    },
}

/// How accepted envelopes ended: adds up to `accepted` (I1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// All of them.
    pub accepted: u64,
    /// With a reply.
    pub answered: u64,
    /// Without, by policy.
    pub silent: u64,
    /// Failed and notified.
    pub failed: u64,
    /// Stopped.
    pub cancelled: u64,
    /// Not taken and notified.
    pub rejected: u64,
    /// Too old.
    pub expired: u64,
    /// Answered with another.
    pub merged: u64,
    /// Not ended yet.
    pub open: u64,
}

impl Ledger {
    /// Whether the ends and the open ones add up.
    pub fn adds_up(&self) -> bool {
        self.accepted
            == self.answered
                + self.silent
                + self.failed
                + self.cancelled
                + self.rejected
                + self.expired
                + self.merged
                + self.open
    }
}

/// What a call left behind.
#[derive(Clone, PartialEq, Debug)]
pub struct CallTrail {
    /// The turn's journal, in order.
    pub journal: Vec<JournalEntry>,
    /// Its result in the conversation's history, once the round stands there.
    pub shown: Option<ChatMessage>,
}

/// A conversation as the API lists it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ConversationRow {
    /// Our id.
    pub id: ConversationId,
    /// The channel.
    pub channel: ChannelId,
    /// The platform's id.
    pub conversation: String,
    /// The agent.
    pub agent: String,
    /// Messages stored.
    pub messages: u64,
    /// When the last message was accepted.
    #[serde(with = "crate::time::millis")]
    pub last_at: Timestamp,
}

/// The writer's answer; its variant follows the request's.
#[derive(Clone, Debug)]
pub enum Written {
    /// To [`Write::Accept`].
    Accepted(Box<AcceptOutcome>),
    /// To [`Write::Claim`].
    Claimed(ClaimOutcome),
    /// To [`Write::Commit`].
    Committed(CommitAck),
    /// To [`Write::CancelTurn`].
    Cancelled(CancelOutcome),
    /// To [`Write::DecideApproval`].
    Decided(DecideOutcome),
    /// To [`Write::RevokeGrant`]: the grant as it stands; none if there is no such grant.
    Revoked(Option<Box<Grant>>),
    /// To [`Write::ClaimOutbox`].
    Outbox(Vec<OutboxRow>),
    /// To everything else.
    Done,
}

/// A reader's answer; its variant follows the question's.
#[derive(Clone, Debug)]
pub enum Found {
    /// A turn.
    Turn(Option<Box<TurnRecord>>),
    /// A call's traces; none if there is no such turn.
    CallTrail(Option<Box<CallTrail>>),
    /// Turns.
    Turns(Vec<TurnRecord>),
    /// Messages; none if there is no such conversation.
    Messages(Option<Vec<StoredMessage>>),
    /// Conversation ids.
    OpenConversations(Vec<ConversationId>),
    /// Yes or no.
    Flag(bool),
    /// Approvals.
    Approvals(Vec<Approval>),
    /// An approval.
    Approval(Option<Box<Approval>>),
    /// A grant.
    Grant(Option<Box<Grant>>),
    /// Grants.
    Grants(Vec<Grant>),
    /// The ledger.
    Ledger(Ledger),
    /// Dead letters.
    DeadLetters(Vec<DeadLetter>),
    /// Crashes.
    Crashes(Vec<CrashRow>),
    /// Process groups.
    Processes(Vec<ProcessRecord>),
    /// Audit rows.
    Audit(Vec<AuditRow>),
    /// A time.
    Due(Option<Timestamp>),
    /// Conversations.
    Conversations(Vec<ConversationRow>),
}

/// The writing half of a backend: used by one thread.
pub trait Store: Send + 'static {
    /// Applies a batch in one transaction, a savepoint each, synced as the durability setting says.
    /// Gives exactly one answer a request, in order. If the transaction itself fails, every answer is that error.
    fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>>;

    /// At start, holding the lock: bumps every epoch and gives back what a former life left sending
    /// (sending → unknown).
    fn begin_life(&mut self, at: Timestamp) -> Result<(), StoreError>;
}

/// A reading half of a backend: several may be used beside the writer.
pub trait StoreReader: Send + 'static {
    /// Answers one question from a consistent snapshot.
    fn read(&mut self, read: &Read) -> Result<Found, StoreError>;
}

/// What the store's actor takes. Used through its typed client, not by hand.
pub enum StoreMsg {
    /// For the writer.
    Write {
        /// The request.
        write: Write,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Written, StoreError>>,
    },
    /// For a reader.
    Read {
        /// The question.
        read: Read,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Found, StoreError>>,
    },
    /// The writer's thread has ended.
    WriterEnded {
        /// Why.
        cause: String,
    },
}

impl fmt::Debug for StoreMsg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

impl Message for StoreMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Write { .. } => "Write",
            Self::Read { .. } => "Read",
            Self::WriterEnded { .. } => "WriterEnded",
        }
    }
}

/// Rows by table, for tests and `doctor`.
pub type RowCounts = BTreeMap<String, u64>;
