//! The backend on real files.

mod approvals;
mod channels;
mod children;
mod commands;
mod file;
mod inbox;
mod merging;
mod outbox;
mod pairing;
mod posts;
mod property;
mod records;
mod retention;
mod turns;

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use rookery_messages::approval::{Approval, ApprovalState, Decider, GrantOffer, Risk};
use rookery_messages::envelope::{Inbound, Sender, TurnOrigin};
use rookery_messages::ids::{
    AgentName, ApprovalId, CallId, ChannelId, ConversationId, EnvelopeId, MessageId, OutboxId,
    TurnId,
};
use rookery_messages::journal::{JournalEntry, JournalKind};
use rookery_messages::settings::Durability;
use rookery_messages::store::*;
use rookery_messages::turn::{Outcome, TurnClaim, TurnFinish, TurnRecord};
use rookery_messages::{chat::ChatMessage, chat::Usage};
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;

use super::{SqliteOptions, SqliteReader, SqliteStore, open, open_reader};

/// A database of its own, with ids and time that are the same in every run.
pub(in crate::store) struct Db {
    pub(in crate::store) dir: TempDir,
    pub(in crate::store) store: SqliteStore,
    pub(in crate::store) reader: SqliteReader,
    next_id: u128,
    seconds: i64,
}

pub(in crate::store) fn options(dir: &TempDir) -> SqliteOptions {
    SqliteOptions { path: dir.path().join("rookery.db"), durability: Durability::Process }
}

/// Three attempts, all of the history, nothing goes together.
pub(in crate::store) fn terms() -> ClaimTerms {
    ClaimTerms { max_attempts: 3, history_chars: 100_000, together: Default::default() }
}

