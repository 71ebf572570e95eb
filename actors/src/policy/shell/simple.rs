//! A simple command: its program, the list, and what the table says of its arguments.

use super::finding::Weight;
use super::places::{self, Place, Use};
use super::table::{self, Class, Entry};
use super::walk::{AFTER_LINKS, Simple, Walk};
use super::word::{Argument, Certainty, Item, Word};
use crate::policy::display::visible;

/// Where the system keeps its programs: a name there is that program.
const SYSTEM: &[&str] =
    &["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/usr/local/sbin/"];
/// Words that steer the shell itself and start nothing. No list has to name them.
const STEERING: &[&str] = &[":", "true", "false", "exit", "return", "break", "continue", "shift"];
/// Builtins that are judged here.
const BUILTINS: &[&str] = &["cd", "set", "read"];

/// Whether this is a builtin that is judged by itself, not by the table.
pub(super) fn is_builtin(name: &str) -> bool {
    BUILTINS.contains(&name)
        || STEERING.contains(&name)
        || matches!(name, "unset" | "export" | "local")
}

impl Walk<'_> {
    /// A simple command as written.
    pub(super) fn simple(&mut self, simple: Simple) {
        if simple.words.is_empty() {
            return;
        }
        if simple.words.iter().any(names_a_variable) {
            self.unclear("a word in it is `{name}`, which before a redirection sets that variable");
        }
        let arguments = self.arguments(&simple.words);
        // Only the shell itself knows its functions: what a wrapper runs is a program.
        let function = arguments.first().and_then(Argument::exact);
        if let Some(bases) = function.and_then(|name| self.functions.get(name)) {
            if self.links.made {
                self.unclear(AFTER_LINKS);
            } else if *bases != self.scope.bases || self.links.changed {
                self.unclear("a function runs elsewhere, or later, than it was judged for");
            }
            return;
        }
        self.run(&arguments, simple.burdened);
    }

    /// A program and its arguments. `burdened`: the shell may give it up before it runs.
    pub(super) fn run(&mut self, arguments: &[Argument], burdened: bool) {
        let Some((program, arguments)) = arguments.split_first() else {
            return self.unclear("a wrapper in it has nothing to run");
        };
        let Some(program) = program.exact().filter(|name| !name.is_empty() && name.is_ascii())
        else {
            return self
                .unclear("which program it runs is only known when it runs, or can't be read");
        };
        self.listed(program);
        let name = SYSTEM.iter().find_map(|folder| program.strip_prefix(folder)).unwrap_or(program);
        if name.contains('/') {
            self.path(program, Use::Read);
            return self.unknown(program, arguments);
        }
        match name {
            "cd" => self.cd(arguments, burdened),
            "set" => self.set(arguments),
            "read" => self.read(arguments),
            name if STEERING.contains(&name)
                && name != ":"
                && name != "true"
                && name != "false" =>
            {
                self.steering(name, arguments);
            }
            _ => match table::entry(name) {
                Some(entry) => self.known(name, entry, arguments, burdened),
                None => self.unknown(program, arguments),
            },
        }
    }

    /// `allowed_commands`: every program of a command has to be named, or `*`.
    fn listed(&mut self, program: &str) {
        let Some(list) = self.rules.allowed else { return };
        if list.iter().any(|name| name == program || name == "*") || STEERING.contains(&program) {
            return;
        }
        self.note(Weight::NotListed, || {
            format!(
                "command not allowed: `{}` is not in the risk profile's `allowed_commands`; use a \
                 command that is, or have the operator add it",
                visible(program)
            )
        });
    }

    /// A program the table doesn't know.
    fn unknown(&mut self, program: &str, arguments: &[Argument]) {
        let named = self.rules.allowed.is_some_and(|list| list.iter().any(|name| name == program));
        let shown = visible(program);
        match named {
            true => self.note(Weight::Medium, || {
                format!("`{shown}` is named in `allowed_commands`, but what it does isn't known")
            }),
            false => self.note(Weight::High, || format!("what `{shown}` does isn't known")),
        }
        for argument in arguments {
            if !argument.is_known() {
                return self.unclear("an argument of it is only known when it runs");
            }
            for path in super::closed::spellings(&argument.text) {
                for (gate, used) in
                    [(self.rules.paths, Use::Read), (self.rules.writing, Use::Write)]
                {
                    match places::look(gate, path, &self.scope.bases, used) {
                        Place::Inside => {}
                        Place::Closed(why) => self.note(Weight::Closed, || why),
                        Place::Outside(why) | Place::Unclear(why) => {
                            self.note(Weight::Unclear, || why);
                        }
                    }
                }
            }
        }
    }

    fn known(&mut self, name: &str, entry: &Entry, arguments: &[Argument], burdened: bool) {
        if entry.class == Class::Interpreter {
            return self.interpreter(name, entry, arguments);
        }
        if self.wrapper(name, entry, arguments, burdened) || self.special(name, entry, arguments) {
            return;
        }
        self.by_table(name, entry, arguments);
    }

    fn cd(&mut self, arguments: &[Argument], burdened: bool) {
        let arguments = match arguments {
            [first, rest @ ..] if first.exact() == Some("--") => rest,
            all => all,
        };
        let [argument] = arguments else {
            return self.unclear("where `cd` leads isn't written out");
        };
        let Some(folder) = argument.exact().filter(|folder| !folder.is_empty() && *folder != "-")
        else {
            return self.unclear("where `cd` leads is only known when it runs");
        };
        self.path(folder, Use::Read);
        if self.scope.held || burdened {
            return self
                .unclear("`cd` in a loop, a function or with a redirection can't be followed");
        }
        let gate = self.rules.paths;
        let mut bases = Vec::new();
        let paths: Vec<String> = places::from_bases(folder, &self.scope.bases).collect();
        for path in paths {
            match gate.resolve(&path) {
                Ok(found) if found.open_folder().is_ok() => {
                    // The shell goes up from a link to where the link is, programs to where it leads.
                    let plain = gate.workspace().join(&path);
                    let real = gate.workspace().join(found.relative());
                    if tidy(&plain) != tidy(&real) {
                        self.unclear("`cd` leads through a link, which can't be followed");
                    }
                    bases.push(found.relative().display().to_string());
                    // It may be gone by then.
                    if self.links.changed {
                        bases.extend(self.scope.bases.iter().cloned());
                    }
                }
                // It may come to be by then, or the `cd` may fail.
                _ => {
                    bases.push(path);
                    bases.extend(self.scope.bases.iter().cloned());
                }
            }
        }
        for base in &mut bases {
            if base == "." {
                base.clear();
            }
        }
        bases.sort();
        bases.dedup();
        self.scope.bases = bases;
    }

    fn set(&mut self, arguments: &[Argument]) {
        let known =
            ["-e", "-u", "-eu", "-x", "-ex", "-eux", "+e", "+x", "+u", "-o", "pipefail", "-euo"];
        if !arguments
            .iter()
            .all(|argument| argument.exact().is_some_and(|text| known.contains(&text)))
        {
            self.unclear("`set` changes how the rest is read");
        }
    }

    fn read(&mut self, arguments: &[Argument]) {
        for argument in arguments {
            let name = argument.exact().unwrap_or("");
            let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            let own = plain && table::variable(name) == table::Variable::Own && !name.is_empty();
            // A name that is not written out was not counted among those that are assigned.
            if name != "-r" && name != "REPLY" && !(own && self.worded.contains(name)) {
                return self.unclear("`read` takes more than plain names");
            }
        }
    }

    fn steering(&mut self, name: &str, arguments: &[Argument]) {
        let number = |argument: &Argument| {
            argument.certainty == Certainty::Number
                || (argument.is_known() && argument.text.bytes().all(|b| b.is_ascii_digit()))
        };
        if arguments.len() > 1 || !arguments.iter().all(number) {
            self.unclear(&format!("`{name}` takes a number"));
        }
    }
}

/// `{name}` or `{name[…]}`, written so: directly before a redirection it is no word.
fn names_a_variable(word: &Word) -> bool {
    let [Item::Char('{', false), Item::Char(first, false), rest @ ..] = &word.items[..] else {
        return false;
    };
    let ends = rest.last() == Some(&Item::Char('}', false));
    ends && (first.is_ascii_alphabetic() || *first == '_')
        && !rest.contains(&Item::Char(',', false))
}

/// Without `.` and with `..` taken back, as text.
fn tidy(path: &std::path::Path) -> std::path::PathBuf {
    let mut plain = std::path::PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
