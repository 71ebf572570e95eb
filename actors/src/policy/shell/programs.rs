//! Programs whose arguments are a language of their own.

use super::finding::Weight;
use super::places::Use;
use super::scripts::{awk_only_prints, jq_only_filters, sed_only_edits};
use super::table::Entry;
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
            "git" => self.git_where_it_stands(arguments),
            "sed" => self.sed(arguments),
            "awk" | "gawk" | "mawk" | "nawk" => self.awk(name, arguments),
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
            "tar" => self.tar(name, entry, arguments),
            "jq" => self.jq(name, arguments),
            "test" => self.test_words(arguments),
            "printf" => {
                self.printf(arguments);
                return false;
            }
            _ => return false,
        }
        true
    }

    /// Of the conversions one assigns: `%n` sets the variable that its argument names.
    fn printf(&mut self, arguments: &[Argument]) {
        let format = arguments.iter().find(|argument| argument.exact() != Some("--"));
        let known = format.is_none_or(|format| format.exact().is_some());
        let assigns = |format: &Argument| {
            format.text.split('%').skip(1).any(|conversion| {
                let rest = conversion.trim_start_matches(|c: char| {
                    c.is_ascii_digit() || "-+ #'.*hlLqjzt".contains(c)
                });
                rest.starts_with('n')
            })
        };
        if !known || format.is_some_and(assigns) {
            self.unclear(
                "a format of `printf` that isn't written out, or has `%n`, may set a variable",
            );
        }
    }

    fn tar(&mut self, name: &str, entry: &Entry, arguments: &[Argument]) {
        let used = self.links.used;
        let mut rest = arguments;
        let mut extracts = false;
        // The first word may be a bundle of options without its `-`; their values are the words behind it.
        if let [first, more @ ..] = arguments
            && !first.text.starts_with('-')
            && first.is_known()
        {
            for letter in first.text.split("").filter(|letter| !letter.is_empty()) {
                if entry.options.letter(letter).is_none() {
                    self.may_run(|| format!("what `tar {letter}` does isn't known to be harmless"));
                }
            }
            extracts |= first.text.contains('x');
            rest = more;
        }
        for argument in rest {
            let text = &*argument.text;
            extracts |= matches!(text, "--extract" | "--get")
                || (text.starts_with('-') && !text.starts_with("--") && text.contains('x'));
            // `HOST:FILE` is an archive on another machine, reached by `rsh` or `ssh`.
            if text.contains(':') {
                self.note(Weight::High, || {
                    format!("`tar` may take `{}` for a file on another machine", visible(text))
                });
            }
        }
        self.by_table(name, entry, rest);
        if extracts {
            self.makes_links(used, false);
            self.writes_here(name);
        }
    }

    fn jq(&mut self, name: &str, arguments: &[Argument]) {
        let mut files = Vec::new();
        let mut texts = false;
        let mut sure = true;
        let mut words = arguments.iter();
        while let Some(argument) = words.next() {
            let text = &*argument.text;
            if argument.exact().is_none() && (text.is_empty() || text.starts_with('-')) {
                return self.unclear(
                    "an argument of `jq` that may be an option is only known when it runs",
                );
            }
            match text {
                "--arg" | "--argjson" => drop(words.nth(1)),
                "--slurpfile" | "--rawfile" => {
                    let file = words.nth(1);
                    let Some(file) = file.filter(|file| file.is_known()) else {
                        return self.unclear("a path that `jq` uses is only known when it runs");
                    };
                    self.path(&file.text, Use::Read);
                }
                "--indent" => drop(words.next()),
                "--args" | "--jsonargs" => texts = true,
                "--raw-output"
                | "--raw-input"
                | "--compact-output"
                | "--null-input"
                | "--slurp"
                | "--exit-status"
                | "--sort-keys"
                | "--color-output"
                | "--monochrome-output"
                | "--ascii-output"
                | "--join-output"
                | "--tab"
                | "--stream"
                | "--seq"
                | "--unbuffered"
                | "--raw-output0" => {}
                option if option.starts_with('-') && option.len() > 1 => {
                    let letters = &option[1..];
                    if !letters.chars().all(|letter| "rcnseSCMajR".contains(letter)) {
                        sure = false;
                        self.may_run(|| {
                            format!("what `jq {}` does isn't known to be harmless", visible(option))
                        });
                    }
                }
                // The program may stand behind `--args`, files only before it.
                _ if texts && sure && !files.is_empty() => {}
                _ => files.push(argument),
            }
        }
        // Of an option that isn't known the next word may be the value, and the program stand elsewhere.
        if sure && !files.is_empty() {
            let program = files.remove(0);
            if !program.exact().is_some_and(jq_only_filters) {
                self.may_run(|| "the `jq` program may read files of its own choice".to_owned());
            }
        }
        for file in files {
            match file.is_known() {
                true => self.path(&file.text, Use::Read),
                false => {
                    self.unclear(&format!("a path that `{name}` uses is only known when it runs"))
                }
            }
        }
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

    fn sed(&mut self, arguments: &[Argument]) {
        let mut files = Vec::new();
        let mut scripts = Vec::new();
        let mut given = false;
        let mut writes = false;
        let mut words = arguments.iter();
        while let Some(argument) = words.next() {
            if argument.exact().is_none() && argument.text.starts_with('-') {
                return self.unclear("an option of `sed` is only known when it runs");
            }
            match &*argument.text {
                "-e" | "--expression" => {
                    given = true;
                    scripts.extend(words.next());
                }
                "-n" | "-E" | "-r" | "-s" | "-u" | "-z" | "-nE" | "-En" | "-nr" | "--quiet"
                | "--silent" | "--posix" | "--sandbox" | "--" => {}
                "-i" | "--in-place" => {
                    writes = true;
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
                self.may_run(|| "the `sed` script may run programs or write files".to_owned());
            }
        }
        if writes {
            for file in files.iter().filter(|file| file.is_known()) {
                self.path(&file.text, Use::Write);
                self.write(&file.text, "`sed -i`");
            }
        }
        self.files("sed", &files);
    }

    fn awk(&mut self, name: &str, arguments: &[Argument]) {
        let mut files = Vec::new();
        let mut words = arguments.iter();
        while let Some(argument) = words.next() {
            // What stands behind the program is a file, or an assignment, whatever it looks like.
            if !files.is_empty() {
                files.push(argument);
                continue;
            }
            if argument.exact().is_none() && argument.text.starts_with('-') && argument.text != "-F"
            {
                return self.unclear(&format!("an option of `{name}` is only known when it runs"));
            }
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
            self.may_run(|| {
                format!("the `{name}` program may run programs, or read and write files")
            });
        }
        self.files(name, &files);
    }

    fn files(&mut self, name: &str, files: &[&Argument]) {
        for file in files {
            match file.is_known() {
                true => self.path(&file.text, Use::Read),
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
