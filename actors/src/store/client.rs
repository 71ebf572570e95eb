//! The typed client of the store: one method a request, each with a deadline.
//!
//! A write whose answer does not come in time may have been committed. Those that carry their own key
//! are sent again under it, so that the caller learns what stands; the others are reported as `Timeout`.

use std::time::Duration;

use jiff::Timestamp;
use rookery_messages::address::{Address, SendError};
use rookery_messages::approval::{Approval, Decider, Grant};
use rookery_messages::envelope::Inbound;
use rookery_messages::ids::{
    AgentName, ApprovalId, CallId, ChannelId, ConversationId, GrantId, OutboxId, TurnId,
};
use rookery_messages::pairing::{Knock, Knocked, Pairing, PairingWrite};
use rookery_messages::settings::OnUnknown;
use rookery_messages::store::{
    Accept, AcceptOutcome, AuditRow, Backlog, CallTrail, CancelOutcome, Claim, ClaimOutcome,
    CommitAck, ConversationRow, CrashRow, DeadLetter, DecideApproval, DecideOutcome, Desk, Found,
    Ledger, NewCommand, OutboxRow, Prune, Read, SendResult, SpendKey, Spent, StoreError, StoreMsg,
    StoredMessage, TurnCommit, Write, Written,
};
use rookery_messages::tool::ProcessRecord;
use rookery_messages::turn::{Fence, TurnRecord, TurnState};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

/// How long one try waits for a place and for the answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often a request with a key of its own is sent in all.
const TRIES: u32 = 3;
/// How long it waits between looks at a store that restarts.
const RESTART_STEP: Duration = Duration::from_millis(50);
/// How long it waits for a place in one incarnation's mailbox before it looks which one lives.
const PLACE_STEP: Duration = Duration::from_secs(1);

/// The store, as every other actor's tasks see it. Cheap to clone; refused inside a handler.
#[derive(Clone, Debug)]
pub struct StoreClient {
    address: Address<StoreMsg>,
}

/// How a try ended without an answer of the store.
enum Lost {
    /// It was not sent: nothing was written.
    Unsent(StoreError),
    /// It was sent, and no answer came in time: it may have been written.
    Late,
    /// It was sent, and whoever had it in hand ended: it may have been written.
    Dropped,
}

impl StoreClient {
    /// A client of the store at `address`.
    pub fn new(address: Address<StoreMsg>) -> Self {
        Self { address }
    }

    /// Sends what `message` makes of a fresh reply, and waits for the answer.
    async fn try_once<T>(
        &self,
        message: impl Fn(oneshot::Sender<Result<T, StoreError>>) -> StoreMsg,
    ) -> Result<Result<T, StoreError>, Lost> {
        let deadline = Instant::now() + DEADLINE;
        let answer = self.deliver(&message, deadline).await.map_err(Lost::Unsent)?;
        match timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_dropped)) => Err(Lost::Dropped),
            Err(_elapsed) => Err(Lost::Late),
        }
    }

    async fn deliver<T>(
        &self,
        message: &impl Fn(oneshot::Sender<Result<T, StoreError>>) -> StoreMsg,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Result<T, StoreError>>, StoreError> {
        loop {
            let (reply, answer) = oneshot::channel();
            let step = deadline.min(Instant::now() + PLACE_STEP);
            let refusal = match timeout_at(step, self.address.send(message(reply))).await {
                Ok(Ok(())) => return Ok(answer),
                Ok(Err(SendError::Closed(_))) => return Err(StoreError::Closed),
                Ok(Err(SendError::InHandler(_))) => {
                    let text = "a handler asked the store and would wait; ask from a task";
                    return Err(StoreError::Failed(text.to_owned()));
                }
                Ok(Err(SendError::Restarting(_))) => {
                    sleep(RESTART_STEP).await;
                    StoreError::Unavailable("the store is restarting".to_owned())
                }
                Ok(Err(SendError::Full(_))) | Err(_) => StoreError::Busy,
            };
            if Instant::now() >= deadline {
                return Err(refusal);
            }
        }
    }

    async fn write(&self, write: Write) -> Result<Written, StoreError> {
        let tries = if has_key(&write) { TRIES } else { 1 };
        let mut unknown = false;
        for _ in 0..tries {
            let message = |reply| StoreMsg::Write { write: write.clone(), reply };
            // Boxed: the futures of all that write are as large as this one.
            let error = match Box::pin(self.try_once(message)).await {
                Ok(Ok(written)) => return Ok(written),
                Ok(Err(error)) | Err(Lost::Unsent(error)) => error,
                Err(Lost::Late | Lost::Dropped) => {
                    unknown = true;
                    continue;
                }
            };
            // These say that this try wrote nothing; of a former one they say nothing.
            let silent = error.is_transient() || error == StoreError::Closed;
            return Err(if unknown && silent { StoreError::Timeout } else { error });
        }
        Err(StoreError::Timeout)
    }

    async fn read(&self, read: Read) -> Result<Found, StoreError> {
        for _ in 0..TRIES {
            let message = |reply| StoreMsg::Read { read: read.clone(), reply };
            match Box::pin(self.try_once(message)).await {
                Ok(answer) => return answer,
                Err(Lost::Unsent(error)) => return Err(error),
                Err(Lost::Late) => break,
                Err(Lost::Dropped) => {}
            }
        }
        Err(StoreError::Timeout)
    }
}

