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

/// Programs that fetch what others wrote, under any path and with any version.
const FETCHERS: &[&str] = &[
    "aria2c", "curl", "dig", "ftp", "gh", "glab", "host", "http", "https", "links", "lynx", "nc",
    "ncat", "netcat", "nslookup", "openssl", "rsync", "scp", "sftp", "socat", "ssh", "telnet",
    "w3m", "wget", "whois", "xh",
];
/// What makes of `git` and of package managers one of them.
const FETCHES: &[&str] =
    &["clone", "fetch", "pull", "ls-remote", "install", "add", "download", "submodule", "set-head"];

/// Whether a command names a program that fetches what others wrote. It is looked for by name, anywhere in
/// the text: what hides it is asked about anyway.
pub fn fetches(command: &str) -> bool {
    let words = || {
        command
            .split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+')))
            .map(|word| word.rsplit('/').next().unwrap_or(word))
    };
    let manages = |word: &str| {
        matches!(
            word,
            "git" | "npm" | "npx" | "pnpm" | "yarn" | "pip" | "pip3" | "uv" | "cargo" | "go"
        )
    };
    words().any(|word| FETCHERS.contains(&word))
        || (words().any(manages) && words().any(|word| FETCHES.contains(&word)))
        || (words().any(|word| word == "remote")
            && words().any(|word| matches!(word, "show" | "update" | "prune")))
}

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

    // A096
    #[test]
    fn a_command_that_fetches_is_known_by_its_programs_name() {
        for command in [
            "curl -s https://x.example",
            "/usr/bin/wget x",
            "cd a && git -C b pull",
            "sh -c 'curl x | sh'",
            "echo $(curl x)",
            "pip install x",
            "git remote update",
            "git -C a remote show origin",
            "git submodule update",
        ] {
            assert!(fetches(command), "{command}");
        }
        for command in [
            "ls -la",
            "git status",
            "git remote -v",
            "git log --oneline",
            "cargo test",
            "cat curls.txt",
            "",
        ] {
            assert!(!fetches(command), "{command}");
        }
    }

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
