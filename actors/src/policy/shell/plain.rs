//! Which shell commands are *plain*: a single command of literal words, that means the same to a reader,
//! to this check, and to the system, since it runs without a shell (A089).
//!
//! Small and careful on purpose: what is not surely plain is not plain.

use crate::policy::display::is_hidden;

/// Words that only a shell knows, or that run whatever follows them inside it.
const SHELL_WORDS: &[&str] = &[
    ".",
    ":",
    "[",
    "[[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "history",
    "if",
    "jobs",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "pushd",
    "read",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "then",
    "time",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
    "readarray",
];

/// The words of a plain command; none if it is not plain.
///
/// Plain is: words of literal characters, quoted or not, with blanks between them. No newline, no
/// operator, redirection, expansion, substitution, pattern, brace, comment, assignment, backslash or
/// history mark outside of quotes; no `$`, backtick, backslash or `!` in double quotes; no control,
/// zero-width or bidirectional character anywhere. The first word is bare ASCII and no word of the shell.
pub fn plain_words(command: &str) -> Option<Vec<String>> {
    if command.chars().any(is_hidden) {
        return None;
    }
    let mut words = Vec::new();
    let mut rest = command.trim_matches(' ');
    while !rest.is_empty() {
        let (word, after) = plain_word(rest, words.is_empty())?;
        words.push(word);
        rest = after.trim_start_matches(' ');
    }
    let first = words.first()?;
    // The program that starts it would take this for an option of its own.
    if first.starts_with('-') {
        return None;
    }
    if SHELL_WORDS.contains(&first.as_str()) {
        return None;
    }
    Some(words)
}

/// One word, and what follows it.
fn plain_word(text: &str, first: bool) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            ' ' => return Some((word, &text[at..])),
            '\'' | '"' if !first => loop {
                let (_, inner) = chars.next()?;
                match inner {
                    end if end == c => break,
                    '$' | '`' | '\\' | '!' if c == '"' => return None,
                    inner => word.push(inner),
                }
            },
            c if is_bare(c) && (!first || is_program_char(c)) => word.push(c),
            _ => return None,
        }
    }
    Some((word, ""))
}

/// Means itself outside of quotes, to every shell.
fn is_bare(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | ',' | '+' | '@' | '%' | '=')
}

fn is_program_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+')
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_plain_command_is_split_into_its_words() {
        let cases: [(&str, &[&str]); 6] = [
            ("ls", &["ls"]),
            ("  git  log -n 3 ", &["git", "log", "-n", "3"]),
            ("echo 'a; b' \"c & d\"", &["echo", "a; b", "c & d"]),
            ("echo ''", &["echo", ""]),
            ("grep --include='*.rs' x/y", &["grep", "--include=*.rs", "x/y"]),
            ("echo Grüße x'y'z", &["echo", "Grüße", "xyz"]),
        ];
        for (command, words) in cases {
            let plain = plain_words(command).unwrap_or_default();
            assert_eq!(plain, words, "{command}");
        }
    }

    // A089, A090, A091
    #[test]
    fn what_a_shell_would_read_differently_is_not_plain() {
        let cases = [
            "",
            "   ",
            "echo $(id)",
            "echo `id`",
            "ls | sh",
            "ls && id",
            "ls || id",
            "ls; id",
            "ls\nid",
            "ls & id",
            "echo ${IFS}x",
            "echo $HOME",
            "echo \"$HOME\"",
            "echo \"`id`\"",
            "echo x > /etc/cron.d/y",
            "cat < x",
            "$(printf python3) -c 1",
            "r\"\"m -rf x",
            "\"rm\" x",
            "'rm' x",
            "\\rm x",
            "echo a\\ b",
            "$'\\x72\\x6d' x",
            "{rm,-rf,x}",
            "echo {a,b}",
            "echo *",
            "echo ?",
            "echo [a]",
            "ls ~",
            "X=1 ls",
            "LD_PRELOAD=x ls",
            "echo 'open",
            "echo \"open",
            "# ls",
            "ls #x",
            "!ls",
            "echo \"!x\"",
            "(ls)",
            "r\u{200b}m -rf x",
            "ｒｍ -rf x",
            "ls \u{202e} fr- mr",
            "ls\tx",
            "ls\0x",
            "ls\rx",
            "ls\u{1b}[2K",
            "cd /",
            "eval ls",
            "exec ls",
            ". ./x",
            "source x",
            "if",
            "while",
            "time ls",
            "command ls",
            "export A=b",
            "f() ls",
            "ls ^x",
            "ls\u{a0}x",
        ];
        for command in cases {
            assert_eq!(plain_words(command), None, "{command:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        // A089: the check and the system read a plain command alike
        #[test]
        fn a_shell_reads_a_plain_command_as_the_same_words(args in "[ a-z0-9_./:,+@%='\"$;&|<>*?~#!(){}\\\\-]{0,24}") {
            let command = format!("printf_words {args}");
            if let Some(words) = plain_words(&command) {
                let script = format!("printf_words() {{ for a in \"$@\"; do printf '%s\\0' \"$a\"; done; }}; {command}");
                let output = Command::new("sh").arg("-c").arg(script).output().expect("sh runs");
                let read: Vec<String> = String::from_utf8_lossy(&output.stdout)
                    .split_terminator('\0').map(str::to_owned).collect();
                prop_assert_eq!(&words[1..], read.as_slice(), "{}", command);
            }
        }
    }
}
