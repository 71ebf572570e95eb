//! Entries found by their meaning as well as by their words.
//!
//! Meanings are best effort. A question waits a moment for its vector and is answered by words alone
//! without it; a stored entry is read afterwards, beside everything else. A provider that fails is left
//! alone for a while, is counted, and is told of once.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::ids::MemoryId;
use rookery_messages::memory::{
    Coverage, Forget, ListQuery, Memory, MemoryEntry, MemoryError, NewMemory, RecallQuery,
    Recalled, Stored,
};
use rookery_messages::model::{ModelError, ModelErrorClass};
use rookery_messages::observe::Observation;
use rookery_messages::tool::head;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::meaning::{Embedder, Likeness, Question, checked, stored};
use super::sqlite::{SqliteMemory, Unread};
use crate::observe::ObserverHandle;
use crate::policy::redact::Redactor;

/// Most bytes of a text that is read.
const LONGEST: usize = 8_192;
/// Most entries read at once.
const BATCH: u32 = 32;
/// How long reading a batch may take.
const BATCH_LIMIT: Duration = Duration::from_secs(30);
/// Pause between batches: what is remembered already is in no hurry.
const BATCH_PAUSE: Duration = Duration::from_millis(100);
/// Entries may be left unread by a former life, or by another model: they are looked for now and then.
const LOOK_AGAIN: Duration = Duration::from_secs(600);
/// How long a provider that failed is left alone; doubles while it goes on failing.
const FIRST_REST: Duration = Duration::from_secs(2);
const LONGEST_REST: Duration = Duration::from_secs(120);
/// Most questions that wait for their vectors at once. More are answered by words alone.
const QUESTIONS: usize = 8;
/// Any provider can read this; one that can't has a fault of its own.
const PROBE: &str = "memory";

/// What meanings are made with.
pub struct HybridArgs {
    /// Reads texts.
    pub embedder: Arc<dyn Embedder>,
    /// What likeness says.
    pub likeness: Likeness,
    /// How long a question waits for its vector.
    pub patience: Duration,
    /// No configured secret goes to the provider in a text (I12).
    pub redactor: Arc<Redactor>,
    /// Is told of failures.
    pub observer: ObserverHandle,
}

/// See the module's documentation.
pub struct HybridMemory {
    words: SqliteMemory,
    args: HybridArgs,
    /// Something was stored.
    stored: Notify,
    places: Semaphore,
    standing: Mutex<Standing>,
}

/// How it went of late.
#[derive(Default)]
struct Standing {
    failures: u32,
    rests_until: Option<Instant>,
    trouble: Option<String>,
    /// How many numbers the model's vectors have.
    dimensions: Option<usize>,
}

impl HybridMemory {
    /// Over this file.
    pub fn new(words: SqliteMemory, args: HybridArgs) -> Self {
        let dimensions = args.embedder.dimensions();
        Self {
            words,
            args,
            stored: Notify::new(),
            places: Semaphore::new(QUESTIONS),
            standing: Mutex::new(Standing { dimensions, ..Standing::default() }),
        }
    }

    fn rests(&self) -> Option<Instant> {
        self.standing.lock().rests_until.filter(|until| Instant::now() < *until)
    }

    /// What a text means to the model; none if that can't be had in time.
    async fn question(&self, text: &str) -> Option<Question> {
        if text.trim().is_empty() || self.rests().is_some() {
            return None;
        }
        let _place = self.places.try_acquire().ok()?;
        let vectors = self.read(&[text], self.args.patience).await;
        let vectors = vectors.map_err(|error| self.failed("question", error)).ok()?;
        Some(Question {
            model: self.args.embedder.model().to_owned(),
            vector: vectors.into_iter().next()?,
            likeness: self.args.likeness,
        })
    }

    async fn read(&self, texts: &[&str], limit: Duration) -> Result<Vec<Vec<f32>>, ModelError> {
        let clean = |text: &&str| self.args.redactor.scrub(head(text, LONGEST));
        let texts: Vec<String> = texts.iter().map(clean).collect();
        let embedder = &self.args.embedder;
        let late = |_| {
            let what = format!("no vectors came within {} ms", limit.as_millis());
            Err(ModelError::new(ModelErrorClass::IdleTimeout, what))
        };
        let vectors = timeout(limit, embedder.embed(&texts, limit)).await.unwrap_or_else(late)?;
        let vectors = checked(&vectors, texts.len(), embedder.dimensions())?;
        let mut standing = self.standing.lock();
        if standing.failures > 0 {
            tracing::info!(provider = embedder.profile(), "memory goes by meanings again");
        }
        let dimensions = vectors.first().map(Vec::len).or(standing.dimensions);
        *standing = Standing { dimensions, ..Standing::default() };
        Ok(vectors)
    }