/// Whether sending it twice does what sending it once does.
fn has_key(write: &Write) -> bool {
    match write {
        Write::Accept(_)
        | Write::Command(_)
        | Write::Prune(_)
        | Write::Commit(_)
        | Write::ReturnClaim { .. }
        | Write::ReleaseTurn { .. }
        | Write::CancelTurn { .. }
        | Write::DecideApproval(_)
        | Write::RevokeGrant { .. }
        | Write::ForgetConversation { .. }
        | Write::ReleaseOutbox { .. }
        | Write::MarkOutbox { .. }
        | Write::Channel(_)
        | Write::ProcessStarted(_)
        | Write::ProcessEnded { .. } => true,
        // A claim's loss costs an attempt, which is the caller's to spend; the others add or remove rows.
        Write::Claim(_)
        | Write::ClaimOutbox { .. }
        | Write::DeadLetter { .. }
        | Write::Pairing(_)
        | Write::Crash(_)
        | Write::Audit(_) => false,
    }
}

fn mixed_up<T>() -> Result<T, StoreError> {
    Err(StoreError::Failed("the store answered another request".to_owned()))
}

/// Takes the answer apart that belongs to the request.
macro_rules! answer {
    ($answer:expr, $variant:path) => {
        match $answer {
            $variant(value) => Ok(value),
            _ => mixed_up(),
        }
    };
}

mod channel;

/// Writes.
impl StoreClient {
    /// Takes a message in, once.
    pub async fn accept(&self, accept: Accept) -> Result<AcceptOutcome, StoreError> {
        answer!(self.write(Write::Accept(Box::new(accept))).await?, Written::Accepted)
            .map(|found| *found)
    }

    /// Changes who is paired.
    pub async fn pairing(&self, write: PairingWrite) -> Result<(), StoreError> {
        self.done(Write::Pairing(write)).await
    }

    /// Somebody who is not allowed says something.
    pub async fn knock(&self, knock: Knock) -> Result<Knocked, StoreError> {
        let write = Write::Pairing(PairingWrite::Knock(knock));
        answer!(self.write(write).await?, Written::Knocked)
    }

    /// One piece of what has ended long ago goes; tells where the next one begins.
    pub async fn prune(&self, prune: Prune) -> Result<Option<i64>, StoreError> {
        match self.write(Write::Prune(prune)).await? {
            Written::Pruned { next } => Ok(next),
            _ => mixed_up(),
        }
    }

    /// Carries out a command that came as a message, once.
    pub async fn command(&self, command: NewCommand) -> Result<AcceptOutcome, StoreError> {
        let written = self.write(Write::Command(Box::new(command))).await?;
        answer!(written, Written::Accepted).map(|found| *found)
    }

    /// The conversation's next row. Not sent again by itself: a lost answer costs an attempt.
    pub async fn claim(&self, claim: Claim) -> Result<ClaimOutcome, StoreError> {
        answer!(self.write(Write::Claim(claim)).await?, Written::Claimed)
    }

    /// Writes a turn's step.
    pub async fn commit(&self, commit: TurnCommit) -> Result<CommitAck, StoreError> {
        answer!(self.write(Write::Commit(Box::new(commit))).await?, Written::Committed)
    }

    /// A turn that was claimed when it was accepted did not begin: it waits again.
    pub async fn return_claim(
        &self,
        turn: TurnId,
        conversation_id: ConversationId,
        fence: Fence,
    ) -> Result<(), StoreError> {
        self.done(Write::ReturnClaim { turn, conversation_id, fence }).await
    }

    /// The turn's actor leaves in good order, to be taken up by a later life.
    pub async fn release_turn(
        &self,
        turn: TurnId,
        conversation_id: ConversationId,
        fence: Fence,
    ) -> Result<(), StoreError> {
        self.done(Write::ReleaseTurn { turn, conversation_id, fence }).await
    }

