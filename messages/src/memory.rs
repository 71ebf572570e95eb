//! What is remembered from one conversation to the next: entries, questions, and a backend's contract.
//!
//! Memory only grows by explicit writes (R11): nothing of a conversation becomes an entry by itself. A
//! backend keeps entries and finds them; who may see which, how old ones fade, and how they are shown to a
//! model is decided by the service, the same for all backends (R6).
//!
//! # Writing a backend
//!
//! Implement [`Memory`]; this module says all there is to know.
//!
//! - **Identity.** An entry's place is its agent, its scope and its key. Storing under a place that is taken
//!   *supersedes* the entry there: the newest is the one that counts, older ones may be kept as versions
//!   that nobody recalls. The same [`NewMemory::id`] stored twice is stored once.
//! - **Trust never rises.** What supersedes an entry has the lower [`Source`] of the two: text from outside
//!   does not become anybody's own words by being written down again (A100).
//! - **Filters first.** [`MemoryFilter`] decides which entries there are, as far as a question is concerned;
//!   limits, numbers and scores are taken from those alone. An entry that a filter leaves out takes no place
//!   and leaves no trace in an answer, neither by its text nor by a score (V-B15).
//! - **Scores are absolute.** 0 is *nothing to do with it*, 1 is *all that was asked for*. They are compared
//!   with a fixed floor, so the best of a bad lot must score low. A backend that can't tell gives none.
//! - **Text is text.** A question's text comes from strangers. It is words to look for, never a query
//!   language: whatever it holds, the answer is entries or nothing, not a syntax error.
//! - **Failure is a value.** A method gives an error or takes its time; callers have deadlines of their own,
//!   and a turn goes on without memory. Dropping a method's future gives its work up.

mod coverage;
mod error;

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

pub use coverage::{Coverage, Meanings};
pub use error::MemoryError;

use crate::BoxFuture;
use crate::address::Message;
use crate::ids::{AgentName, ConversationId, MemoryId, TurnId};

/// Most characters of a key.
pub const MAX_KEY_CHARS: usize = 120;
/// Most bytes of an entry's content.
pub const MAX_CONTENT_BYTES: usize = 8_192;
/// Most entries of one answer.
pub const MAX_ANSWER: u32 = 1_000;

/// What kind of thing an entry holds.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Category {
    /// Lasting facts and wishes. They don't fade.
    #[default]
    Core,
    /// What matters these days.
    Daily,
    /// What was said in a conversation.
    Conversation,
    /// A kind of the agent's own: 1 to 32 of `a-z`, `0-9`, `-`, `_`.
    Custom(String),
}

impl Category {
    /// Its word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Core => "core",
            Self::Daily => "daily",
            Self::Conversation => "conversation",
            Self::Custom(word) => word,
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Category {
    type Err = MemoryError;

    fn from_str(word: &str) -> Result<Self, MemoryError> {
        let plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        match word {
            "core" => Ok(Self::Core),
            "daily" => Ok(Self::Daily),
            "conversation" => Ok(Self::Conversation),
            word if (1..=32).contains(&word.len()) && word.bytes().all(plain) => {
                Ok(Self::Custom(word.to_owned()))
            }
            _ => Err(MemoryError::Invalid(
                "a category is core, daily, conversation, or a word of 1 to 32 of a-z, 0-9, - and _".to_owned(),
            )),
        }
    }
}

impl TryFrom<String> for Category {
    type Error = MemoryError;

    fn try_from(word: String) -> Result<Self, MemoryError> {
        word.parse()
    }
}

impl From<Category> for String {
    fn from(category: Category) -> Self {
        category.as_str().to_owned()
    }
}

/// Whose words an entry holds, the least trusted first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Written while content from outside was in the conversation: a page, a file, another program may have
    /// had a hand in it. Never shown to a model unasked.
    External,
    /// Written by the model, in a conversation with its people.
    Model,
    /// Written by a person, or by the program the service is part of.
    User,
}

impl Source {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::External => "external",
            Self::Model => "model",
            Self::User => "user",
        }
    }
}

impl FromStr for Source {
    type Err = MemoryError;

    fn from_str(word: &str) -> Result<Self, MemoryError> {
        [Self::External, Self::Model, Self::User]
            .into_iter()
            .find(|source| source.as_str() == word)
            .ok_or_else(|| MemoryError::Invalid("a source is external, model or user".to_owned()))
    }
}

