//! A simple command: its program, the list, and what the table says of its arguments.

use super::finding::Weight;
use super::places::{self, Place, Use};
use super::table::{self, Class, Entry, Operands};
use super::walk::{Simple, Walk};
use super::word::{Argument, Certainty};
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
        let arguments = self.arguments(&simple.words);
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
        if self.functions.contains(program) {
            return;
        }
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
                let gate = self.rules.writing;
                match places::look(gate, path, &self.scope.bases, Use::Write) {
                    Place::Inside => {}
                    Place::Closed(why) => self.note(Weight::Closed, || why),
                    Place::Outside(why) | Place::Unclear(why) => {
                        self.note(Weight::Unclear, || why);
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

    /// What the table says of a program and its arguments.
    pub(super) fn by_table(&mut self, name: &str, entry: &Entry, arguments: &[Argument]) {
        let (weight, what) = entry.class.weight();
        if weight > Weight::Low {
            self.note(weight, || format!("`{name}` {what}"));
        }
        let mut seen = Seen::default();
        for argument in arguments {
            self.argument(name, entry, argument, &mut seen);
        }
        let deep = entry.deep.contains(&"*") || seen.deep;
        if deep {
            self.deep(name, arguments, entry.operands == Operands::Pattern && !seen.pattern);
        }
        let most = match entry.operands {
            Operands::None => 0,
            Operands::Path => 1,
            Operands::Paths | Operands::Text | Operands::Pattern => usize::MAX,
        };
        if seen.operands > most {
            self.note(Weight::Medium, || {
                format!("`{name}` changes something when it is given more than it reads")
            });
        }
    }

    fn argument(&mut self, name: &str, entry: &Entry, argument: &Argument, seen: &mut Seen) {
        let text = &*argument.text;
        if argument.certainty == Certainty::Loose {
            return self.unclear(&format!(
                "an argument of `{name}` can become several; quote it, or write it out"
            ));
        }
        let may_be_option =
            !seen.ended && (text.starts_with('-') || (text.is_empty() && !argument.is_known()));
        if may_be_option && !argument.is_known() && !text.contains('=') {
            let minds = !entry.write.is_empty() || !entry.high.is_empty() || !entry.only.is_empty();
            let text_only = entry.operands == Operands::Text && !minds;
            if !text_only && !seen.value {
                return self.unclear(&format!(
                    "an argument of `{name}` that may be an option is only known when it runs; put \
                     `--` before it"
                ));
            }
        }
        if !seen.ended && text == "--" {
            seen.ended = true;
            return;
        }
        let is_option = !seen.ended && text.len() > 1 && text.starts_with('-');
        if is_option {
            self.option(name, entry, argument, seen);
            return;
        }
        let value = std::mem::take(&mut seen.value);
        if text == "-" && argument.is_known() {
            seen.operands += 1;
            return;
        }
        if entry.operands == Operands::Text || value {
            seen.operands += usize::from(!value);
            return;
        }
        if entry.operands == Operands::Pattern && !seen.pattern && seen.operands == 0 {
            seen.operands += 1;
            return;
        }
        seen.operands += 1;
        self.operand(name, entry, argument);
    }

    /// An operand that is a path.
    fn operand(&mut self, name: &str, entry: &Entry, argument: &Argument) {
        if !argument.is_known() {
            return self.unclear(&format!("a path that `{name}` uses is only known when it runs"));
        }
        let changes = entry.class != Class::Low;
        self.path(&argument.text, if changes { Use::Write } else { Use::Read });
        if changes && places::starts_later(&argument.text) {
            self.note(Weight::High, || {
                format!("`{name}` touches `{}`, which decides what runs later", argument.text)
            });
        }
    }

    fn option(&mut self, name: &str, entry: &Entry, argument: &Argument, seen: &mut Seen) {
        let text = &*argument.text;
        let has = |list: &[&str]| list.iter().any(|option| is_option(text, option));
        if has(&entry.high) {
            self.note(Weight::High, || {
                format!("`{name} {}` runs, follows or reaches something", visible(text))
            });
        }
        if has(&entry.write) {
            self.note(Weight::Medium, || format!("`{name} {}` writes", visible(text)));
        }
        if !entry.only.is_empty() && !entry.only.iter().any(|option| is_exactly(text, option)) {
            self.note(Weight::High, || {
                format!("what `{name} {}` does isn't known to be harmless", visible(text))
            });
        }
        seen.deep |= has(&entry.deep);
        // The pattern stands in an option, so that the first operand is a path; its text is no path.
        seen.pattern |= entry.operands == Operands::Pattern
            && has(&["-e", "-f", "--regexp", "--file", "--files", "--from-file"]);
        seen.value = entry.operands == Operands::Pattern && matches!(text, "-e" | "--regexp");
        if entry.operands == Operands::Text {
            return;
        }
        let patterned = entry.operands == Operands::Pattern
            && (text.starts_with("--regexp=") || text.starts_with("-e"));
        if patterned {
            return;
        }
        if !argument.is_known() {
            return self.unclear(&format!("an option of `{name}` is only known when it runs"));
        }
        for path in option_values(text) {
            self.path(path, if has(&entry.write) { Use::Write } else { Use::Read });
        }
    }

    /// A program that takes whole folders must not find a closed path in one.
    fn deep(&mut self, name: &str, arguments: &[Argument], pattern_first: bool) {
        let mut folders: Vec<&str> = arguments
            .iter()
            .map(|argument| &*argument.text)
            .filter(|text| !text.starts_with('-'))
            .collect();
        if pattern_first && !folders.is_empty() {
            folders.remove(0);
        }
        if folders.is_empty() {
            folders.push(".");
        }
        // What only reads may take a folder in which something can't be written.
        let reads = table::entry(name).is_some_and(|entry| entry.class == Class::Low);
        let gate = if reads { self.rules.paths } else { self.rules.writing };
        for folder in folders {
            if places::holds_closed(gate, folder, &self.scope.bases) {
                self.note(Weight::Closed, || {
                    format!(
                        "`{name}` would take all of `{}`, and a path in it is closed to it \
                         (`forbidden_paths`, `read_only_paths`, `write_only_paths`, or the service's own files); \
                         name what is needed",
                        visible(folder)
                    )
                });
            }
        }
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
            if name != "-r" && name != "REPLY" && !own {
                return self.unclear("`read` takes more than plain names");
            }
        }
    }

    fn steering(&mut self, name: &str, arguments: &[Argument]) {
        let number = |argument: &Argument| {
            argument.is_known() && argument.text.bytes().all(|b| b.is_ascii_digit())
        };
        if arguments.len() > 1 || !arguments.iter().all(number) {
            self.unclear(&format!("`{name}` takes a number"));
        }
    }
}

