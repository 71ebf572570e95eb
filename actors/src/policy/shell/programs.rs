//! Programs whose arguments are a language of their own.

use super::finding::Weight;
use super::places::Use;
use super::scripts::{awk_only_prints, sed_only_edits};
use super::table::{self, Entry};
use super::walk::Walk;
use super::word::{Argument, Certainty};
use crate::policy::display::visible;

/// What `find` may be asked without doing anything, by words that take no text.
const FIND: &[&str] = &[
    "-newer",
    "-empty",
    "-print",
    "-print0",
    "-not",
    "-o",
    "-or",
    "-a",
    "-and",
    "-prune",
    "-ls",
    "-quit",
    "-readable",
    "-writable",
    "-executable",
    "-xdev",
    "-mount",
    "-depth",
    "-daystart",
    "-true",
    "-false",
    "-P",
];
/// And by words whose value is text.
const FIND_TEXT: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-regex",
    "-iregex",
    "-printf",
    "-perm",
    "-lname",
    "-type",
    "-maxdepth",
    "-mindepth",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-regextype",
    "-user",
    "-group",
    "-inum",
    "-links",
];

impl Walk<'_> {
    /// Judges a program that the table can't tell all of. Says whether it was one.
    pub(super) fn special(&mut self, name: &str, entry: &Entry, arguments: &[Argument]) -> bool {
        match name {
            "find" => self.find(arguments),
            "git" => self.git(arguments),
            "sed" => self.sed(entry, arguments),
            "awk" | "gawk" | "mawk" | "nawk" => self.awk(name, entry, arguments),
            "ps" => self.ps(arguments),
            "date" => {
                let sets = |argument: &Argument| {
                    !argument.text.is_empty()
                        && argument.text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
                };
                if arguments.iter().any(sets) {
                    self.note(Weight::High, || "`date` with a time sets the clock".to_owned());
                }
                return false;
            }
            "tar" => {
                // The first word may be a bundle of options without its `-`.
                let mut arguments = arguments.to_vec();
                if let Some(first) =
                    arguments.first_mut().filter(|first| !first.text.starts_with('-'))
                {
                    first.text.insert(0, '-');
                }
                self.by_table(name, entry, &arguments);
            }
            _ => return false,
        }
        true
    }

    fn find(&mut self, arguments: &[Argument]) {
        let mut at = 0;
        let mut text = false;
        while let Some(argument) = arguments.get(at) {
            at += 1;
            let word = &*argument.text;
            if argument.certainty == Certainty::Loose || (!argument.is_known() && !text) {
                return self.unclear("an argument of `find` is only known when it runs");
            }
            if std::mem::take(&mut text) {
                continue;
            }
            match word {
                "-exec" | "-ok" | "-execdir" | "-okdir" => {
                    if word.ends_with("dir") {
                        self.note(Weight::Refused, || {
                            format!("`find {word}` runs programs in folders that aren't known; use `-exec`")
                        });
                    }
                    self.note(Weight::High, || {
                        format!("`find {word}` runs a program on what it finds")
                    });
                    let rest = &arguments[at..];
                    let end = rest.iter().position(|word| matches!(&*word.text, ";" | "+"));
                    let end = end.unwrap_or(rest.len());
                    self.started(&rest[..end]);
                    at += end + 1;
                }
                "-delete" => {
                    self.note(Weight::High, || "`find -delete` deletes what it finds".to_owned())
                }
                "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                    self.note(Weight::High, || format!("`find {word}` writes a file"));
                    if let Some(file) = arguments.get(at) {
                        self.path(&file.text, Use::Write);
                    }
                }
                word if FIND_TEXT.contains(&word) => text = true,
                word if FIND.contains(&word) => {}
                "!" | "(" | ")" | "," => {}
                word if word.starts_with('-') => {
                    self.note(Weight::High, || {
                        format!("what `find {}` does isn't judged", visible(word))
                    });
                }
                path => self.path(path, Use::Read),
            }
        }
    }

    fn git(&mut self, arguments: &[Argument]) {
        let mut rest = arguments;
        while let [first, more @ ..] = rest {
            match first.exact() {
                Some("--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs") => {
                    rest = more
                }
                Some("--version" | "--help") if arguments.len() == 1 => return,
                Some("-C") => {
                    let [folder, more @ ..] = more else { break };
                    let Some(folder) = folder.exact() else {
                        return self.unclear("the folder of `git -C` is only known when it runs");
                    };
                    self.path(folder, Use::Read);
                    let inside: Vec<String> =
                        super::places::from_bases(folder, &self.scope.bases).collect();
                    let before = self.scope.bases.clone();
                    self.scope.bases.extend(inside);
                    self.git(more);
                    self.scope.bases = before;
                    return;
                }
                Some(option) if option.starts_with('-') => {
                    self.note(Weight::High, || {
                        format!("`git {}` can change what git runs", visible(option))
                    });
                    return;
                }
                _ => break,
            }
        }
        let [sub, rest @ ..] = rest else { return };
        let Some(sub) = sub.exact() else {
            return self.unclear("the subcommand of `git` is only known when it runs");
        };
        let two =
            rest.first().and_then(Argument::exact).map(|second| format!("git {sub} {second}"));
        if let Some((name, entry)) =
            two.as_deref().and_then(|name| Some((name, table::entry(name)?)))
        {
            return self.by_table(name, entry, &rest[1..]);
        }
        let name = format!("git {sub}");
        match table::entry(&name) {
            None => self.note(Weight::High, || {
                format!("`{}` isn't known; it may be an alias, which runs anything", visible(&name))
            }),
            Some(entry) => {
                let gets = ["--get", "--get-all", "--get-regexp", "--list", "-l"];
                let first = rest.first().and_then(Argument::exact).unwrap_or("");
                if sub == "config" && !gets.contains(&first) {
                    self.note(Weight::High, || {
                        "`git config` can change what git runs; to read, begin with `--get`"
                            .to_owned()
                    });
                }
                self.by_table(&name, entry, rest);
            }
        }
    }

    fn sed(&mut self, entry: &Entry, arguments: &[Argument]) {
        let mut files = Vec::new();
        let mut scripts = Vec::new();
        let mut given = false;
        let mut words = arguments.iter();
        while let Some(argument) = words.next() {
            match &*argument.text {
                "-e" | "--expression" => {
                    given = true;
                    scripts.extend(words.next());
                }
                "-n" | "-E" | "-r" | "-s" | "-u" | "-z" | "-nE" | "-En" | "-nr" | "--quiet"
                | "--silent" | "--posix" | "--sandbox" | "--" => {}
                "-i" | "--in-place" => {
                    self.note(Weight::Medium, || "`sed -i` writes to files".to_owned());
                }
                option if option.starts_with('-') && option.len() > 1 => {
                    return self.unclear("an option of `sed` is not judged");
                }
                _ => files.push(argument),
            }
        }
        if !given {
            if files.is_empty() {
                return;
            }
            scripts.push(files.remove(0));
        }
        for script in scripts {
            if !script.exact().is_some_and(sed_only_edits) {
                self.note(Weight::High, || {
                    "the `sed` script may run programs or write files".to_owned()
                });
            }
        }
        self.files("sed", entry, &files);
    }

    fn awk(&mut self, name: &str, entry: &Entry, arguments: &[Argument]) {
        let mut files = Vec::new();
        let mut words = arguments.iter();
        while let Some(argument) = words.next() {
            match &*argument.text {
                "-F" | "-v" => drop(words.next()),
                "--" => {}
                option if option.starts_with("-F") && argument.is_known() => {}
                option if option.starts_with('-') && option.len() > 1 => {
                    return self.unclear(&format!("an option of `{name}` is not judged"));
                }
                _ => files.push(argument),
            }
        }
        if files.is_empty() {
            return;
        }
        if !files.remove(0).exact().is_some_and(awk_only_prints) {
            self.note(Weight::High, || {
                format!("the `{name}` program may run programs, or read and write files")
            });
        }
        self.files(name, entry, &files);
    }

    fn files(&mut self, name: &str, entry: &Entry, files: &[&Argument]) {
        let used = if entry.class == table::Class::Low { Use::Read } else { Use::Write };
        for file in files {
            match file.is_known() {
                true => {
                    self.path(&file.text, used);
                    if super::places::starts_later(&file.text)
                        && self.found.weight == Weight::Medium
                    {
                        self.write(&file.text, &format!("`{name}`"));
                    }
                }
                false => {
                    self.unclear(&format!("a path that `{name}` uses is only known when it runs"))
                }
            }
        }
    }

    fn ps(&mut self, arguments: &[Argument]) {
        let known = [
            "aux", "ax", "auxf", "axf", "-e", "-A", "-f", "-ef", "-eF", "-l", "-u", "-p", "-o",
            "-C", "--forest",
        ];
        for argument in arguments {
            let text = &*argument.text;
            let letters = text.bytes().all(|b| b.is_ascii_alphabetic());
            if letters && text.contains('e') && text.len() < 8 {
                self.note(Weight::Closed, || {
                    format!("`ps {text}` may show the environment of the service, which is closed to tools")
                });
            }
            let value = text.bytes().all(|b| b.is_ascii_digit() || b == b'%' || b == b',');
            let columns = text.split(',').all(|column| {
                let column = column.trim_start_matches('%').trim_end_matches('=');
                [
                    "pid", "ppid", "user", "cpu", "mem", "rss", "vsz", "stat", "start", "time",
                    "etime", "comm", "args", "cmd", "pcpu", "pmem", "nlwp", "tty",
                ]
                .contains(&column)
            });
            if !argument.is_known() || !(known.contains(&text) || value || columns) {
                self.note(Weight::High, || {
                    format!("what `ps {}` shows isn't judged", visible(text))
                });
            }
        }
    }
}