    fn failed(&self, what: &'static str, error: ModelError) {
        let first = {
            let mut standing = self.standing.lock();
            let now = Instant::now();
            // Of several under way the first one counts: the others met the same wall.
            if standing.rests_until.is_none_or(|until| until <= now) {
                let rest =
                    FIRST_REST.saturating_mul(2_u32.saturating_pow(standing.failures.min(16)));
                let rest = rest.max(error.retry_after.unwrap_or_default()).min(LONGEST_REST);
                standing.rests_until = Some(now + rest);
                standing.failures = standing.failures.saturating_add(1);
            }
            standing.trouble.replace(error.message.clone()).is_none()
        };
        self.args.observer.observe(Observation::MeaningFailed {
            provider: self.args.embedder.profile().to_owned(),
            what,
            error: error.class,
            cause: error.message,
            first,
        });
    }

    /// Reads some of the entries that are still unread. Whether there may be more; none after a failure.
    async fn read_some(&self) -> Option<bool> {
        let model = self.args.embedder.model();
        let bytes = self.standing.lock().dimensions.map(|numbers| numbers * 4);
        let unread = match self.words.unread(model, bytes, BATCH).await {
            Ok(unread) => unread,
            Err(error) => {
                tracing::debug!(%error, "entries could not be looked for");
                return Some(false);
            }
        };
        if unread.is_empty() {
            return Some(false);
        }
        let texts: Vec<&str> = unread.iter().map(|entry| entry.text.as_str()).collect();
        let read = match self.read(&texts, BATCH_LIMIT).await {
            Ok(vectors) => {
                unread.into_iter().zip(vectors.iter().map(|vector| stored(vector))).collect()
            }
            Err(error) if is_refusal(&error) => self.read_each(unread).await?,
            Err(error) => {
                self.failed("entries", error);
                return None;
            }
        };
        if let Err(error) = self.words.keep(model, read).await {
            tracing::debug!(%error, "vectors could not be kept");
            return Some(false);
        }
        Some(true)
    }

    /// One of these can't be read: which?
    async fn read_each(&self, unread: Vec<Unread>) -> Option<Vec<(Unread, Vec<u8>)>> {
        let failed = |error| self.failed("entries", error);
        self.read(&[PROBE], BATCH_LIMIT).await.map_err(failed).ok()?;
        let mut read = Vec::with_capacity(unread.len());
        for entry in unread {
            let vector = match self.read(&[&entry.text], BATCH_LIMIT).await {
                Ok(vectors) => vectors.first().map(|vector| stored(vector)).unwrap_or_default(),
                Err(error) if is_refusal(&error) => Vec::new(),
                Err(error) => {
                    failed(error);
                    return None;
                }
            };
            read.push((entry, vector));
        }
        Some(read)
    }

    async fn keep_reading(&self) {
        loop {
            if let Some(until) = self.rests() {
                sleep_until(until).await;
            }
            match self.read_some().await {
                Some(true) => sleep(BATCH_PAUSE).await,
                Some(false) => {
                    // Nothing else to do: whatever is stored meanwhile wakes it.
                    let _ = timeout(LOOK_AGAIN, self.stored.notified()).await;
                }
                None => {}
            }
        }
    }
}

/// The request itself is refused, and would be again.
fn is_refusal(error: &ModelError) -> bool {
    matches!(error.class, ModelErrorClass::InvalidRequest | ModelErrorClass::ContextTooLong)
}

impl Memory for HybridMemory {
    fn store(&self, new: NewMemory) -> BoxFuture<'_, Result<Stored, MemoryError>> {
        Box::pin(async move {
            let stored = self.words.store(new).await?;
            self.stored.notify_one();
            Ok(stored)
        })
    }

    fn recall(&self, query: RecallQuery) -> BoxFuture<'_, Result<Vec<Recalled>, MemoryError>> {
        Box::pin(async move {
            let question = self.question(&query.text).await;
            self.words.recall_by(query, question).await
        })
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<Vec<MemoryEntry>, MemoryError>> {
        self.words.list(query)
    }

    fn get(&self, id: MemoryId) -> BoxFuture<'_, Result<Option<MemoryEntry>, MemoryError>> {
        self.words.get(id)
    }

    fn forget(&self, what: Forget) -> BoxFuture<'_, Result<u64, MemoryError>> {
        self.words.forget(what)
    }

    fn coverage(&self) -> BoxFuture<'_, Result<Option<Coverage>, MemoryError>> {
        Box::pin(async move {
            let bytes = self.standing.lock().dimensions.map(|numbers| numbers * 4);
            let mut coverage = self.words.coverage_of(self.args.embedder.model(), bytes).await?;
            if let Some(meanings) = &mut coverage.meanings {
                meanings.trouble = self.standing.lock().trouble.clone();
            }
            Ok(Some(coverage))
        })
    }

    fn tend(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.keep_reading())
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.words.close()
    }
}

#[cfg(test)]
mod tests;