    /// Ends a queued turn, or marks a running one.
    pub async fn cancel_turn(
        &self,
        turn: TurnId,
        at: Timestamp,
        by: Decider,
    ) -> Result<CancelOutcome, StoreError> {
        answer!(self.write(Write::CancelTurn { turn, at, by }).await?, Written::Cancelled)
    }

    /// Decides an approval, or learns what stands.
    pub async fn decide(&self, request: DecideApproval) -> Result<DecideOutcome, StoreError> {
        answer!(self.write(Write::DecideApproval(request)).await?, Written::Decided)
    }

    /// Takes a grant back; gives it as it stands, or none if there is no such grant.
    pub async fn revoke_grant(
        &self,
        id: GrantId,
        at: Timestamp,
        by: Decider,
    ) -> Result<Option<Grant>, StoreError> {
        answer!(self.write(Write::RevokeGrant { id, at, by }).await?, Written::Revoked)
            .map(|found| found.map(|grant| *grant))
    }

    /// A conversation goes for good, if nothing of it is going on.
    pub async fn forget_conversation(
        &self,
        id: ConversationId,
        at: Timestamp,
        by: Decider,
    ) -> Result<(), StoreError> {
        self.done(Write::ForgetConversation { id, at, by }).await
    }

    /// Takes due rows of a channel's outbox: each conversation's first.
    pub async fn claim_outbox(
        &self,
        channel: ChannelId,
        at: Timestamp,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        answer!(self.write(Write::ClaimOutbox { channel, at, limit }).await?, Written::Outbox)
    }

    /// Gives back what a former sender of the channel left sending, or puts it with the dead letters.
    pub async fn release_outbox(
        &self,
        channel: ChannelId,
        at: Timestamp,
        on_unknown: OnUnknown,
    ) -> Result<(), StoreError> {
        self.done(Write::ReleaseOutbox { channel, at, on_unknown }).await
    }

    /// Writes how a send went.
    pub async fn mark_outbox(
        &self,
        id: OutboxId,
        at: Timestamp,
        result: SendResult,
    ) -> Result<(), StoreError> {
        self.done(Write::MarkOutbox { id, at, result }).await
    }

    /// Sends a dead letter again, or throws it away.
    pub async fn dead_letter(
        &self,
        id: OutboxId,
        retry: bool,
        at: Timestamp,
        by: Decider,
    ) -> Result<(), StoreError> {
        self.done(Write::DeadLetter { id, retry, at, by }).await
    }

    /// Records a process group.
    pub async fn process_started(&self, record: ProcessRecord) -> Result<(), StoreError> {
        self.done(Write::ProcessStarted(record)).await
    }

    /// Forgets a process group.
    pub async fn process_ended(&self, pgid: i32, call: CallId) -> Result<(), StoreError> {
        self.done(Write::ProcessEnded { pgid, call }).await
    }

    /// Records an actor's crash.
    pub async fn crash(&self, row: CrashRow) -> Result<(), StoreError> {
        self.done(Write::Crash(row)).await
    }

    /// Appends to the audit.
    pub async fn audit(&self, row: AuditRow) -> Result<(), StoreError> {
        self.done(Write::Audit(row)).await
    }

    async fn done(&self, write: Write) -> Result<(), StoreError> {
        match self.write(write).await? {
            Written::Done => Ok(()),
            _ => mixed_up(),
        }
    }
}

/// Reads.
impl StoreClient {
    /// What was spent on the day of `at`, in the order of the keys.
    pub async fn spent(
        &self,
        at: Timestamp,
        keys: Vec<SpendKey>,
    ) -> Result<Vec<Spent>, StoreError> {
        answer!(self.read(Read::Spent { at, keys }).await?, Found::Spent)
    }

    /// Who paired, with which channel.
    pub async fn pairings(&self) -> Result<Vec<Pairing>, StoreError> {
        answer!(self.read(Read::Pairings).await?, Found::Pairings)
    }

    /// What a command has to know of its conversation.
    pub async fn desk(&self, command: &Inbound) -> Result<Desk, StoreError> {
        let read = Read::Desk {
            channel: command.channel.clone(),
            conversation: command.conversation.clone(),
            agent: command.agent.clone(),
            external_id: command.external_id.clone(),
        };
        answer!(self.read(read).await?, Found::Desk).map(|found| *found)
    }

    /// One turn.
    pub async fn turn(&self, id: TurnId) -> Result<Option<TurnRecord>, StoreError> {
        answer!(self.read(Read::Turn(id)).await?, Found::Turn).map(|found| found.map(|turn| *turn))
    }

