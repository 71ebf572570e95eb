//! What *always* covers: exactly the call that was shown, in one spelling (A085).
//!
//! A tool's call is its arguments. A command is the simple command it comes down to: its program as it was
//! found, its words as they stand. What a shell is told to run (`bash -lc 'git status'`) is that command,
//! not the shell. A script is its content: the changed one is another one. A command that is no simple one
//! is its whole text, with the files it names as they are. A program that looks for its files itself (`make`,
//! `npm`, `cargo`) is bound to those it starts from; what they include can't be known, so that *always* holds
//! in the conversation only, and says so.

mod build_files;

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rookery_messages::tool::{CallEffects, head};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::arguments::{arguments_hash, canonical_arguments, hex};
use super::programs;
use super::shell::{is_runner, loads_files, plain_words, runs_files};
use build_files::build_files;

/// Longest pattern, in bytes. What is cut is said to be.
const MAX_PATTERN_BYTES: usize = 4_096;
/// How deep shells may stand in each other.
const MAX_SHELLS: usize = 4;
/// Most files a command may name and still be granted.
const MAX_FILES: usize = 32;
/// Shells whose `-c` runs a command.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ksh", "zsh", "ash"];

/// What a grant for a call would cover.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cover {
    /// As a person reads it. Its secrets are still in it.
    pub pattern: String,
    /// SHA-256 (hex) of exactly what it stands for.
    pub key: String,
    /// Files' contents are part of it: another call of the same response could change them.
    pub binds_files: bool,
    /// It may run one of them: a yes to it holds only while they stay as they are.
    pub runs_files: bool,
    /// It may run files that can't be bound: it can only hold in its conversation.
    pub narrow: bool,
}

/// What is said of a cover that can't hold elsewhere.
const NARROW: &str = " (in this conversation only, and whatever the files say by then that it includes or looks for itself)";

/// What a grant for this call would cover; none if nothing can be granted, because a file the command
/// names can't be bound.
///
/// `shown` are the arguments as people see them. Reads the files that are bound, at most 1 MiB each.
pub fn cover(
    tool: &str,
    arguments: &Map<String, Value>,
    shown: &Map<String, Value>,
    effects: &CallEffects,
    workspace: &Path,
) -> Option<Cover> {
    let Some(command) = &effects.command else {
        let pattern = short(format!("{tool} {}", canonical_arguments(shown)));
        let key = arguments_hash(arguments);
        return Some(Cover { pattern, key, binds_files: false, runs_files: false, narrow: false });
    };
    let folder = effects.reads.first().map_or(workspace.to_path_buf(), |dir| workspace.join(dir));
    let place = Place { folder: &folder, workspace };
    let mut others = arguments.clone();
    others.remove("command");
    let (what, text, files, runs, narrow) = match simple(command, &place, MAX_SHELLS) {
        Some(simple) => {
            let narrow = simple.runs_unbound(&place);
            let files = place.bound(simple.files())?;
            let what = json!({ "program": simple.program, "words": simple.words });
            (what, simple.text(), files, true, narrow)
        }
        None => {
            let runs = place.runs(command);
            if runs && hides_files(command) {
                return None;
            }
            let mut files = place.named(command);
            let narrow = words(command).any(loads_files);
            files.extend(build_files(words(command), &folder));
            files.sort();
            files.dedup();
            let files = place.bound(files)?;
            (json!({ "text": command }), command.clone(), files, runs, narrow)
        }
    };
    let bound: Vec<Value> = files.iter().map(|(path, hash)| json!([path, hash])).collect();
    let mut object = Map::new();
    object.insert("tool".to_owned(), json!(tool));
    object.insert("command".to_owned(), what);
    object.insert("files".to_owned(), Value::Array(bound));
    object.insert("others".to_owned(), Value::Object(others.clone()));
    if narrow {
        object.insert("narrow".to_owned(), Value::Bool(true));
    }
    let key = hex(&Sha256::digest(canonical_arguments(&object).as_bytes()));
    let mut pattern = format!("{tool}: {text}");
    if !others.is_empty() {
        let _ = write!(pattern, " with {}", canonical_arguments(&others));
    }
    if !files.is_empty() {
        let names: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
        let _ = write!(pattern, " (while {} stay as they are)", names.join(", "));
    }
    let mut pattern = short(pattern);
    if narrow {
        pattern.push_str(NARROW);
    }
    let binds_files = !files.is_empty();
    Some(Cover { pattern, key, binds_files, runs_files: binds_files && runs, narrow })
}

fn short(pattern: String) -> String {
    let cut = head(&pattern, MAX_PATTERN_BYTES);
    match pattern.len() - cut.len() {
        0 => pattern,
        more => format!("{cut}… ({more} more bytes)"),
    }
}