/// What was seen among the arguments so far.
#[derive(Default)]
struct Seen {
    operands: usize,
    /// `--` ended the options.
    ended: bool,
    /// The pattern stood in an option.
    pattern: bool,
    /// The next word belongs to the option before it, and is text.
    value: bool,
    /// It takes whole folders.
    deep: bool,
}

/// Whether an argument is an option, or a bundle that holds it: `--out=x` is `--output` too.
fn is_option(argument: &str, option: &str) -> bool {
    match (argument.strip_prefix("--"), option.strip_prefix("--")) {
        (Some(given), Some(full)) => {
            let given = given.split('=').next().unwrap_or(given);
            !given.is_empty() && full.starts_with(given)
        }
        (None, None) => {
            let letters = argument.trim_start_matches('-');
            match option.trim_start_matches('-') {
                // What follows a sign is the value of the letter before it.
                letter if letter.chars().count() == 1 => letters
                    .split(|c: char| !c.is_ascii_alphanumeric())
                    .next()
                    .is_some_and(|letters| letters.contains(letter)),
                word => letters == word,
            }
        }
        _ => false,
    }
}

/// Whether an argument is just this option, with or without a value.
fn is_exactly(argument: &str, option: &str) -> bool {
    let number =
        || argument.strip_prefix(option).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    argument.split('=').next() == Some(option) || (option.len() == 2 && number())
}

/// What in an option may be a path.
fn option_values(option: &str) -> Vec<&str> {
    let mut values: Vec<&str> =
        option.split_once('=').map(|(_, value)| value).into_iter().collect();
    if !option.starts_with("--") {
        values.extend(option.char_indices().nth(2).map(|(at, _)| &option[at..]));
        values.extend(option.find(['/', '~']).map(|at| &option[at..]));
        values.extend(option.find("..").map(|at| &option[at..]));
    }
    values.retain(|value| !value.is_empty());
    values
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