    /// What journal and history say of one call; none if there is no such turn.
    pub async fn call_trail(
        &self,
        turn: TurnId,
        call: CallId,
    ) -> Result<Option<CallTrail>, StoreError> {
        answer!(self.read(Read::CallTrail { turn, call }).await?, Found::CallTrail)
            .map(|found| found.map(|trail| *trail))
    }

    /// Turns, newest first.
    pub async fn turns(
        &self,
        conversation: Option<String>,
        channel: Option<ChannelId>,
        state: Option<TurnState>,
        limit: u32,
    ) -> Result<Vec<TurnRecord>, StoreError> {
        let read = Read::Turns { conversation, channel, state, limit };
        answer!(self.read(read).await?, Found::Turns)
    }

    /// Background tasks of a conversation, newest first.
    pub async fn tasks(
        &self,
        root: ConversationId,
        limit: u32,
    ) -> Result<Vec<TurnRecord>, StoreError> {
        answer!(self.read(Read::Tasks { root, limit }).await?, Found::Turns)
    }

    /// A conversation's newest messages, oldest first; `None` if there is no such conversation.
    pub async fn messages(
        &self,
        channel: ChannelId,
        conversation: String,
        limit: u32,
    ) -> Result<Option<Vec<StoredMessage>>, StoreError> {
        let read = Read::Messages { channel, conversation, limit };
        answer!(self.read(read).await?, Found::Messages)
    }

    /// Conversations with an open row, the longest waiting first.
    pub async fn open_conversations(&self) -> Result<Vec<ConversationId>, StoreError> {
        answer!(self.read(Read::OpenConversations).await?, Found::OpenConversations)
    }

    /// Whether a conversation has an open row.
    pub async fn has_open(&self, conversation: ConversationId) -> Result<bool, StoreError> {
        answer!(self.read(Read::HasOpen(conversation)).await?, Found::Flag)
    }

    /// Approvals, oldest first.
    pub async fn approvals(&self, pending: bool, limit: u32) -> Result<Vec<Approval>, StoreError> {
        answer!(self.read(Read::Approvals { pending, limit }).await?, Found::Approvals)
    }

    /// One approval.
    pub async fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        answer!(self.read(Read::Approval(id)).await?, Found::Approval)
            .map(|found| found.map(|approval| *approval))
    }

    /// A grant that covers a call with this key at `at`.
    pub async fn grant(
        &self,
        conversation_id: ConversationId,
        agent: AgentName,
        tool: String,
        key: String,
        at: Timestamp,
    ) -> Result<Option<Grant>, StoreError> {
        let read = Read::Grant { conversation_id, agent, tool, key, at };
        answer!(self.read(read).await?, Found::Grant).map(|found| found.map(|grant| *grant))
    }

    /// Grants, newest first; ended and revoked ones only if `all`.
    pub async fn grants(
        &self,
        all: bool,
        at: Timestamp,
        limit: u32,
    ) -> Result<Vec<Grant>, StoreError> {
        answer!(self.read(Read::Grants { all, at, limit }).await?, Found::Grants)
    }

    /// How accepted envelopes ended.
    pub async fn ledger(&self) -> Result<Ledger, StoreError> {
        answer!(self.read(Read::Ledger).await?, Found::Ledger)
    }

    /// What is under way, and what waits.
    pub async fn backlog(&self) -> Result<Backlog, StoreError> {
        answer!(self.read(Read::Backlog).await?, Found::Backlog)
    }

    /// Dead letters, oldest first.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, StoreError> {
        answer!(self.read(Read::DeadLetters).await?, Found::DeadLetters)
    }

    /// Crashes, newest first.
    pub async fn crashes(&self, limit: u32) -> Result<Vec<CrashRow>, StoreError> {
        answer!(self.read(Read::Crashes { limit }).await?, Found::Crashes)
    }

    /// Process groups that are recorded as alive.
    pub async fn processes(&self) -> Result<Vec<ProcessRecord>, StoreError> {
        answer!(self.read(Read::Processes).await?, Found::Processes)
    }

    /// The audit, newest first.
    pub async fn audit_rows(
        &self,
        since: Option<Timestamp>,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        answer!(self.read(Read::Audit { since, limit }).await?, Found::Audit)
    }

    /// When the next outbox row of a channel is due.
    pub async fn outbox_due(&self, channel: ChannelId) -> Result<Option<Timestamp>, StoreError> {
        answer!(self.read(Read::OutboxDue(channel)).await?, Found::Due)
    }

    /// Conversations, newest first.
    pub async fn conversations(&self, limit: u32) -> Result<Vec<ConversationRow>, StoreError> {
        answer!(self.read(Read::Conversations { limit }).await?, Found::Conversations)
    }
}
