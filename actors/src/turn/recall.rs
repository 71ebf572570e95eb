//! What a turn is told of memory, unasked: asked for once, when the turn begins, and told in each of its
//! requests; never written into the history (R6, V-B17).
//!
//! The question runs beside the turn's first commit. A memory that fails, or is slow, costs the turn no more
//! than its deadline; one that is empty, or switched off, costs nothing.

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::chat::ChatMessage;
use rookery_messages::memory::{Memory, MemoryError, MemoryFilter, RecallQuery};
use rookery_messages::observe::Observation;
use rookery_messages::tool::head;
use rookery_messages::turn::{TurnClaim, TurnMsg};
use tokio::time::{Instant, timeout};

use super::actor::TurnActor;
use super::prepare::Judge;
use super::window::estimate;
use crate::memory::{Block, Floor, arranged, injection, render};
use crate::observe::TurnVoice;
use crate::runtime::Ctx;

/// Entries that are looked at: more than are shown, since some fade below the floor.
const CANDIDATES: u32 = 32;
/// Most bytes of a message that memory is asked about.
const QUESTION: usize = 8_192;

/// An agent's way to memory.
#[derive(Clone)]
pub struct MemoryAccess {
    /// The memory.
    pub memory: Arc<dyn Memory>,
    /// What decides whether an entry is told.
    pub floor: Floor,
    /// How long a turn waits for it.
    pub deadline: Duration,
    /// Turns are told nothing unasked, whatever their origin (V-B5).
    pub suppressed: bool,
}

/// What memory has to say to a turn.
pub(super) enum Recollection {
    /// It was asked; [`TurnMsg::Recalled`] follows.
    Awaited,
    /// This; may be empty.
    Told(String),
}

impl Recollection {
    /// Asks, if a turn of this origin may be told anything.
    pub(super) fn begin(ctx: &mut Ctx<TurnActor>, judge: &Judge, claim: &TurnClaim) -> Self {
        let nothing = Self::Told(String::new());
        let Some(access) = &judge.bundle.memory else { return nothing };
        let record = &claim.record;
        let session = Some(record.conversation_id);
        let injection = injection(record.origin, session, access.suppressed);
        let Some(filter) = injection.filter(record.agent.clone(), session) else { return nothing };
        if access.memory.is_empty() {
            observe(&judge.voice, &Ok(Block::default()), Duration::ZERO);
            return nothing;
        }
        let (access, voice, world) = (access.clone(), judge.voice.clone(), judge.world.clone());
        let redactor = Arc::clone(&judge.deps.redactor);
        let text = head(&claim.text, QUESTION).to_owned();
        ctx.task(async move {
            let began = Instant::now();
            let found = ask(&access, filter, text).await.map(|found| {
                let found = arranged(found, world.now(), access.floor.half_life);
                render(&found, access.floor.least)
            });
            observe(&voice, &found, began.elapsed());
            let told = found.map(|block| redactor.scrub(&block.text)).unwrap_or_default();
            Some(TurnMsg::Recalled(told))
        });
        Self::Awaited
    }

    /// Whether the answer is still to come.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self, Self::Awaited)
    }

    /// What is left of a window of so many tokens (0: no limit).
    pub(super) fn leaves_of(&self, budget: u64) -> u64 {
        match self {
            Self::Told(block) if budget > 0 && !block.is_empty() => {
                budget.saturating_sub(estimate(block)).max(1)
            }
            _ => budget,
        }
    }

    /// Puts it before the turn's message, in a request.
    pub(super) fn tell(&self, request: &mut [ChatMessage]) {
        let Self::Told(block) = self else { return };
        if block.is_empty() {
            return;
        }
        let message = request.iter_mut().rev().find(|message| message.starts_turn());
        if let Some(ChatMessage::User { text, .. }) = message {
            text.insert_str(0, block);
        }
    }
}

async fn ask(
    access: &MemoryAccess,
    filter: MemoryFilter,
    text: String,
) -> Result<Vec<rookery_messages::memory::Recalled>, MemoryError> {
    let query = RecallQuery { filter: filter.clone(), text, limit: CANDIDATES };
    let mut found = timeout(access.deadline, access.memory.recall(query))
        .await
        .unwrap_or(Err(MemoryError::Timeout))?;
    // A backend that forgets a filter must not make a turn tell what is not its own.
    found.retain(|one| filter.admits(&one.entry));
    Ok(found)
}

/// One a question (V-B6, V-B7, V-B8).
fn observe(voice: &TurnVoice, found: &Result<Block, MemoryError>, duration: Duration) {
    let entries = found.as_ref().map_or(0, |block| block.entries);
    let error = found.as_ref().err().map(MemoryError::code);
    voice.observe(|scope| Observation::Recalled {
        scope,
        success: error.is_none(),
        entries: u32::try_from(entries).unwrap_or(u32::MAX),
        duration,
        error,
    });
}
