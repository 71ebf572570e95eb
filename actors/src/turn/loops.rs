//! Whether a turn goes round in circles (T21): a pure function of its rounds.
//!
//! A round is a model call with its tool calls and their results; what is repeated inside one counts once.
//! Calls are the same if tool, arguments (in one spelling) and result are. So a poll whose result changes
//! is none, and a provider's failure, which has no result, never counts. Three patterns are known:
//!
//! - *repeat*: the same round again and again;
//! - *cycle*: a sequence of up to [`LONGEST_CYCLE`] rounds, again and again;
//! - *no progress*: one read-only tool that gives the same result whatever it is asked.
//!
//! Each has three verdicts: a note to the model; then the next call that would go on is refused; then the
//! turn ends. A refused call counts as if it had had the same result.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use rookery_messages::chat::{Arguments, ToolCall};
use rookery_messages::settings::LoopDetection;
use rookery_messages::tool::{SlotOutcome, text};
use rookery_messages::turn::CallState;
use sha2::{Digest, Sha256};

use crate::policy::arguments::canonical_arguments;

/// Longest cycle that is looked for, in rounds.
pub const LONGEST_CYCLE: usize = 6;
/// What a receipt's line begins with. It is another one every time, and no part of the result.
const RECEIPT: &str = "[receipt: ";

/// A call with its result.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// The call, as the model wrote it.
    pub call: ToolCall,
    /// The tool's resolved name.
    pub tool: String,
    /// It changes nothing.
    pub read_only: bool,
    /// Its end.
    pub outcome: SlotOutcome,
}

/// What a former attempt left to go on from.
#[derive(Clone, PartialEq, Debug)]
pub enum Past {
    /// A round stands in the history.
    Round(Vec<Seen>),
    /// The person said something.
    Steered,
}

/// How far a circle has gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// The model is told.
    Warn,
    /// The next such call is refused.
    Block,
    /// The turn ends.
    Break,
}

impl Level {
    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Block => "block",
            Self::Break => "break",
        }
    }
}

/// Which kind of circle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// The same again.
    Repeat,
    /// The same rounds in turn.
    Cycle {
        /// How many rounds.
        period: usize,
    },
    /// The same result, whatever was asked.
    NoProgress,
}

impl Pattern {
    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::Cycle { .. } => "cycle",
            Self::NoProgress => "no_progress",
        }
    }
}

/// A circle that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// How far it has gone.
    pub level: Level,
    /// Its kind.
    pub pattern: Pattern,
    /// How many times round.
    pub times: usize,
    /// The tools in it, by their resolved names.
    pub tools: Vec<String>,
}

impl Found {
    /// What happened, for a person.
    pub fn told(&self) -> String {
        let (tools, times) = (self.tools.join("`, `"), self.times);
        match self.pattern {
            Pattern::Repeat => {
                format!(
                    "`{tools}` was called {times} times in a row with the same arguments and result"
                )
            }
            Pattern::Cycle { period } => format!(
                "the same {period} calls (`{tools}`) were made {times} times in turn, with the same results"
            ),
            Pattern::NoProgress => format!(
                "`{tools}` gave the same result {times} times in a row, whatever it was asked"
            ),
        }
    }

    /// What the model is told.
    pub fn note(&self) -> String {
        let then = match self.level {
            Level::Warn => "",
            Level::Block | Level::Break => " If you go on, the next such call will not be run.",
        };
        format!(
            "Note: {}. Doing it again will bring nothing new. Use what you have, try another way, or say \
             what is missing.{then}",
            self.told()
        )
    }
}

/// One call of a round, in one spelling.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    /// The name as the model wrote it, but for its case.
    name: String,
    arguments: [u8; 32],
    tool: String,
    read_only: bool,
    /// None: it was refused for being part of a circle.
    result: Option<[u8; 32]>,
}

impl Entry {
    fn of(seen: &Seen) -> Self {
        let (name, arguments) = key(&seen.call);
        let refused = seen.outcome.state == CallState::Blocked
            && seen.outcome.output.starts_with(text::LOOP_REFUSED_PREFIX);
        let result = (!refused).then(|| fingerprint(&seen.outcome.output));
        Self { name, arguments, tool: seen.tool.clone(), read_only: seen.read_only, result }
    }

    fn asks_same(&self, other: &Self) -> bool {
        self.name == other.name && self.arguments == other.arguments
    }

    fn has_same_result(&self, other: &Self) -> bool {
        match (&self.result, &other.result) {
            (Some(one), Some(two)) => one == two,
            _ => true,
        }
    }
}

type Round = Vec<Entry>;

/// Watches one turn.
#[derive(Debug)]
pub struct Loops {
    settings: LoopDetection,
    rounds: VecDeque<Round>,
    /// The circle the turn is in.
    current: Option<Found>,
}

impl Loops {
    /// A turn of which nothing is known.
    pub fn new(settings: LoopDetection) -> Self {
        Self { settings, rounds: VecDeque::new(), current: None }
    }

    /// A turn that goes on.
    pub fn replay(settings: LoopDetection, past: Vec<Past>) -> Self {
        let mut loops = Self::new(settings);
        for past in past {
            match past {
                Past::Round(calls) => {
                    // Said by the former attempt.
                    let _ = loops.round(&calls);
                }
                Past::Steered => loops.forget(),
            }
        }
        loops
    }

