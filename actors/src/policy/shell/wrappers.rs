//! Programs that start another one, and interpreters: what they start is judged as if it stood alone.

use super::finding::Weight;
use super::places::Use;
use super::simple::is_builtin;
use super::table::{self, Entry, Variable};
use super::walk::{Walk, exactly};
use super::word::Argument;
use crate::policy::display::visible;

/// How a wrapper's arguments are read up to the program it starts.
struct Wrapper {
    name: &'static str,
    /// Short options that take a value. The one of `xargs -a` is a path that is read.
    takes: &'static str,
    /// Short options that take none. With any other option it isn't followed.
    flags: &'static str,
    /// Operands before the program.
    operands: usize,
    /// It adds nothing of its own: the program decides.
    clear: bool,
    /// `NAME=VALUE` may stand before the program.
    assigns: bool,
}

const fn wrapper(
    name: &'static str,
    takes: &'static str,
    flags: &'static str,
    operands: usize,
    clear: bool,
) -> Wrapper {
    Wrapper { name, takes, flags, operands, clear, assigns: false }
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper { name: "env", takes: "u", flags: "i0", operands: 0, clear: true, assigns: true },
    Wrapper {
        name: "sudo",
        takes: "ugpCTrthDR",
        flags: "AbEeHiKklnPSsVvN",
        operands: 0,
        clear: false,
        assigns: true,
    },
    wrapper("doas", "uC", "nsL", 0, false),
    wrapper("command", "", "p", 0, true),
    wrapper("builtin", "", "", 0, true),
    wrapper("exec", "a", "cl", 0, false),
    wrapper("nohup", "", "", 0, true),
    wrapper("nice", "n", "", 0, true),
    wrapper("ionice", "cn", "t", 0, true),
    wrapper("time", "", "pv", 0, true),
    wrapper("timeout", "ks", "v", 1, true),
    wrapper("stdbuf", "ioe", "", 0, true),
    wrapper("setsid", "", "cfw", 0, false),
    wrapper("xargs", "nLIPdEsa", "0rtx", 0, false),
    wrapper("watch", "n", "bcdegtx", 0, false),
    wrapper("busybox", "", "", 0, false),
    wrapper("toybox", "", "", 0, false),
    wrapper("strace", "oepsuE", "fctTqrv", 0, false),
    wrapper("ltrace", "oepsu", "fctTSr", 0, false),
    wrapper("chroot", "", "", 1, false),
    wrapper("flock", "wE", "nsxuo", 1, false),
    wrapper("unshare", "", "rmuinpUCTf", 0, false),
    wrapper("parallel", "jN", "0k", 0, false),
    wrapper("ssh", "bcDEeFIiJLlmOopQRSWw", "46AaCfGgKkMNnqsTtVvXxYy", 1, false),
    wrapper("entr", "", "acdnprsz", 0, false),
];

