//! What the store is asked to write, and what it answers.

use std::sync::Arc;

use jiff::Timestamp;

use super::{AuditRow, ChannelWrite, CrashRow, NewOutbox, OutboxRow, SpendKey, StoredMessage};
use crate::approval::{Approval, Decider, Decision, Grant, GrantScope};
use crate::chat::Usage;
use crate::delegation::NewChild;
use crate::envelope::{Envelope, Inbound};
use crate::ids::{
    ApprovalId, CallId, ChannelId, ConversationId, EnvelopeId, GrantId, OutboxId, TurnId,
};
use crate::journal::JournalEntry;
use crate::pairing::{Knocked, PairingWrite};
use crate::settings::OnUnknown;
use crate::tool::ProcessRecord;
use crate::turn::{CallRecord, Fence, TurnClaim, TurnFinish, TurnRecord, TurnState};

/// A request to the writer.
#[derive(Clone, Debug)]
pub enum Write {
    /// Take a message in: inbox row, turn id, conversation; or find the one already taken.
    Accept(Box<Accept>),
    /// Change who is paired, or see what came of a knock.
    Pairing(PairingWrite),
    /// What has ended long ago goes: one piece.
    Prune(Prune),
    /// Carry a command out that came as a message: its row, its effect and its answer, once.
    Command(Box<NewCommand>),
    /// The next row of a conversation: a running one without an actor first, then the oldest queued.
    Claim(Claim),
    /// A turn's step.
    Commit(Box<TurnCommit>),
    /// A turn that was claimed when it was accepted did not begin: it waits again, as if it had not been.
    ReturnClaim {
        /// The turn.
        turn: TurnId,
        /// Its conversation.
        conversation_id: ConversationId,
        /// Its fence.
        fence: Fence,
    },
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
    /// Delete a conversation, if nothing of it is going on.
    ForgetConversation {
        /// Which.
        id: ConversationId,
        /// Now.
        at: Timestamp,
        /// Who wants it gone.
        by: Decider,
    },
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
    /// A channel's sender begins anew. Nobody knows whether what a former one, or a former life, left sending
    /// has arrived: it becomes pending again, possibly repeated, or a dead letter.
    ReleaseOutbox {
        /// The channel.
        channel: ChannelId,
        /// Now.
        at: Timestamp,
        /// Which of the two.
        on_unknown: OnUnknown,
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
    /// Something a channel keeps.
    Channel(ChannelWrite),
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
    /// Its turn is claimed at once, if the message is new and nothing else of its conversation is open.
    pub claim: Option<ClaimTerms>,
    /// Now.
    pub at: Timestamp,
}

/// What has ended before these times goes; none keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prune {
    /// Journals of turns.
    pub journal_before: Option<Timestamp>,
    /// Turns with all that belongs to them, but their messages: after that a redelivery is a new message.
    pub inbox_before: Option<Timestamp>,
    /// At most so many turns are looked at, from the oldest on.
    pub limit: u32,
    /// Where the piece before ended; 0 begins with the oldest.
    pub after: i64,
}

/// A command that came as a message.
#[derive(Clone, Debug)]
pub struct NewCommand {
    /// The message, as it would be taken in.
    pub accept: Accept,
    /// What it changes.
    pub act: CommandAct,
    /// What its sender reads.
    pub reply: String,
    /// The channel posts answers: this one too.
    pub post: bool,
}

/// What a command changes in its conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandAct {
    /// Nothing.
    Nothing,
    /// The history of turns that are accepted from now on begins here.
    BeginAnew,
    /// This model answers: a provider profile; none is the agent's own.
    UseModel(Option<String>),
}

/// A session asks for its next row.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The conversation.
    pub conversation_id: ConversationId,
    /// Now.
    pub at: Timestamp,
    /// On which terms.
    pub terms: ClaimTerms,
}

/// On which terms a row is claimed.
#[derive(Clone, Debug)]
pub struct ClaimTerms {
    /// Attempts in a row that may end in a crash without having got any further; after that the turn is
    /// failed instead.
    pub max_attempts: u32,
    /// Load the newest messages up to about so many characters (whole turns).
    pub history_chars: usize,
    /// Channels whose waiting messages go together: those of one sender, in a row, become one turn.
    pub together: Arc<[ChannelId]>,
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
    /// Waiting turns whose messages this one takes in: they end as merged. The entry and the message of one
    /// that is not there to be taken any more are left out.
    pub merge: Vec<TurnId>,
    /// Calls to insert or update.
    pub calls: Vec<CallRecord>,
    /// The turn's new state.
    pub state: Option<TurnState>,
    /// Tokens so far.
    pub usage: Option<Usage>,
    /// With `usage`: what they cost, in millionths.
    pub cost_micros: u64,
    /// With `usage`: the day's sums it is added to.
    pub spend: Vec<SpendKey>,
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
            merge: Vec::new(),
            calls: Vec::new(),
            state: None,
            usage: None,
            cost_micros: 0,
            spend: Vec::new(),
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
    /// Turns that were to be merged and had ended before.
    pub unmerged: Vec<TurnId>,
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
    /// Its turn, claimed with it. Whoever gets this runs it, or returns it ([`Write::ReturnClaim`]).
    pub claim: Option<Box<TurnClaim>>,
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

/// The writer's answer; its variant follows the request's.
#[derive(Clone, Debug)]
pub enum Written {
    /// To [`Write::Accept`] and [`Write::Command`].
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
    /// To [`Write::Pairing`] of a knock.
    Knocked(Knocked),
    /// To [`Write::Prune`].
    Pruned {
        /// Where the next piece begins; none if this was the last.
        next: Option<i64>,
    },
    /// To [`ChannelWrite::Spool`]: whether the message is new.
    Spooled(bool),
    /// To [`ChannelWrite::Post`]: whether it is new.
    Posted(bool),
    /// To everything else.
    Done,
}
