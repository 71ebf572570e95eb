//! The one renderer of recalled memory (R6): what a model is told, whatever backend found it.
//!
//! Scores fade, what lies below the floor goes, and so does what could pose as something else: an image, a
//! tool's result, a scheduled task, this very block. Each entry is one line, so that no content can close
//! the block (V-B18).

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use rookery_messages::memory::{MemoryScope, Recalled};
use rookery_messages::tool::{head, text};

use super::score::decayed;
use crate::policy::display::is_hidden;

/// Most entries that are shown.
const MOST_ENTRIES: usize = 4;
/// Most characters of an entry's content.
const ENTRY_CHARS: usize = 800;
/// Most characters of the whole block.
const BLOCK_CHARS: usize = 4_000;
/// What stands behind content that was cut.
const CUT: &str = "...";

/// What no shown entry holds, in lower case and without white space. Text that can be taken for one of these
/// has no business in memory: it is an attempt, or an accident that would work like one.
const POISON: &[&str] = &[
    "[image:",
    "data:image/",
    "<tool_result",
    "</tool_result",
    "<tool_call",
    "</tool_call",
    "<function_call",
    "</function_call",
    "<functioncall",
    "</functioncall",
    "<tool_response",
    "</tool_response",
    "[tool_result",
    "[toolresult",
    "[scheduledtask",
    "[cron:",
    "[memorycontext",
    "[/memorycontext",
    "<outside-content",
    "</outside-content",
    "<system-reminder",
    "</system-reminder",
];

/// What decides whether an entry is shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Floor {
    /// Entries with a score below are not shown.
    pub least: f64,
    /// Scores fade by half in this time.
    pub half_life: SignedDuration,
}

impl Default for Floor {
    fn default() -> Self {
        Self { least: 0.4, half_life: SignedDuration::from_hours(7 * 24) }
    }
}

/// What a model is told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// The block with a blank line behind it; empty if there is nothing to tell.
    pub text: String,
    /// How many entries it holds.
    pub entries: usize,
}

/// Entries as they are to be rendered: of those with the same key the one of the narrower scope, the most
/// relevant first. Scores are faded.
pub fn arranged(found: Vec<Recalled>, now: Timestamp, half_life: SignedDuration) -> Vec<Recalled> {
    let (mut narrow, wide): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|one| matches!(one.entry.scope, MemoryScope::Session(_)));
    narrow.extend(wide);
    let mut seen = HashSet::new();
    narrow.retain(|one| seen.insert(one.entry.key.clone()));
    for one in &mut narrow {
        let (category, written) = (&one.entry.category, one.entry.updated_at);
        one.score = one.score.map(|score| decayed(score, category, written, now, half_life));
    }
    // A backend that can't tell has its own order, and no say in that of others.
    narrow.sort_by(|a, b| b.score.unwrap_or(0.0).total_cmp(&a.score.unwrap_or(0.0)));
    narrow
}

/// The block of these entries, in their order. Of two with the same key the first is shown. Their scores
/// are faded already ([`arranged`]).
pub fn render(entries: &[Recalled], least: f64) -> Block {
    let mut shown: Vec<String> = Vec::new();
    let mut keys = HashSet::new();
    let frame = chars(text::MEMORY_OPEN) + chars(text::MEMORY_CLOSE) + 3;
    let mut left = BLOCK_CHARS.saturating_sub(frame);
    for Recalled { entry, score } in entries {
        // A score that is no number says nothing; the floor is for those that do.
        if score.is_some_and(|score| score < least)
            || is_poison(&entry.key)
            || is_poison(&entry.content)
        {
            continue;
        }
        if !keys.insert(entry.key.as_str()) {
            continue;
        }
        let line = format!("- {}: {}", one_line(&entry.key), bounded(&one_line(&entry.content)));
        let size = chars(&line) + 1;
        if shown.len() == MOST_ENTRIES || size > left {
            break;
        }
        left -= size;
        shown.push(line);
    }
    if shown.is_empty() {
        return Block::default();
    }
    let lines = shown.join("\n");
    let text = format!("{}\n{lines}\n{}\n\n", text::MEMORY_OPEN, text::MEMORY_CLOSE);
    Block { text, entries: shown.len() }
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// Whether text could pose as something that is not memory, however it is spaced, spelled or hidden.
fn is_poison(text: &str) -> bool {
    let plain: String = text
        .chars()
        .filter(|c| !c.is_whitespace() && !is_hidden(*c))
        .map(|c| match c {
            // The full-width forms read the same.
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
            c => c,
        })
        .flat_map(char::to_lowercase)
        .collect();
    POISON.iter().any(|mark| plain.contains(mark))
}

/// Text on one line, without what nobody sees.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c.is_control() || is_hidden(c)) {
        if !word.is_empty() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    line
}

/// Content of at most [`ENTRY_CHARS`], visibly cut.
fn bounded(content: &str) -> String {
    match content.char_indices().nth(ENTRY_CHARS) {
        Some((end, _)) => format!("{}{CUT}", head(content, end)),
        None => content.to_owned(),
    }
}

#[cfg(test)]
mod tests;