impl Walk<'_> {
    /// Judges a wrapper and what it starts. Says whether it was one.
    pub(super) fn wrapper(
        &mut self,
        name: &str,
        entry: &Entry,
        arguments: &[Argument],
        burdened: bool,
    ) -> bool {
        if name == "eval" || name == "trap" {
            self.texts_of(name, arguments);
            return true;
        }
        if matches!(name, "command" | "type")
            && arguments.first().and_then(Argument::exact).is_some_and(|a| a == "-v" || a == "-V")
        {
            return true;
        }
        let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) else {
            return false;
        };
        let start = self.start(wrapper, arguments);
        // What `xargs` adds is only printed.
        let prints = name == "xargs"
            && start.and_then(|at| arguments.get(at)).and_then(Argument::exact) == Some("echo");
        if !wrapper.clear && !prints {
            let (weight, what) = entry.class.weight();
            self.note(weight, || format!("`{name}` {what}"));
        }
        let Some(start) = start else {
            self.unclear(&format!("what `{name}` starts can't be told from its arguments"));
            return true;
        };
        let inner = &arguments[start..];
        match inner.first() {
            None if matches!(name, "env" | "nice" | "time" | "xargs" | "exec") => {}
            None => self.unclear(&format!("`{name}` has nothing to run")),
            // A builtin behind a program is another program, of which nothing is known.
            Some(first)
                if !matches!(name, "command" | "builtin")
                    && first.exact().is_some_and(is_builtin) =>
            {
                self.unclear(&format!("`{name}` can't run a builtin of the shell"));
            }
            Some(_) => self.run(inner, burdened),
        }
        true
    }

    /// Where the program of a wrapper stands.
    fn start(&mut self, wrapper: &Wrapper, arguments: &[Argument]) -> Option<usize> {
        let mut operands = wrapper.operands;
        let mut at = 0;
        while at < arguments.len() {
            let text = arguments[at].exact()?;
            if text == "--" {
                at += 1;
                break;
            }
            if let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                let next = arguments.get(at + 1);
                at += self.wrapper_option(wrapper, letters, next)?;
            } else if wrapper.assigns && text.contains('=') {
                let (name, _) = text.split_once('=')?;
                match table::variable(name) {
                    Variable::Loader => self.note(Weight::Refused, || {
                        format!("the command sets `{name}`, which decides what programs load or run; leave it out")
                    }),
                    Variable::Harmless => {}
                    Variable::Special | Variable::Own => self.note(Weight::High, || {
                        format!("the command sets `{}` for a program, and what it does there isn't known", visible(name))
                    }),
                }
                at += 1;
            } else if operands > 0 {
                operands -= 1;
                at += 1;
            } else {
                break;
            }
        }
        (at <= arguments.len()).then_some(at)
    }

    /// How many words an option of a wrapper takes.
    fn wrapper_option(
        &mut self,
        wrapper: &Wrapper,
        letters: &str,
        next: Option<&Argument>,
    ) -> Option<usize> {
        // `nice -5`
        if wrapper.name == "nice" && letters.bytes().all(|b| b.is_ascii_digit()) {
            return Some(1);
        }
        for (at, letter) in letters.char_indices() {
            if wrapper.takes.contains(letter) {
                let attached = &letters[at + letter.len_utf8()..];
                if wrapper.name == "env" && letter == 'u' {
                    let name = if attached.is_empty() { next?.exact()? } else { attached };
                    if table::variable(name) != Variable::Own {
                        self.note(Weight::High, || {
                            format!("`env -u {}` takes away what programs rely upon", visible(name))
                        });
                    }
                }
                if wrapper.name == "xargs" && letter == 'a' {
                    let file = if attached.is_empty() { next?.exact()? } else { attached };
                    self.path(file, Use::Read);
                }
                return Some(if attached.is_empty() { 2 } else { 1 });
            }
            if !wrapper.flags.contains(letter) {
                return None;
            }
            if wrapper.name == "env" && letter == 'i' {
                self.note(Weight::High, || {
                    "`env -i` takes away what keeps programs from running what settings name"
                        .to_owned()
                });
            }
        }
        Some(1)
    }

    /// `eval` and `trap`: texts that run now or later, where they can't be followed.
    fn texts_of(&mut self, name: &str, arguments: &[Argument]) {
        self.unclear(&format!("`{name}` runs a text at a time of its own"));
        let words: Option<Vec<&str>> = arguments.iter().map(Argument::exact).collect();
        if let Some(words) = words {
            let text = if name == "eval" {
                words.join(" ")
            } else {
                words.first().copied().unwrap_or("").to_owned()
            };
            self.program(&text);
        }
    }

    /// An interpreter: `sh -c TEXT` is judged like the text; program texts in other languages, and in
    /// files, are not judged and ask; one that it reads from its input is refused.
    pub(super) fn interpreter(&mut self, name: &str, entry: &Entry, arguments: &[Argument]) {
        let shell = matches!(name, "sh" | "bash" | "dash");
        let exact: Vec<&str> = arguments.iter().map_while(Argument::exact).collect();
        if let [option] = exact[..]
            && arguments.len() == 1
            && matches!(option, "--version" | "--help")
        {
            return;
        }
        if shell {
            match exact[..] {
                ["-c" | "-ec" | "-ce" | "-euc" | "-xc", text, ..]
                | ["-e" | "-u" | "-eu" | "-x", "-c", text, ..]
                    if exact.len() == arguments.len() =>
                {
                    return self.program(text);
                }
                _ => {}
            }
        }
        let (weight, what) = entry.class.weight();
        self.note(weight, || format!("`{name}` {what}"));
        // The text of `-c` of other shells, for what is on no list.
        if let Some(at) = exact.iter().position(|word| word.starts_with('-') && word.ends_with('c'))
            && entry.class == table::Class::Interpreter
            && is_shell(name)
            && let Some(text) = exact.get(at + 1)
        {
            self.program(text);
        }
        let inline = |word: &str| {
            word.starts_with('-')
                && (word.contains(['c', 'e', 'r', 'm', 'p', 'n']) || word.starts_with("--eval"))
        };
        let file = exact.iter().copied().find(|word| !word.starts_with('-'));
        let from_input = match file {
            Some(file) => {
                matches!(file, "/dev/stdin" | "/proc/self/fd/0") || file.starts_with("/dev/fd/")
            }
            None => exact.len() == arguments.len() && !exact.iter().any(|word| inline(word)),
        };
        let asked_for = is_shell(name) && exact.iter().any(|word| is_flag(word, 's'));
        if (from_input || asked_for) && (self.scope.fed || file.is_some()) {
            self.note(Weight::Refused, || {
                format!(
                    "`{name}` would run what it is fed, which can't be judged; write the program to a \
                     file and run that"
                )
            });
        }
        for argument in arguments {
            if let Some(path) = argument.exact().filter(|path| path.contains('/')) {
                self.outside_asks(path);
            }
        }
    }

    /// A path that need not be one: outside, it asks.
    fn outside_asks(&mut self, path: &str) {
        use super::places::{Place, look};
        match look(self.rules.paths, path, &self.scope.bases, Use::Read) {
            Place::Closed(why) => self.note(Weight::Closed, || why),
            Place::Outside(why) | Place::Unclear(why) => self.note(Weight::Unclear, || why),
            Place::Inside => {}
        }
    }

    /// The program that `find -exec` starts.
    pub(super) fn started(&mut self, words: &[Argument]) {
        let words: Vec<Argument> = words
            .iter()
            .map(|word| if word.text.contains("{}") { exactly("found") } else { word.clone() })
            .collect();
        self.run(&words, true);
    }
}

fn is_shell(name: &str) -> bool {
    matches!(
        name,
        "sh" | "bash" | "dash" | "ash" | "ksh" | "mksh" | "zsh" | "fish" | "csh" | "tcsh"
    )
}

fn is_flag(word: &str, flag: char) -> bool {
    word.strip_prefix('-')
        .is_some_and(|letters| !letters.starts_with('-') && letters.contains(flag))
}
