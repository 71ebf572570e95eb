//! What the table says of a program and its arguments.

use super::finding::Weight;
use super::options::{Known, Part, Takes};
use super::places::{self, Use};
use super::table::{Class, Entry, Operands};
use super::walk::Walk;
use super::word::{Argument, Certainty};
use crate::policy::display::visible;

/// What was seen among the arguments so far.
#[derive(Default)]
struct Seen<'a> {
    operands: usize,
    /// `--` ended the options.
    ended: bool,
    /// The pattern stood in an option.
    pattern: bool,
    /// The next word is the value of the option before it.
    value: Option<Known>,
    /// Where it writes stood in an option.
    target: bool,
    /// It takes whole folders.
    deep: bool,
    /// It follows links in them.
    follows: bool,
    /// It can make links.
    links: bool,
    /// The operands that are paths.
    paths: Vec<&'a Argument>,
    /// Those behind `--`.
    after: Vec<&'a Argument>,
}

impl Walk<'_> {
    /// Judges a program and its arguments by its row.
    pub(super) fn by_table(&mut self, name: &str, entry: &Entry, arguments: &[Argument]) {
        let (weight, what) = entry.class.weight();
        if weight > Weight::Low {
            self.note(weight, || format!("`{name}` {what}"));
        }
        let used = self.links.used;
        let mut seen = Seen { deep: entry.deep, follows: entry.follows, ..Seen::default() };
        for argument in arguments {
            self.argument(name, entry, argument, &mut seen);
        }
        if seen.value.is_some_and(|known| known.takes != Takes::Text) {
            self.unclear(&format!("an option of `{name}` lacks its value"));
        }
        self.operands(name, entry, &seen);
        if seen.deep {
            self.deep(name, entry, &seen);
        }
        let (most, weight) = match entry.operands {
            Operands::None => (0, Weight::Medium),
            Operands::Never => (0, Weight::High),
            _ => (usize::MAX, Weight::Low),
        };
        if seen.operands > most {
            self.note(weight, || {
                format!("`{name}` changes something when it is given more than it reads")
            });
        }
        if entry.links || seen.links {
            self.makes_links(used, name.starts_with("git "));
        }
        if entry.here {
            self.writes_here(name);
        }
    }

    fn argument<'a>(
        &mut self,
        name: &str,
        entry: &Entry,
        argument: &'a Argument,
        seen: &mut Seen<'a>,
    ) {
        let text = &*argument.text;
        if argument.certainty == Certainty::Loose {
            return self.unclear(&format!(
                "an argument of `{name}` can become several; quote it, or write it out"
            ));
        }
        if let Some(known) = seen.value.take() {
            return self.option_value(name, known, text, argument.is_known(), seen);
        }
        if entry.any {
            seen.operands += 1;
            return;
        }
        let options = !(seen.ended || entry.first && seen.operands > 0);
        if options && text.is_empty() && !argument.is_known() {
            return self.unclear(&format!(
                "an argument of `{name}` that may be an option is only known when it runs; put \
                 `--` before it"
            ));
        }
        if options && text == "--" && argument.is_known() {
            if argument.exact().is_none() {
                self.unclear(&format!("an argument of `{name}` may end its options or not"));
            }
            seen.ended = true;
            return;
        }
        if options && text.starts_with('-') && (text.len() > 1 || !argument.is_known()) {
            return match entry.class {
                Class::Low | Class::Medium => self.option(name, entry, argument, seen),
                _ => self.any_option(name, entry, argument),
            };
        }
        seen.operands += 1;
        let is_pattern = entry.operands == Operands::Pattern && !seen.pattern && seen.operands == 1;
        if entry.operands == Operands::Text || is_pattern || text == "-" {
            return;
        }
        if !argument.is_known() {
            return self.unclear(&format!("a path that `{name}` uses is only known when it runs"));
        }
        seen.paths.push(argument);
        if seen.ended {
            seen.after.push(argument);
        }
    }

    /// The operands that are paths, each for what it is used.
    fn operands(&mut self, name: &str, entry: &Entry, seen: &Seen<'_>) {
        let last = seen.paths.len().saturating_sub(1);
        for (n, argument) in seen.paths.iter().enumerate() {
            let path = &*argument.text;
            // binutils read the words of a file in its place.
            if name == "strings" && path.starts_with('@') {
                self.note(Weight::High, || "`strings @FILE` reads what the file names".to_owned());
            }
            let changes = entry.class != Class::Low;
            let (reads, writes) = match entry.operands {
                Operands::Path => (n == 0, n > 0),
                Operands::Copy => (n < last || seen.target || last == 0, n == last && !seen.target),
                Operands::Change => (true, true),
                Operands::Write => (false, true),
                Operands::Paths | Operands::Pattern if changes && entry.class != Class::Medium => {
                    (false, true)
                }
                _ => (true, false),
            };
            if reads {
                self.path(path, Use::Read);
            }
            if writes {
                self.path(path, Use::Write);
                self.write(path, &format!("`{name}`"));
            }
        }
    }

    fn option(&mut self, name: &str, entry: &Entry, argument: &Argument, seen: &mut Seen<'_>) {
        let text = &*argument.text;
        for part in entry.options.read(text) {
            match part {
                Part::Unknown => {
                    self.may_run(|| {
                        format!("what `{name} {}` does isn't known to be harmless", visible(text))
                    });
                    self.any_option(name, entry, argument);
                }
                // More of it follows, which may be other options.
                Part::Flag(_) | Part::Next(_) if !argument.is_known() => {
                    self.unclear(&format!("an option of `{name}` is only known when it runs"));
                }
                Part::Flag(known) => seen.note(known),
                Part::Value(known, value) => {
                    seen.note(known);
                    self.option_value(name, known, value, argument.is_known(), seen);
                }
                Part::Next(known) => {
                    if argument.exact().is_none() {
                        self.unclear(&format!("an option of `{name}` is only known when it runs"));
                    }
                    seen.note(known);
                    seen.value = Some(known);
                }
            }
        }
    }

    /// The value of an option.
    fn option_value(
        &mut self,
        name: &str,
        known: Known,
        value: &str,
        is_known: bool,
        seen: &mut Seen<'_>,
    ) {
        let (reads, writes) = match known.takes {
            Takes::Nothing | Takes::Perhaps | Takes::Text => {
                // Placeholders of these formats start `gpg`, by the name a repository's settings give it.
                let signed =
                    ["%G", "%(signature", "%(*signature"].iter().any(|s| value.contains(s));
                if name.starts_with("git ") && (signed || !is_known) {
                    self.note(Weight::High, || {
                        format!("what `{name}` is asked for may make it check signatures")
                    });
                }
                return;
            }
            Takes::Read => (true, false),
            Takes::Write => (false, true),
            Takes::Change => (true, true),
        };
        if !is_known {
            return self.unclear(&format!("a path that `{name}` uses is only known when it runs"));
        }
        if reads && value != "-" {
            self.path(value, Use::Read);
        }
        if writes {
            seen.target = true;
            self.note(Weight::Medium, || format!("`{name}` writes to `{}`", visible(value)));
            self.path(value, Use::Write);
            self.write(value, &format!("`{name}`"));
        }
    }

    /// An option that isn't known: whatever in it may be a path is looked up.
    fn any_option(&mut self, name: &str, entry: &Entry, argument: &Argument) {
        if entry.operands == Operands::Text && entry.class > Class::Medium {
            return;
        }
        if !argument.is_known() {
            return self.unclear(&format!("an option of `{name}` is only known when it runs"));
        }
        for path in option_values(&argument.text) {
            self.path(path, Use::Read);
            self.path(path, Use::Write);
        }
    }

    /// A program that takes whole folders must not find a closed path in one, nor a link that leads out.
    fn deep(&mut self, name: &str, entry: &Entry, seen: &Seen<'_>) {
        // What git looks at is named by revisions too; only what stands behind `--` is surely a path.
        let of_git = name.starts_with("git ") && entry.class == Class::Low;
        let named = if of_git { &seen.after } else { &seen.paths };
        let mut folders: Vec<&str> = named.iter().map(|argument| &*argument.text).collect();
        if folders.is_empty() && entry.class > Class::Medium {
            return;
        }
        if folders.is_empty() || (of_git && folders.iter().any(|path| path.starts_with(':'))) {
            folders = vec!["."];
        }
        let gates = match entry.operands {
            Operands::Write => [None, Some(self.rules.writing)],
            Operands::Change => [Some(self.rules.paths), Some(self.rules.writing)],
            _ if entry.class > Class::Medium => [None, Some(self.rules.writing)],
            _ => [Some(self.rules.paths), None],
        };
        for folder in folders {
            let from = |gate| places::holds_closed(gate, folder, &self.scope.bases);
            if gates.into_iter().flatten().any(from) {
                // Not all of a folder need be known to git, so that a person may know better.
                let weight =
                    if name.starts_with("git ") { Weight::Unclear } else { Weight::Closed };
                self.note(weight, || {
                    format!(
                        "`{name}` would take all of `{}`, and a path in it is closed to it \
                         (`forbidden_paths`, `read_only_paths`, `write_only_paths`, or the service's own files); \
                         name what is needed",
                        visible(folder)
                    )
                });
            }
            if seen.follows && places::leads_out(self.rules.paths, folder, &self.scope.bases) {
                self.note(Weight::Unclear, || {
                    format!(
                        "`{name}` would follow a link in `{}` that leads out of the workspace, or there \
                         are too many files to tell",
                        visible(folder)
                    )
                });
            }
        }
    }

    /// A program writes where its input says, from the folder it stands in.
    pub(super) fn writes_here(&mut self, name: &str) {
        if places::holds_closed(self.rules.writing, ".", &self.scope.bases) {
            self.note(Weight::Unclear, || {
                format!(
                    "`{name}` may write to a path that is closed to it (`forbidden_paths`, \
                     `read_only_paths`, or the service's own files)"
                )
            });
        }
    }
}

impl Seen<'_> {
    fn note(&mut self, known: Known) {
        self.deep |= known.deep;
        self.follows |= known.follows;
        self.links |= known.links;
        self.pattern |= known.pattern;
    }
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