/// Where an entry of an agent holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "scope", content = "conversation_id", rename_all = "snake_case")]
pub enum MemoryScope {
    /// In all its conversations.
    #[default]
    Agent,
    /// In one.
    Session(ConversationId),
}

impl MemoryScope {
    /// Its word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Session(_) => "session",
        }
    }
}

/// One thing remembered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemoryEntry {
    /// Its id.
    pub id: MemoryId,
    /// Whose it is.
    pub agent: AgentName,
    /// Where it holds.
    #[serde(flatten)]
    pub scope: MemoryScope,
    /// Its name within its scope.
    pub key: String,
    /// What is remembered.
    pub content: String,
    /// What kind of thing it is.
    pub category: Category,
    /// Whose words it holds.
    pub source: Source,
    /// The tool that had brought content from outside into the conversation it was written in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The turn that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// When it was written.
    #[serde(with = "crate::time::millis")]
    pub created_at: Timestamp,
    /// When it was written again, unchanged.
    #[serde(with = "crate::time::millis")]
    pub updated_at: Timestamp,
    /// The entry that took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<MemoryId>,
}

/// An entry that answers a question.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Recalled {
    /// The entry.
    #[serde(flatten)]
    pub entry: MemoryEntry,
    /// How much it has to do with the question, `0.0..=1.0`; none if the backend can't tell.
    pub score: Option<f64>,
}

/// An entry to be stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewMemory {
    /// Its id, made by whoever stores it: the same again is no second entry.
    pub id: MemoryId,
    /// Whose it is.
    pub agent: AgentName,
    /// Where it holds.
    pub scope: MemoryScope,
    /// Its name within its scope.
    pub key: String,
    /// What is remembered.
    pub content: String,
    /// What kind of thing it is.
    pub category: Category,
    /// Whose words it holds.
    pub source: Source,
    /// The tool that brought content from outside into the conversation, if one did.
    pub via: Option<String>,
    /// The turn that writes it.
    pub turn: Option<TurnId>,
    /// Now.
    pub at: Timestamp,
}

impl NewMemory {
    /// Refuses what no backend has to take: a blank or overlong key or content, a key with control
    /// characters in it.
    pub fn check(&self) -> Result<(), MemoryError> {
        let invalid = |why: String| Err(MemoryError::Invalid(why));
        if self.key.trim().is_empty() || self.key.chars().count() > MAX_KEY_CHARS {
            return invalid(format!(
                "a key has 1 to {MAX_KEY_CHARS} characters; shorten it, or give one"
            ));
        }
        if self.key.chars().any(char::is_control) || self.key.trim() != self.key {
            return invalid("a key is one line without white space around it".to_owned());
        }
        if self.content.trim().is_empty() {
            return invalid("the content is blank; say what is to be remembered".to_owned());
        }
        if self.content.len() > MAX_CONTENT_BYTES {
            return invalid(format!(
                "the content has more than {MAX_CONTENT_BYTES} bytes; store what matters of it, or several entries"
            ));
        }
        Ok(())
    }
}

/// What became of an entry that was stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The entry as it stands.
    pub entry: MemoryEntry,
    /// How it came to stand there.
    pub how: StoredAs,
}

/// How an entry came to stand in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoredAs {
    /// The place was free.
    New,
    /// It took the place of another.
    Superseding,
    /// The same stood there already, and is fresh again.
    Refreshed,
}

/// Which entries there are, as far as a question is concerned. Everything, by default: a turn's questions
/// come from [`MemoryFilter::of_turn`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemoryFilter {
    /// Of this agent. None: of all, for operators only.
    pub agent: Option<AgentName>,
    /// In these scopes. None: in all, for operators only.
    pub scopes: Option<Vec<MemoryScope>>,
    /// Of this category only.
    pub category: Option<Category>,
    /// Not of these.
    pub without: Vec<Category>,
    /// Of this source only.
    pub source: Option<Source>,
    /// Of this source or a more trusted one. None: of all.
    pub least_trust: Option<Source>,
}

impl MemoryFilter {
    /// What a turn of `agent` in `conversation` may see: the conversation's own entries, then the agent's;
    /// nothing that came from outside.
    pub fn of_turn(agent: AgentName, conversation: ConversationId) -> Self {
        Self {
            agent: Some(agent),
            scopes: Some(vec![MemoryScope::Session(conversation), MemoryScope::Agent]),
            least_trust: Some(Source::Model),
            ..Self::default()
        }
    }