    /// A round has its results. Says what is new about it.
    pub fn round(&mut self, calls: &[Seen]) -> Option<Found> {
        if !self.settings.enabled {
            return None;
        }
        let mut round = Round::new();
        for seen in calls.iter().filter(|seen| !self.settings.ignore.contains(&seen.tool)) {
            let entry = Entry::of(seen);
            if !round.iter().any(|known| known.asks_same(&entry)) {
                round.push(entry);
            }
        }
        if round.is_empty() {
            return None;
        }
        round.sort_by(|a, b| (&a.name, &a.arguments).cmp(&(&b.name, &b.arguments)));
        self.rounds.push_back(round);
        while self.rounds.len() > self.settings.window as usize {
            self.rounds.pop_front();
        }
        let before = self.current.take().map(|found| found.level);
        self.current = self.examine();
        self.current.clone().filter(|found| Some(found.level) > before)
    }

    /// The person said something: what comes now is no repetition.
    pub fn forget(&mut self) {
        self.rounds.clear();
        self.current = None;
    }

    /// Why a call is not to be run, if it would go on with a circle that is held up (V-J22).
    pub fn refusal(&self, call: &ToolCall) -> Option<String> {
        let found = self.current.as_ref().filter(|found| found.level >= Level::Block)?;
        let (name, arguments) = key(call);
        let back = match found.pattern {
            Pattern::Cycle { period } => period,
            Pattern::Repeat | Pattern::NoProgress => 1,
        };
        let expected = self.rounds.get(self.rounds.len().checked_sub(back)?)?;
        let goes_on = expected.iter().any(|entry| {
            let any = found.pattern == Pattern::NoProgress;
            entry.name == name && (any || entry.arguments == arguments)
        });
        goes_on.then(|| {
            format!(
                "{}{}. Try another way, or say what is missing; if you ask for it again the turn ends.",
                text::LOOP_REFUSED_PREFIX,
                found.told()
            )
        })
    }

    fn examine(&self) -> Option<Found> {
        let mut worst: Option<Found> = None;
        let periods = (1..=LONGEST_CYCLE).map(|period| self.cycle(period));
        for found in periods.chain([self.no_progress()]).flatten() {
            if worst.as_ref().is_none_or(|worst| found.level > worst.level) {
                worst = Some(found);
            }
        }
        worst
    }

    /// How often the last rounds were gone through in turn.
    fn cycle(&self, period: usize) -> Option<Found> {
        let rounds: Vec<&Round> = self.rounds.iter().rev().collect();
        let block = rounds.get(..period)?;
        let is_periodic = |d: usize| block.iter().zip(&block[d..]).all(|(a, b)| is_same(a, b));
        if (1..period).any(|d| period.is_multiple_of(d) && is_periodic(d)) {
            // A shorter one says it better.
            return None;
        }
        let pairs = rounds.iter().zip(&rounds[period..]);
        let times = pairs.take_while(|(late, early)| is_same(late, early)).count() / period + 1;
        let (pattern, first) = match period {
            1 => (Pattern::Repeat, self.settings.repeats),
            2 => (Pattern::Cycle { period }, self.settings.cycles),
            // As many calls as two in turn would be, or about.
            _ => (Pattern::Cycle { period }, self.settings.cycles.saturating_sub(2).max(2)),
        };
        let level = level(times, first)?;
        let tools = tools(block.iter().rev().copied());
        Some(Found { level, pattern, times, tools })
    }

    /// In how many rounds in a row one tool that only reads gave one result.
    fn no_progress(&self) -> Option<Found> {
        let last = self.rounds.back()?.first()?;
        let stands_still = |round: &&Round| {
            round.iter().all(|entry| {
                entry.name == last.name
                    && (entry.read_only || entry.result.is_none())
                    && entry.has_same_result(last)
            })
        };
        let still: Vec<&Round> = self.rounds.iter().rev().take_while(stands_still).collect();
        let level = level(still.len(), self.settings.no_progress)?;
        let tools = tools(still.iter().copied());
        Some(Found { level, pattern: Pattern::NoProgress, times: still.len(), tools })
    }
}

fn level(times: usize, first: u32) -> Option<Level> {
    match times.checked_sub(first as usize)? {
        0 => Some(Level::Warn),
        1 => Some(Level::Block),
        _ => Some(Level::Break),
    }
}

fn is_same(one: &Round, two: &Round) -> bool {
    let same = |(a, b): (&Entry, &Entry)| a.asks_same(b) && a.has_same_result(b);
    one.len() == two.len() && one.iter().zip(two).all(same)
}

/// Each once, in order, not too many.
fn tools<'a>(rounds: impl Iterator<Item = &'a Round>) -> Vec<String> {
    let mut tools: Vec<String> = Vec::new();
    for entry in rounds.flatten() {
        if tools.len() < LONGEST_CYCLE && !tools.contains(&entry.tool) {
            tools.push(entry.tool.clone());
        }
    }
    tools
}

fn key(call: &ToolCall) -> (String, [u8; 32]) {
    let arguments = match &call.arguments {
        Arguments::Object(arguments) => fingerprint(&canonical_arguments(arguments)),
        Arguments::Invalid { raw, .. } => fingerprint(raw),
    };
    (call.name.to_ascii_lowercase(), arguments)
}

fn fingerprint(text: &str) -> [u8; 32] {
    let mut digest = Sha256::new();
    for line in text.lines().filter(|line| !line.starts_with(RECEIPT)) {
        digest.update(line.as_bytes());
        digest.update(b"\n");
    }
    digest.finalize().into()
}
