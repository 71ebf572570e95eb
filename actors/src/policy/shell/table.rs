//! The tables of known programs and of variables: `commands.txt` and `variables.txt`, read once.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::finding::Weight;

const COMMANDS: &str = include_str!("commands.txt");
const VARIABLES: &str = include_str!("variables.txt");

static PROGRAMS: LazyLock<HashMap<&str, Entry>> =
    LazyLock::new(|| rows(COMMANDS).filter_map(entry_of).collect());
static LOADERS: LazyLock<HashSet<&str>> = LazyLock::new(|| section("loader"));
static SPECIAL: LazyLock<HashSet<&str>> = LazyLock::new(|| section("special"));
static HARMLESS: LazyLock<HashSet<&str>> = LazyLock::new(|| section("harmless"));

/// What running a program means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// Each is a path.
    Paths,
    /// The first is a path; more of them make it change something.
    Path,
    /// Plain text.
    Text,
    /// The first is a pattern or program text, the others are paths.
    Pattern,
    /// It takes none; with one it changes something.
    None,
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) class: Class,
    pub(super) operands: Operands,
    /// Options that make it write.
    pub(super) write: Vec<&'static str>,
    /// Options that make it run, reach or destroy something.
    pub(super) high: Vec<&'static str>,
    /// If not empty: the only options with which it is what its class says.
    pub(super) only: Vec<&'static str>,
    /// Options with which it takes whole folders; `*` is always.
    pub(super) deep: Vec<&'static str>,
}

/// The row of a program or of `git SUBCOMMAND`, under this name or a versioned one (`python3.12`).
pub(super) fn entry(name: &str) -> Option<&'static Entry> {
    let stem = || name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    PROGRAMS.get(name).or_else(|| PROGRAMS.get(stem()).filter(|_| !stem().is_empty()))
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
    text.lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .filter(|row| !row.is_empty())
}

fn section(kind: &str) -> HashSet<&'static str> {
    rows(VARIABLES)
        .filter_map(|row| row.split_once(char::is_whitespace))
        .filter(|(first, _)| *first == kind)
        .flat_map(|(_, names)| names.split_whitespace())
        .collect()
}

fn entry_of(row: &'static str) -> Option<(&'static str, Entry)> {
    let (name, rest) = row.split_once('|')?;
    let mut cells = rest.split_whitespace();
    let class = Class::of(cells.next()?)?;
    let operands = match cells.next()? {
        "paths" => Operands::Paths,
        "path" => Operands::Path,
        "text" => Operands::Text,
        "pattern" => Operands::Pattern,
        "none" => Operands::None,
        _ => return None,
    };
    let empty = Vec::new;
    let mut entry =
        Entry { class, operands, write: empty(), high: empty(), only: empty(), deep: empty() };
    for cell in cells {
        let (key, values) = cell.split_once('=')?;
        let values = values.split(',').collect();
        match key {
            "write" => entry.write = values,
            "high" => entry.high = values,
            "only" => entry.only = values,
            "deep" => entry.deep = values,
            _ => return None,
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
        for row in rows(COMMANDS) {
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