    /// Whether an entry is one of those: what a backend's query has to come to.
    pub fn admits(&self, entry: &MemoryEntry) -> bool {
        self.agent.as_ref().is_none_or(|agent| *agent == entry.agent)
            && self.scopes.as_ref().is_none_or(|scopes| scopes.contains(&entry.scope))
            && self.category.as_ref().is_none_or(|category| *category == entry.category)
            && !self.without.contains(&entry.category)
            && self.source.is_none_or(|source| source == entry.source)
            && self.least_trust.is_none_or(|least| least <= entry.source)
    }
}

/// A question: what is known about this?
#[derive(Clone, PartialEq, Debug)]
pub struct RecallQuery {
    /// Among these.
    pub filter: MemoryFilter,
    /// What it is about, in anybody's words. Without anything to look for there is no answer.
    pub text: String,
    /// At most so many, the best first.
    pub limit: u32,
}

/// A question: what is there?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListQuery {
    /// Among these.
    pub filter: MemoryFilter,
    /// Under this key only.
    pub key: Option<String>,
    /// Superseded versions too.
    pub superseded: bool,
    /// Only those written before this one.
    pub before: Option<MemoryId>,
    /// At most so many, the newest first.
    pub limit: u32,
}

/// What is to be forgotten, for good, older versions with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forget {
    /// Among these.
    pub filter: MemoryFilter,
    /// Which of them.
    pub what: Forgotten,
}

/// Which entries are forgotten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Forgotten {
    /// This one.
    Id(MemoryId),
    /// Those under this key.
    Key(String),
    /// All.
    All,
}

/// A backend. See the module's documentation for what every method has to keep to.
pub trait Memory: Send + Sync + 'static {
    /// Stores an entry; what stood in its place is superseded. Refuses what [`NewMemory::check`] refuses.
    fn store(&self, new: NewMemory) -> BoxFuture<'_, Result<Stored, MemoryError>>;

    /// The entries that have to do with a text, the best first, among equals the newest. Superseded ones
    /// never.
    fn recall(&self, query: RecallQuery) -> BoxFuture<'_, Result<Vec<Recalled>, MemoryError>>;

    /// The entries there are, the newest first.
    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<Vec<MemoryEntry>, MemoryError>>;

    /// One entry, superseded or not.
    fn get(&self, id: MemoryId) -> BoxFuture<'_, Result<Option<MemoryEntry>, MemoryError>>;

    /// Forgets entries with all their versions; gives how many entries and versions are gone. Their text is
    /// gone from the disk too, as far as the backend can see to it.
    fn forget(&self, what: Forget) -> BoxFuture<'_, Result<u64, MemoryError>>;

    /// How much of it can be found, and how; none if the backend can't tell.
    fn coverage(&self) -> BoxFuture<'_, Result<Option<Coverage>, MemoryError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Work of the backend's own beside all questions, for as long as it lives. Dropped when it ends.
    fn tend(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether there is surely nothing to recall: asked before each turn, so it looks nothing up. `false` if
    /// in doubt.
    fn is_empty(&self) -> bool {
        false
    }

    /// The service stops, or starts the backend anew: what is under way is finished, files are closed.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Where an answer goes.
pub type MemoryReply<T> = oneshot::Sender<Result<T, MemoryError>>;

/// What memory's actor takes.
pub enum MemoryMsg {
    /// Store an entry.
    Store(Box<NewMemory>, MemoryReply<Stored>),
    /// Answer a question.
    Recall(RecallQuery, MemoryReply<Vec<Recalled>>),
    /// List entries.
    List(ListQuery, MemoryReply<Vec<MemoryEntry>>),
    /// Give one entry.
    Get(MemoryId, MemoryReply<Option<MemoryEntry>>),
    /// Forget entries.
    Forget(Forget, MemoryReply<u64>),
    /// Tell how much can be found.
    Coverage(MemoryReply<Option<Coverage>>),
}

impl fmt::Debug for MemoryMsg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

impl Message for MemoryMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Store(..) => "Store",
            Self::Recall(..) => "Recall",
            Self::List(..) => "List",
            Self::Get(..) => "Get",
            Self::Forget(..) => "Forget",
            Self::Coverage(..) => "Coverage",
        }
    }
}
