//! The options of a program with which it is what the table says of it. One that isn't listed may do
//! anything: lists of what is dangerous are never whole, and an option's meaning differs by program.

/// What an option takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Takes {
    Nothing,
    /// A text that may follow in the same word.
    Perhaps,
    Text,
    /// A path that is read.
    Read,
    /// A path that is written to.
    Write,
    /// A path that is both.
    Change,
}

/// An option, and what it makes of its program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) takes: Takes,
    /// It takes whole folders.
    pub(super) deep: bool,
    /// It follows links in them.
    pub(super) follows: bool,
    /// It can make links.
    pub(super) links: bool,
    /// It holds the pattern.
    pub(super) pattern: bool,
}

/// The known options of a program.
#[derive(Default, Debug)]
pub(super) struct Options {
    known: Vec<(&'static str, Known)>,
    /// A number is one.
    number: bool,
    /// Short options are whole words.
    single: bool,
}

/// What a word of options comes down to, part by part.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    /// An option without a value.
    Flag(Known),
    /// An option and its value.
    Value(Known, &'a str),
    /// An option whose value is the next word.
    Next(Known),
    /// Not listed.
    Unknown,
}

impl Options {
    /// Short options are whole words from here on.
    pub(super) fn single(&mut self) {
        self.single = true;
    }

    /// Adds an option as the table writes it. None: it can't be read.
    pub(super) fn add(&mut self, written: &'static str) -> Option<()> {
        if written == "-#" {
            self.number = true;
            return Some(());
        }
        let name = written.trim_end_matches(|c: char| ":?<>&^*@!".contains(c));
        let marks = &written[name.len()..];
        let takes = marks.chars().find_map(|mark| match mark {
            '?' => Some(Takes::Perhaps),
            ':' => Some(Takes::Text),
            '<' => Some(Takes::Read),
            '>' => Some(Takes::Write),
            '&' => Some(Takes::Change),
            _ => None,
        });
        let takes = takes.unwrap_or(Takes::Nothing);
        let follows = marks.contains('@');
        let known = Known {
            takes,
            deep: follows || marks.contains('*'),
            follows,
            links: marks.contains('^'),
            pattern: marks.contains('!'),
        };
        let letters = name.strip_prefix('-').filter(|letters| !letters.is_empty())?;
        if letters.starts_with('-') || self.single {
            self.known.push((name, known));
        } else {
            if !marks.is_empty() && letters.len() > 1 {
                return None;
            }
            self.known.extend(letters.split("").filter(|c| !c.is_empty()).map(|c| (c, known)));
        }
        Some(())
    }

    fn find(&self, name: &str) -> Option<Known> {
        self.known.iter().find(|(known, _)| *known == name).map(|(_, known)| *known)
    }

    /// A single letter.
    pub(super) fn letter(&self, letter: &str) -> Option<Known> {
        self.find(letter)
    }

    /// Reads a word that begins with `-`.
    pub(super) fn read<'a>(&self, word: &'a str) -> Vec<Part<'a>> {
        let part = |known: Option<Known>, value: Option<&'a str>| match (known, value) {
            (None, _) => Part::Unknown,
            (Some(known), None) => match known.takes {
                Takes::Nothing | Takes::Perhaps => Part::Flag(known),
                _ => Part::Next(known),
            },
            (Some(known), Some(value)) => match known.takes {
                Takes::Nothing => Part::Unknown,
                _ => Part::Value(known, value),
            },
        };
        if word.starts_with("--") {
            return vec![match word.split_once('=') {
                Some((name, value)) => part(self.find(name), Some(value)),
                None => part(self.find(word), None),
            }];
        }
        if self.single {
            return vec![part(self.find(word), None)];
        }
        let mut parts = Vec::new();
        let mut rest = word.strip_prefix('-').unwrap_or(word);
        while let Some(letter) = rest.chars().next() {
            if self.number && rest.bytes().all(|b| b.is_ascii_digit()) {
                break;
            }
            let (letter, after) = rest.split_at(letter.len_utf8());
            let known = self.find(letter);
            let takes = known.is_some_and(|known| known.takes != Takes::Nothing);
            if takes || known.is_none() {
                parts.push(part(known, Some(after).filter(|after| !after.is_empty())));
                break;
            }
            parts.push(part(known, None));
            rest = after;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(written: &'static str) -> Options {
        let mut options = Options::default();
        for option in written.split_whitespace() {
            options.add(option).unwrap_or_else(|| panic!("{option}"));
        }
        options
    }

    fn shown(options: &Options, word: &str) -> String {
        let parts = options.read(word);
        let shown = parts.iter().map(|part| match part {
            Part::Flag(known) if known.deep => "deep".to_owned(),
            Part::Flag(_) => "flag".to_owned(),
            Part::Value(known, value) => format!("{:?} {value}", known.takes),
            Part::Next(known) => format!("{:?} next", known.takes),
            Part::Unknown => "unknown".to_owned(),
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_word_of_options_is_read_as_a_program_reads_it() {
        let options = options("-ab -r* -# -k: -o> -w? --all --out> --color? --in<");
        for (word, wanted) in [
            ("-a", "flag"),
            ("-ab", "flag, flag"),
            ("-r", "deep"),
            ("-12", ""),
            ("-k", "Text next"),
            ("-kx", "Text x"),
            ("-abkx", "flag, flag, Text x"),
            ("-ao", "flag, Write next"),
            ("-w", "flag"),
            ("-wab", "Perhaps ab"),
            ("--all", "flag"),
            ("--color", "flag"),
            ("--color=x", "Perhaps x"),
            ("--out=x", "Write x"),
            ("--out", "Write next"),
            ("--in=x", "Read x"),
        ] {
            assert_eq!(shown(&options, word), wanted, "{word}");
        }
    }

    #[test]
    fn what_is_not_listed_is_unknown() {
        let options = options("-ab -k: --all --out>");
        for word in ["-c", "-ac", "-1", "--al", "--all=x", "--ou=x", "--", "-é", "--out2"] {
            assert!(shown(&options, word).ends_with("unknown"), "{word}");
        }
    }

    #[test]
    fn whole_words_are_not_taken_apart() {
        let mut options = Options::default();
        options.single();
        for option in ["-p", "-ps", "-s:"] {
            options.add(option).unwrap();
        }
        assert_eq!(shown(&options, "-ps"), "flag");
        assert_eq!(shown(&options, "-s"), "Text next");
        assert_eq!(shown(&options, "-sp"), "unknown");
    }
}