impl Db {
    pub(in crate::store) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&options(&dir)).unwrap();
        let reader = open_reader(store.path()).unwrap();
        Self { dir, store, reader, next_id: 0, seconds: 0 }
    }

    /// The file is opened anew, as after the end of the process.
    pub(in crate::store) fn restart(self) -> Self {
        let Self { dir, store, reader, next_id, seconds } = self;
        drop(reader);
        drop(store);
        let mut store = open(&options(&dir)).unwrap();
        let reader = open_reader(store.path()).unwrap();
        let mut db = Self {
            dir,
            reader,
            next_id,
            seconds,
            store: {
                store.begin_life(at(seconds + 1)).unwrap();
                store
            },
        };
        db.seconds += 1;
        db
    }

    /// Runs a statement that no request makes.
    pub(in crate::store) fn execute(&self, sql: &str) -> rusqlite::Result<usize> {
        self.store.conn.execute(sql, [])
    }

    pub(in crate::store) fn path(&self) -> PathBuf {
        self.store.path().to_owned()
    }

    pub(in crate::store) fn id(&mut self) -> Uuid {
        self.next_id += 1;
        Uuid::from_u128(self.next_id)
    }

    pub(in crate::store) fn now(&mut self) -> Timestamp {
        self.seconds += 1;
        at(self.seconds)
    }

    pub(in crate::store) fn write(&mut self, write: Write) -> Result<Written, StoreError> {
        self.store.apply(&[write]).pop().unwrap()
    }

    pub(in crate::store) fn read(&mut self, read: Read) -> Found {
        self.reader.read(&read).unwrap()
    }

    /// A message `external` of `conversation` in channel `test`.
    pub(in crate::store) fn message(&mut self, conversation: &str, external: &str) -> Accept {
        Accept {
            inbound: Inbound {
                channel: channel(),
                external_id: external.to_owned(),
                sender: Sender::person("ann"),
                conversation: conversation.to_owned(),
                thread: None,
                text: format!("text of {external}"),
                attachments: Vec::new(),
                origin: TurnOrigin::Channel,
                agent: AgentName::new("home"),
            },
            envelope: EnvelopeId(self.id()),
            turn: TurnId(self.id()),
            conversation_id: ConversationId(self.id()),
            queue_limit: 20,
            child: None,
            claim: None,
            at: self.now(),
        }
    }

    pub(in crate::store) fn accept(&mut self, accept: Accept) -> AcceptOutcome {
        match self.write(Write::Accept(Box::new(accept))).unwrap() {
            Written::Accepted(outcome) => *outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Accepts a message; gives its turn and conversation.
    pub(in crate::store) fn take(
        &mut self,
        conversation: &str,
        external: &str,
    ) -> (TurnId, ConversationId) {
        let message = self.message(conversation, external);
        let envelope = self.accept(message).envelope;
        (envelope.turn, envelope.conversation_id)
    }

    pub(in crate::store) fn claim_with(&mut self, claim: Claim) -> ClaimOutcome {
        match self.write(Write::Claim(claim)).unwrap() {
            Written::Claimed(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }

    pub(in crate::store) fn claim_request(&mut self, conversation_id: ConversationId) -> Claim {
        Claim { conversation_id, at: self.now(), terms: terms() }
    }

    pub(in crate::store) fn claim(&mut self, conversation: ConversationId) -> TurnClaim {
        let request = self.claim_request(conversation);
        match self.claim_with(request) {
            ClaimOutcome::Turn(claim) => *claim,
            other => panic!("{other:?}"),
        }
    }

    /// An empty step of a claimed turn.
    pub(in crate::store) fn step(&mut self, claim: &TurnClaim) -> TurnCommit {
        let at = self.now();
        TurnCommit::new(claim.record.id, claim.record.conversation_id, claim.fence, at)
    }

    pub(in crate::store) fn commit(&mut self, commit: TurnCommit) -> Result<CommitAck, StoreError> {
        match self.write(Write::Commit(Box::new(commit)))? {
            Written::Committed(ack) => Ok(ack),
            other => panic!("{other:?}"),
        }
    }

    /// The last step of a turn: an answer, with its reply in the outbox.
    pub(in crate::store) fn ending(&mut self, claim: &TurnClaim, seq: u64) -> TurnCommit {
        let mut step = self.step(claim);
        let finish = TurnFinish {
            outcome: Outcome::Answered,
            reply: Some("done".to_owned()),
            error: None,
            usage: Usage { input: 7, output: 2 },
        };
        step.entries.push(entry(claim, seq, JournalKind::Ended { finish: finish.clone() }));
        step.messages.push(StoredMessage {
            id: MessageId(self.id()),
            turn: claim.record.id,
            at: step.at,
            message: ChatMessage::assistant("done"),
        });
        step.outbox.push(NewOutbox {
            id: OutboxId(self.id()),
            channel: claim.reply_address.channel.clone(),
            address: claim.reply_address.clone(),
            payload: OutboxPayload::Reply {
                turn: claim.record.id,
                outcome: Outcome::Answered,
                text: "done".to_owned(),
            },
        });
        step.finish = Some(finish);
        step
    }

    /// Claims and answers the conversation's next turn.
    pub(in crate::store) fn answer(&mut self, conversation: ConversationId) -> TurnClaim {
        let claim = self.claim(conversation);
        let ending = self.ending(&claim, 1);
        self.commit(ending).unwrap();
        claim
    }

    pub(in crate::store) fn turn(&mut self, id: TurnId) -> TurnRecord {
        match self.read(Read::Turn(id)) {
            Found::Turn(Some(record)) => *record,
            other => panic!("{other:?}"),
        }
    }

    pub(in crate::store) fn ledger(&mut self) -> Ledger {
        match self.read(Read::Ledger) {
            Found::Ledger(ledger) => ledger,
            other => panic!("{other:?}"),
        }
    }

    pub(in crate::store) fn history(&mut self, conversation: &str) -> Vec<StoredMessage> {
        let conversation = conversation.to_owned();
        match self.read(Read::Messages { channel: channel(), conversation, limit: 1_000 }) {
            Found::Messages(Some(messages)) => messages,
            other => panic!("{other:?}"),
        }
    }

    pub(in crate::store) fn dead_letters(&mut self) -> Vec<DeadLetter> {
        match self.read(Read::DeadLetters) {
            Found::DeadLetters(letters) => letters,
            other => panic!("{other:?}"),
        }
    }

    /// Actions in the audit, oldest first.
    pub(in crate::store) fn audit(&mut self) -> Vec<(String, String)> {
        match self.read(Read::Audit { since: None, limit: 1_000 }) {
            Found::Audit(rows) => rows.into_iter().rev().map(|row| (row.action, row.who)).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub(in crate::store) fn claim_outbox(&mut self, at: Timestamp) -> Vec<OutboxRow> {
        match self.write(Write::ClaimOutbox { channel: channel(), at, limit: 100 }).unwrap() {
            Written::Outbox(rows) => rows,
            other => panic!("{other:?}"),
        }
    }

    /// A pending request of a claimed turn, for Ann or Bob, that expires after an hour.
    pub(in crate::store) fn approval(&mut self, claim: &TurnClaim) -> Approval {
        let asked_at = self.now();
        Approval {
            id: ApprovalId(self.id()),
            turn: claim.record.id,
            conversation_id: claim.record.conversation_id,
            channel: channel(),
            call: CallId(self.id()),
            tool: "file_write".to_owned(),
            arguments: json!({"path": "a.txt", "content": "x", "ratio": 0.1}),
            arguments_hash: "hash".to_owned(),
            risk: Risk::Medium,
            reason: "writes".to_owned(),
            asked_at,
            expires_at: asked_at + SignedDuration::from_hours(1),
            approvers: vec!["ann".to_owned(), "bob".to_owned()],
            asked_for: None,
            summary: "path=a.txt".to_owned(),
            offer: Some(GrantOffer {
                pattern: "file_write {}".to_owned(),
                key: "key".to_owned(),
                narrow: false,
            }),
            batch: None,
            route: None,
            state: ApprovalState::Pending,
            decision: None,
            decided_by: None,
            decided_at: None,
        }
    }
}

pub(in crate::store) fn channel() -> ChannelId {
    ChannelId::new("test")
}

pub(in crate::store) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

pub(in crate::store) fn decider(who: &str) -> Decider {
    Decider { who: who.to_owned(), via: "test".to_owned() }
}

pub(in crate::store) fn entry(claim: &TurnClaim, seq: u64, kind: JournalKind) -> JournalEntry {
    JournalEntry { attempt: claim.fence.attempt, seq, kind }
}

pub(in crate::store) fn notice(text: &str) -> JournalKind {
    JournalKind::Notice { text: text.to_owned() }
}
