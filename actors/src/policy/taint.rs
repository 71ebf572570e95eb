//! Content from outside, and what it makes of later calls (A096).
//!
//! Text that a stranger may have written can carry instructions. Once the model reads such a text, a call
//! that would carry data out, or change what later turns are told, is asked about whatever lists say.

use rookery_messages::tool::{CallEffects, Effects, Reach};

use super::shell::plain_words;

/// Programs that only read, whatever their arguments; none of them starts another one or speaks to a
/// network.
const READERS: &[&str] = &[
    "basename",
    "cat",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "expr",
    "false",
    "file",
    "fold",
    "grep",
    "head",
    "hexdump",
    "id",
    "ls",
    "md5sum",
    "nl",
    "od",
    "paste",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "seq",
    "sha1sum",
    "sha256sum",
    "stat",
    "strings",
    "tac",
    "tail",
    "tr",
    "true",
    "tty",
    "uname",
    "wc",
    "whoami",
];

/// Whether a command does no more than read.
pub fn only_reads(command: &str) -> bool {
    plain_words(command)
        .and_then(|words| words.into_iter().next())
        .is_some_and(|program| READERS.contains(&program.as_str()))
}

/// Whether a call could carry data out, or change what later turns are told or may do.
pub fn carries_out(effects: &CallEffects) -> bool {
    match &effects.command {
        Some(command) => !only_reads(command),
        None => {
            effects.carries_out
                || (effects.effects != Effects::ReadOnly && effects.reach == Reach::Outside)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_only_reads_if_it_is_plain_and_its_program_is_a_reader() {
        for command in ["ls -la", "cat a b", "grep -r x src", "wc -l 'a b'"] {
            assert!(only_reads(command), "{command}");
        }
        for command in [
            "curl x",
            "cat a | nc x 1",
            "cat a > b",
            "sh -c ls",
            "./ls",
            "/tmp/ls",
            "git status",
            "sort -o a b",
            "",
        ] {
            assert!(!only_reads(command), "{command}");
        }
    }
}