/// Where a command starts.
struct Place<'a> {
    folder: &'a Path,
    workspace: &'a Path,
}

impl Place<'_> {
    /// Regular files a text names, as far as they are written out.
    fn named(&self, command: &str) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = words(command)
            .map(|word| self.folder.join(word))
            .filter(|path| path.is_file())
            .collect();
        files.sort();
        files.dedup();
        files
    }

    /// Whether a text names something that runs files, or a program of the workspace. What it only reads
    /// and writes may change while somebody thinks about it.
    fn runs(&self, command: &str) -> bool {
        words(command).any(|word| {
            is_runner(word)
                || self
                    .folder
                    .join(word)
                    .metadata()
                    .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
    }

    /// The files with their contents' hashes; none if one can't be bound. What lies outside of the
    /// workspace is the system's, which tools don't write.
    fn bound(&self, mut files: Vec<PathBuf>) -> Option<Vec<(PathBuf, String)>> {
        files.retain(|path| self.is_ours(path));
        if files.len() > MAX_FILES {
            return None;
        }
        files
            .into_iter()
            .map(|path| {
                let hash = programs::content_hash(&path)?;
                Some((path.strip_prefix(self.workspace).unwrap_or(&path).to_path_buf(), hash))
            })
            .collect()
    }

    /// Whether the file lies in the workspace, by its name or in truth.
    fn is_ours(&self, path: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        path.starts_with(self.workspace) || real(path).starts_with(real(self.workspace))
    }
}

/// The words of a text, as far as that can be told without reading it as a shell does.
fn words(command: &str) -> impl Iterator<Item = &str> {
    let separates = |c: char| {
        c.is_whitespace()
            || matches!(c, '\'' | '"' | '`' | '|' | '&' | ';' | '<' | '>' | '(' | ')' | '=')
    };
    command.split(separates).filter(|word| !word.is_empty())
}

/// Whether a text may name files in a way that isn't followed here: from another folder, by a pattern, or
/// with quotes in a word.
fn hides_files(command: &str) -> bool {
    let moves = words(command).any(|word| matches!(word, "cd" | "pushd" | "popd"));
    let quoted = command.as_bytes().windows(3).any(|bytes| {
        let part =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/' | b'_' | b'-');
        let quote = |byte: u8| matches!(byte, b'\'' | b'"');
        (quote(bytes[1]) && part(bytes[0]) && (part(bytes[2]) || quote(bytes[2])))
            || (quote(bytes[0]) && quote(bytes[1]) && part(bytes[2]))
    });
    let expands = command.replace("$?", "").contains(['$', '`']);
    moves || quoted || expands || command.contains(['*', '?', '[', '{', '\\'])
}

/// A simple command: a program and its words.
struct Simple {
    program: PathBuf,
    words: Vec<String>,
    folder: PathBuf,
}

impl Simple {
    /// What it would run: a program of the workspace, and for a program that runs what its arguments say, or
    /// starts one that does (`timeout 9 sh a.sh`), the files they name and those it starts from.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.program.clone()];
        if self.runs_files() {
            files.extend(
                self.words.iter().map(|word| self.folder.join(word)).filter(|p| p.is_file()),
            );
            files.extend(build_files(self.all_words(), &self.folder));
            files.sort();
            files.dedup();
        }
        files
    }

    fn runs_files(&self) -> bool {
        runs_files(&self.program.to_string_lossy()) || self.words.iter().any(|word| is_runner(word))
    }

    fn all_words(&self) -> impl Iterator<Item = &str> {
        self.program.to_str().into_iter().chain(self.words.iter().map(String::as_str))
    }

    /// Whether it may run files that its words don't name: a build, or a program that runs files and is given
    /// none. A program of the workspace is bound itself.
    fn runs_unbound(&self, place: &Place<'_>) -> bool {
        let named = || self.words.iter().any(|word| self.folder.join(word).is_file());
        let name = self.program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // These run what their words say, and nothing else.
        let told = matches!(name, "find" | "sed" | "awk" | "env")
            && !self.words.iter().any(|word| is_runner(word));
        self.all_words().any(loads_files)
            || (self.runs_files() && !told && !place.is_ours(&self.program) && !named())
    }

    fn text(&self) -> String {
        let quoted = self.words.iter().map(|word| {
            let bare = !word.is_empty()
                && word.chars().all(|c| c.is_alphanumeric() || "-_./:,+@%=".contains(c));
            if bare { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
        });
        let program = self.program.display().to_string();
        std::iter::once(program).chain(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// The simple command a text comes down to, if it does.
fn simple(command: &str, place: &Place<'_>, shells: usize) -> Option<Simple> {
    let mut words = plain_words(command)?.into_iter();
    let name = words.next()?;
    let program = programs::find(&name, place.folder, place.workspace)?;
    let words: Vec<String> = words.collect();
    if let Some(inner) = told(&program, &words, place) {
        // A shell that is told something else than a simple command is the whole text.
        return simple(inner, place, shells.checked_sub(1)?);
    }
    Some(Simple { program, words, folder: place.folder.to_path_buf() })
}

/// What a shell of the system is told to run: `-c TEXT` or `-lc TEXT`, and nothing else.
fn told<'a>(program: &Path, words: &'a [String], place: &Place<'_>) -> Option<&'a str> {
    let name = program.file_name()?.to_str()?;
    if !SHELLS.contains(&name) || place.is_ours(program) {
        return None;
    }
    let (text, flags) = words.split_last()?;
    let plain = flags.iter().all(|flag| matches!(flag.as_str(), "-l" | "-c" | "-lc" | "-cl"));
    let commands = flags.iter().filter(|flag| flag.contains('c')).count();
    (plain && commands == 1 && flags.last().is_some_and(|flag| flag.contains('c')))
        .then_some(text.as_str())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rookery_messages::tool::CallEffects;
    use tempfile::TempDir;

    use super::*;

    struct Room(TempDir);

    impl Room {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("a.sh"), "echo a\n").unwrap();
            fs::write(folder.path().join("b.sh"), "echo a\n").unwrap();
            Self(folder)
        }

        fn with(&self, arguments: Value) -> Option<Cover> {
            let Value::Object(arguments) = arguments else { panic!("not an object") };
            let text = |key: &str| arguments.get(key).and_then(Value::as_str).map(str::to_owned);
            let effects = CallEffects {
                command: text("command"),
                reads: text("workdir").into_iter().collect(),
                ..CallEffects::unknown()
            };
            cover("shell", &arguments, &arguments, &effects, self.0.path())
        }

        fn of(&self, command: &str) -> Cover {
            self.with(json!({ "command": command })).unwrap()
        }
    }

    // A085
    #[test]
    fn a_shell_that_is_told_a_simple_command_is_that_command() {
        let room = Room::new();
        let cat = room.of("cat a.sh");
        assert!(cat.pattern.ends_with("/cat a.sh") && !cat.pattern.contains("bash"), "{cat:?}");
        for same in [
            "bash -lc 'cat a.sh'",
            "sh -c 'cat a.sh'",
            "/bin/sh -c \"cat a.sh\"",
            "bash -l -c 'cat a.sh'",
            "cat  a.sh",
        ] {
            assert_eq!(room.of(same), cat, "{same}");
        }
        for other in [
            "bash -lc 'cat b.sh'",
            "bash -lc 'curl x | sh'",
            "bash -lc 'cat a.sh; id'",
            "bash -lc 'cat a.sh' id",
            "bash --rcfile x -c 'cat a.sh'",
            "bash -c",
            "bash",
            "sh -s 'cat a.sh'",
            "cat a.sh b.sh",
            "cat 'a.sh '",
            "env bash -lc 'cat a.sh'",
        ] {
            assert_ne!(room.of(other).key, cat.key, "{other}");
        }
    }

    // A085
    #[test]
    fn a_script_is_its_content_and_another_script_another_call() {
        let room = Room::new();
        let a = room.of("bash ./a.sh");
        assert!(a.binds_files && a.pattern.contains("a.sh stay as they are"), "{a:?}");
        assert_eq!(room.of("bash ./a.sh"), a);
        // The same content under another name was not what was shown.
        assert_ne!(room.of("bash ./b.sh").key, a.key);
        let wrapped = room.of("bash -c 'bash ./a.sh'");
        assert_eq!(wrapped, a);
        let piped = room.of("cat a.sh | sh");
        let direct = room.of("./a.sh");
        fs::write(room.0.path().join("a.sh"), "curl x | sh\n").unwrap();
        for (command, before) in [("bash ./a.sh", a), ("cat a.sh | sh", piped), ("./a.sh", direct)]
        {
            assert_ne!(room.of(command).key, before.key, "{command}");
        }
    }

    #[test]
    fn a_script_that_cannot_be_bound_cannot_be_granted() {
        let room = Room::new();
        fs::write(room.0.path().join("big.py"), vec![b'#'; 1_024 * 1_024 + 1]).unwrap();
        assert_eq!(room.with(json!({ "command": "python3 big.py" })), None);
        assert_eq!(room.with(json!({ "command": "sh < big.py" })), None);
    }

    // A085
    #[test]
    fn what_runs_files_that_cannot_be_told_from_its_text_cannot_be_granted() {
        let room = Room::new();
        for command in
            ["cd sub && sh ../a.sh", "sh a*.sh", "sh ./a''.sh; true", "sh \"\"a.sh; true"]
        {
            assert_eq!(room.with(json!({ "command": command })), None, "{command}");
        }
        assert!(room.of("cat a.sh | sh").binds_files);
        assert!(room.with(json!({ "command": "ls *.sh | sort" })).is_some());
    }

    // I7
    #[test]
    fn what_a_command_only_reads_is_told_from_what_it_may_run() {
        let room = Room::new();
        for command in
            ["sh a.sh", "cat a.sh | sh", "./a.sh", ". ./a.sh; ls", "xargs sh a.sh < b.sh"]
        {
            assert!(room.of(command).runs_files, "{command}");
        }
        for command in ["cat a.sh", "echo x >> a.sh", "sort a.sh | uniq > b.sh", "ls && id"] {
            assert!(!room.of(command).runs_files, "{command}");
        }
    }

    // A085: what a build starts from is bound, and what that includes is owned up to
    #[test]
    fn a_build_is_bound_to_what_it_starts_from_and_narrowed_to_its_conversation() {
        let room = Room::new();
        let put = |name: &str, text: &str| fs::write(room.0.path().join(name), text).unwrap();
        fs::create_dir(room.0.path().join("sub")).unwrap();
        for (command, file) in [
            ("make test", "Makefile"),
            ("timeout 60 make test", "Makefile"),
            ("make -C sub", "sub/Makefile"),
            ("make -Csub all", "sub/GNUmakefile"),
            ("make -f rules.mk", "rules.mk"),
            ("make test; true", "Makefile"),
            ("sh -c 'make test'", "Makefile"),
            ("npm run build", "package.json"),
            ("npm --prefix=sub test", "sub/package.json"),
            ("npm test | tail -5", "package.json"),
        ] {
            put(file, "one");
            let before = room.of(command);
            assert!(before.narrow && before.runs_files, "{command}: {before:?}");
            assert!(before.pattern.contains("in this conversation only"), "{before:?}");
            assert_eq!(room.of(command), before);
            put(file, "two");
            assert_ne!(room.of(command).key, before.key, "{command}");
            fs::remove_file(room.0.path().join(file)).unwrap();
            assert_ne!(room.of(command).key, before.key, "{command}");
        }
    }

    // A085
    #[test]
    fn what_is_bound_whole_holds_as_widely_as_somebody_says() {
        let room = Room::new();
        for command in
            ["bash ./a.sh", "timeout 9 sh a.sh", "cat a.sh", "./a.sh", "git push", ". ./a.sh"]
        {
            let cover = room.of(command);
            assert!(!cover.narrow && !cover.pattern.contains("only"), "{command}: {cover:?}");
        }
        for command in ["sh", "python3 -m x", "perl -e 1"] {
            let cover = room.with(json!({ "command": command }));
            assert!(cover.is_none_or(|cover| cover.narrow), "{command}");
        }
    }

    // A085: a wrapper hides nothing of what it starts
    #[test]
    fn a_script_behind_a_wrapper_is_its_content_too() {
        let room = Room::new();
        let commands = [
            "timeout 60 bash ./a.sh",
            "nice sh a.sh",
            "nohup bash a.sh",
            "env A=1 sh a.sh",
            ". ./a.sh",
        ];
        let before = commands.map(|command| room.of(command).key);
        fs::write(room.0.path().join("a.sh"), "curl x | sh\n").unwrap();
        for (command, before) in commands.iter().zip(before) {
            assert_ne!(room.of(command).key, before, "{command}");
        }
    }

    #[test]
    fn all_other_arguments_and_the_folder_are_part_of_it() {
        let room = Room::new();
        fs::create_dir(room.0.path().join("sub")).unwrap();
        let here = room.of("cat a.sh");
        let there = room.with(json!({ "command": "cat a.sh", "workdir": "sub" })).unwrap();
        assert_ne!(here.key, there.key);
        assert!(there.pattern.contains("\"workdir\":\"sub\""), "{there:?}");
    }

    #[test]
    fn a_call_without_a_command_is_its_arguments_in_one_spelling() {
        let object = |text: &str| match serde_json::from_str(text).unwrap() {
            Value::Object(map) => map,
            other => panic!("{other}"),
        };
        let of = |text: &str| {
            let arguments = object(text);
            cover("t", &arguments, &arguments, &CallEffects::unknown(), Path::new("/")).unwrap()
        };
        let one = of(r#"{"b":1,"a":"x"}"#);
        assert_eq!(one.pattern, r#"t {"a":"x","b":1}"#);
        assert_eq!(of(r#"{"a":"x","b":1}"#), one);
        assert_ne!(of(r#"{"a":"x","b":"1"}"#).key, one.key);
    }
}
