//! Closed paths that are written out anywhere in a command, whether the grammar reads it or not.
//!
//! Holds at every level, `allowed_commands = ["*"]` at level full included. It finds what is written, not
//! what a program does by itself.

use std::collections::HashSet;

use super::places::is_closed;
use crate::policy::paths::PathGate;

/// Longest text that is searched, in bytes: the kernel gives a program no longer argument
/// (`MAX_ARG_STRLEN`), so that a longer command can't run.
const MAX_BYTES: usize = 131_072;

/// The first closed path that is written out in a command.
pub(super) fn find<'a>(command: &'a str, bases: &[String], gate: &PathGate) -> Option<&'a str> {
    if command.len() > MAX_BYTES {
        return None;
    }
    let mut seen = HashSet::new();
    command.split(separates).chain(command.split_whitespace()).find(|piece| {
        spellings(piece).into_iter().any(|word| seen.insert(word) && is_closed(gate, word, bases))
    })
}

/// The parts of a word that may be a path: itself, what follows a `=` or `@`, what follows a short option.
pub(super) fn spellings(word: &str) -> Vec<&str> {
    let mut all = vec![word];
    all.extend(word.match_indices(['=', '@', ':']).map(|(at, _)| &word[at + 1..]));
    if let Some(option) = word.strip_prefix('-') {
        all.extend(option.char_indices().nth(1).map(|(at, _)| &option[at..]));
        // Letters of other options may stand before it.
        all.extend(word.find(['/', '~']).map(|at| &word[at..]));
        all.extend(word.find("..").map(|at| &word[at..]));
    }
    // No path is longer (`PATH_MAX`).
    all.retain(|word| !word.is_empty() && word.len() <= 4_096);
    all
}

/// What stands between two words, in some shell.
fn separates(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '\'' | '"' | '`' | '|' | '&' | ';' | '<' | '>' | '(' | ')' | '{' | '}' | ',')
}
