//! What a shell command would do, judged before it runs (A089, A090; DESIGN.md, section 4.6).
//!
//! The text is parsed by a real shell grammar. Every simple command in it is judged, wherever it stands:
//! in a list, a pipe, a loop, a substitution, a here-document, or behind a wrapper such as `env` or
//! `sh -c`. What the grammar can't read, and what is only known once it runs, is never waved through.
//! Known programs and their risk stand in `shell/commands.txt`, names of variables in
//! `shell/variables.txt`: an operator can read both.
//!
//! The parse is the policy. It tells what is written, not what an approved program does by itself.

mod by_table;
mod closed;
mod expand;
mod finding;
mod git;
mod gitconfig;
mod glob;
mod options;
pub(crate) mod places;
mod plain;
mod programs;
mod redirects;
mod repository;
mod scripts;
mod simple;
mod syntax;
mod table;
mod test_command;
mod walk;
mod word;
mod wrappers;

#[cfg(test)]
mod corpus;

pub use finding::{Finding, Weight};
pub use plain::plain_words;
pub use table::{is_runner, loads_files, runs_files};
pub use walk::{Amid, Rules, judge};
