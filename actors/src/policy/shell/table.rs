//! The tables of known programs and of variables: `commands.txt` and `variables.txt`, read once.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::finding::Weight;
use super::options::Options;

const COMMANDS: &str = include_str!("commands.txt");
const VARIABLES: &str = include_str!("variables.txt");

static PROGRAMS: LazyLock<HashMap<&str, Entry>> =
    LazyLock::new(|| rows(COMMANDS).filter_map(entry_of).collect());
/// Options that rows share, by the row's name.
static SHARED: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let shared = rows(COMMANDS).filter(|row| row.starts_with('='));
    shared
        .filter_map(|row| row.split_once('|'))
        .map(|(name, options)| (name.trim(), options.split_whitespace().collect()))
        .collect()
});
static LOADERS: LazyLock<HashSet<&str>> = LazyLock::new(|| section("loader"));
static SPECIAL: LazyLock<HashSet<&str>> = LazyLock::new(|| section("special"));
static HARMLESS: LazyLock<HashSet<&str>> = LazyLock::new(|| section("harmless"));

/// What running a program means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Class {
    /// It only reads.
    Low,
    /// It changes the workspace.
    Medium,
    /// It destroys, or reaches further.
    High,
    /// It uses the network.
    Network,
    /// It runs what its arguments say.
    Runs,
    /// It runs a program text: of an argument, a file, or its input.
    Interpreter,
    /// It installs or builds packages, which runs their code.
    Installs,
    /// It changes the machine.
    System,
}

impl Class {
    fn of(text: &str) -> Option<Self> {
        Some(match text {
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            "network" => Self::Network,
            "runs" => Self::Runs,
            "interpreter" => Self::Interpreter,
            "installs" => Self::Installs,
            "system" => Self::System,
            _ => return None,
        })
    }

    /// How heavy, and what to say of it.
    pub(super) fn weight(self) -> (Weight, &'static str) {
        match self {
            Self::Low => (Weight::Low, "only reads"),
            Self::Medium => (Weight::Medium, "changes files of the workspace"),
            Self::High => (Weight::High, "does what can't be taken back"),
            Self::Network => (Weight::High, "uses the network"),
            Self::Runs => (Weight::High, "runs what its arguments say"),
            Self::Interpreter => (Weight::High, "runs a program text that is not judged"),
            Self::Installs => (Weight::High, "runs code of packages or of the workspace"),
            Self::System => (Weight::High, "reaches beyond the workspace"),
        }
    }
}

/// How the operands of a program are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operands {
    /// Each is a path that is read.
    Paths,
    /// The first is a path that is read, a second one that is written to.
    Path,
    /// All but the last are read, the last is written to.
    Copy,
    /// Each is read and written.
    Change,
    /// Each is written.
    Write,
    /// Plain text.
    Text,
    /// The first is a pattern or program text, the others are paths.
    Pattern,
    /// It takes none; with one it changes something.
    None,
    /// It takes none; with one it changes something outside the workspace, or reaches out.
    Never,
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) class: Class,
    pub(super) operands: Operands,
    /// The options with which it is what its class says.
    pub(super) options: Options,
    /// All that follows is text.
    pub(super) any: bool,
    /// Options end at the first operand.
    pub(super) first: bool,
    /// It takes whole folders.
    pub(super) deep: bool,
    /// It follows the links in them.
    pub(super) follows: bool,
    /// It can make links.
    pub(super) links: bool,
    /// It writes where its input says.
    pub(super) here: bool,
}

/// The row of a program or of `git SUBCOMMAND`. An interpreter has one under versioned names too
/// (`python3.12`); of another program with a number behind it nothing is known.
pub(super) fn entry(name: &str) -> Option<&'static Entry> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    let versioned = |entry: &&Entry| matches!(entry.class, Class::Interpreter | Class::Installs);
    PROGRAMS.get(name).or_else(|| PROGRAMS.get(stem).filter(versioned))
}

/// Whether a file among a program's words may be a text it runs, under this name or a versioned one. Of a
/// program that is not known, it may. `git` reads the files it is given.
pub fn runs_files(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    let starts_others = matches!(name, "env" | "find" | "awk" | "sed");
    let runs =
        |entry: &Entry| matches!(entry.class, Class::Runs | Class::Interpreter | Class::Installs);
    name != "git" && (starts_others || entry(name).is_none_or(runs))
}

/// Whether a word is the name of a program that is known to run what files say.
pub fn is_runner(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    name != "git" && entry(name).is_some() && runs_files(name)
}

