//! The gate's view of a shell command.
//!
//! A command is only waved through if it is plain and its program listed; text that a shell would have to
//! interpret always asks. Closed paths are looked for in every command, plain or not: that finds what is
//! written out, not what a program does by itself.

use super::Gate;
use crate::policy::paths::{PathError, PathGate};
use crate::policy::shell::{is_runner, plain_words};

/// What `allowed_commands` makes of a command that nothing blocks.
#[derive(Debug)]
pub(super) enum CommandVerdict {
    /// Plain, its program listed, its paths inside: it runs.
    Listed,
    /// It asks, at any level.
    Asks(String),
    /// No list speaks of it: the level decides.
    Unrestricted,
}

impl Gate {
    /// Judges a command. `bases` are the folders it starts in. An error blocks.
    pub(super) fn judge_command(
        &self,
        command: &str,
        bases: &[String],
        paths: &PathGate,
    ) -> Result<CommandVerdict, String> {
        let bases: &[String] = if bases.is_empty() { &[String::new()] } else { bases };
        for piece in command.split(separates) {
            for word in spellings(piece) {
                refuse_closed(&word, bases, paths)?;
            }
        }
        let Some(list) = &self.profile.allowed_commands else {
            return Ok(CommandVerdict::Unrestricted);
        };
        if list.is_empty() {
            return Err(
                "command not allowed: the risk profile's `allowed_commands` is empty".into()
            );
        }
        let any = list.iter().any(|name| name == "*");
        let full = self.profile.level == rookery_messages::settings::AutonomyLevel::Full;
        if any && full {
            return Ok(CommandVerdict::Unrestricted);
        }
        let Some(words) = plain_words(command) else {
            return Ok(CommandVerdict::Asks(
                "the command is not plain (one program with literal words), so `allowed_commands` can't \
                 admit it"
                    .into(),
            ));
        };
        let (program, arguments) = match words.split_first() {
            Some((program, arguments)) => (program, arguments),
            None => return Err("command not allowed: it is empty".into()),
        };
        let named = list.iter().any(|name| name == program);
        if !named && !any {
            return Err(format!(
                "command not allowed: `{program}` is not in the risk profile's `allowed_commands`"
            ));
        }
        if !named && is_runner(program) {
            return Ok(CommandVerdict::Asks(format!(
                "`{program}` runs what its arguments say; `*` in `allowed_commands` doesn't cover it, name it"
            )));
        }
        match arguments.iter().find(|word| !stays_inside(word, bases, paths)) {
            Some(word) if !full => Ok(CommandVerdict::Asks(format!(
                "`{word}` may lead out of the `workspace`, so `allowed_commands` alone can't admit it"
            ))),
            _ => Ok(CommandVerdict::Listed),
        }
    }
}

/// What stands between two words, in some shell.
fn separates(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '\'' | '"' | '`' | '|' | '&' | ';' | '<' | '>' | '(' | ')' | '{' | '}' | ',' | ':'
        )
}

/// The parts of a word that may be a path: itself, what follows a `=` or `@`, what follows a short option.
fn spellings(word: &str) -> Vec<String> {
    let mut all = vec![word.to_owned()];
    all.extend(word.match_indices(['=', '@']).map(|(at, _)| word[at + 1..].to_owned()));
    if let Some(option) = word.strip_prefix('-') {
        all.extend(option.char_indices().nth(1).map(|(at, _)| option[at..].to_owned()));
    }
    all.retain(|word| !word.is_empty());
    all
}

/// The word as a path, from each folder the command starts in.
fn from_bases<'a>(word: &'a str, bases: &'a [String]) -> impl Iterator<Item = String> + 'a {
    bases.iter().map(move |base| match word.starts_with('/') || base.is_empty() {
        true => word.to_owned(),
        false => format!("{base}/{word}"),
    })
}

fn refuse_closed(word: &str, bases: &[String], paths: &PathGate) -> Result<(), String> {
    for path in from_bases(word, bases) {
        let closed = match paths.resolve(&path) {
            Err(PathError::Forbidden { .. }) => true,
            // The path gate confines first; a closed path outside the workspace is closed all the same.
            Err(PathError::Outside { .. }) => paths.closes_outside(&path),
            _ => false,
        };
        if closed {
            return Err(PathError::Forbidden { path: word.to_owned() }.to_string());
        }
    }
    Ok(())
}

/// Whether every reading of a word as a path stays in the workspace, or is no path at all.
fn stays_inside(word: &str, bases: &[String], paths: &PathGate) -> bool {
    if word.contains('/') && (word.starts_with('-') || word.contains(['=', '@', ':'])) {
        return false;
    }
    spellings(word)
        .iter()
        .flat_map(|word| from_bases(word, bases))
        .all(|path| !paths.resolve(&path).is_err_and(|e| e.is_policy()))
}