/// Whether a word is the name of a program that is known to run files it looks for itself: a build, a package
/// manager.
pub fn loads_files(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    let others = matches!(name, "docker" | "podman");
    others || entry(name).is_some_and(|entry| entry.class == Class::Installs)
}

/// What an assignment to a variable may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Variable {
    /// It decides which code programs load or run.
    Loader,
    /// The shell itself, or every program, gives it a meaning.
    Special,
    /// A name that changes nothing but wording and colours.
    Harmless,
    /// A name of the writer's own.
    Own,
}

/// What a variable's name says.
pub(super) fn variable(name: &str) -> Variable {
    let prefixed = |set: &HashSet<&str>| {
        set.iter().any(|row| row.strip_suffix('*').is_some_and(|start| name.starts_with(start)))
    };
    match name {
        name if HARMLESS.contains(name) => Variable::Harmless,
        name if LOADERS.contains(name) => Variable::Loader,
        name if SPECIAL.contains(name) => Variable::Special,
        _ if prefixed(&LOADERS) => Variable::Loader,
        _ if prefixed(&SPECIAL) => Variable::Special,
        _ if prefixed(&HARMLESS) => Variable::Harmless,
        _ => Variable::Own,
    }
}

fn rows(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().map(str::trim).filter(|row| !row.is_empty() && !row.starts_with('#'))
}

fn section(kind: &str) -> HashSet<&'static str> {
    rows(VARIABLES)
        .filter_map(|row| row.split_once(char::is_whitespace))
        .filter(|(first, _)| *first == kind)
        .flat_map(|(_, names)| names.split_whitespace())
        .collect()
}

fn entry_of(row: &'static str) -> Option<(&'static str, Entry)> {
    let (name, rest) = row.split_once('|').filter(|_| !row.starts_with('='))?;
    let mut cells = rest.split_whitespace();
    let class = Class::of(cells.next()?)?;
    let operands = match cells.next()? {
        "paths" => Operands::Paths,
        "path" => Operands::Path,
        "copy" => Operands::Copy,
        "change" => Operands::Change,
        "write" => Operands::Write,
        "text" => Operands::Text,
        "pattern" => Operands::Pattern,
        "none" => Operands::None,
        "never" => Operands::Never,
        _ => return None,
    };
    let mut entry = Entry {
        class,
        operands,
        options: Options::default(),
        any: false,
        first: false,
        deep: false,
        follows: false,
        links: false,
        here: false,
    };
    for cell in cells {
        match cell {
            "any" => entry.any = true,
            "first" => entry.first = true,
            "single" => entry.options.single(),
            "deep" => entry.deep = true,
            "follows" => entry.follows = true,
            "links" => entry.links = true,
            "here" => entry.here = true,
            shared if shared.starts_with('=') => {
                for option in SHARED.get(shared)? {
                    entry.options.add(option)?;
                }
            }
            option => entry.options.add(option)?,
        }
    }
    Some((name.trim(), entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_tables_is_read_and_no_name_stands_twice() {
        let mut names = HashSet::new();
        for row in rows(COMMANDS).filter(|row| !row.starts_with('=')) {
            let (name, _) = entry_of(row).unwrap_or_else(|| panic!("{row}"));
            assert!(names.insert(name), "{name} stands twice");
        }
        assert!(names.len() > 150, "{}", names.len());
        for row in rows(VARIABLES) {
            let kind = row.split_whitespace().next();
            assert!(matches!(kind, Some("loader" | "special" | "harmless")), "{row}");
        }
    }

    #[test]
    fn a_program_is_known_under_its_versioned_name_too() {
        for name in ["python3", "python3.12", "perl5.36", "node-20"] {
            let class = entry(name).map(|entry| entry.class);
            assert_eq!(class, Some(Class::Interpreter), "{name}");
        }
        assert!(entry("mytool").is_none());
        assert!(entry("7").is_none());
    }

    #[test]
    fn names_of_variables_say_what_an_assignment_does() {
        let kinds =
            ["LD_PRELOAD", "PATH", "GIT_SSH_COMMAND", "LC_ALL", "GIT_AUTHOR_NAME"].map(variable);
        use Variable::{Harmless, Loader};
        assert_eq!(kinds, [Loader, Loader, Loader, Harmless, Loader]);
        assert_eq!(variable("BASHPID"), Variable::Special);
        assert_eq!(variable("total"), Variable::Own);
    }
}
