//! Words: what is known of them before the shell expands them.

use std::collections::HashSet;
use std::path::Path;

use super::glob::{self, Char};

/// Most words that one word may become.
const MAX_WORDS: usize = 64;

/// A piece of a word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Item {
    /// A character, and whether it is quoted.
    Char(char, bool),
    /// One of these, known from the text itself; and whether it is quoted.
    OneOf(Vec<String>, bool),
    /// Something that only running it tells; and whether it is quoted.
    Unknown(bool),
    /// A number that only running it tells: it never falls apart.
    Number,
}

/// A word as written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Word {
    pub(super) items: Vec<Item>,
}

/// How much of an argument is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Certainty {
    /// It is this.
    Exact,
    /// It is this or a sibling.
    OneOf,
    /// One argument, a number.
    Number,
    /// One argument that begins like this.
    Prefix,
    /// Any number of arguments.
    Loose,
}

/// An argument that a word becomes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Argument {
    pub(super) text: String,
    pub(super) certainty: Certainty,
}

impl Argument {
    /// Its text, if that is certain.
    pub(super) fn exact(&self) -> Option<&str> {
        (self.certainty == Certainty::Exact).then_some(&*self.text)
    }

    /// Whether all of it is known.
    pub(super) fn is_known(&self) -> bool {
        matches!(self.certainty, Certainty::Exact | Certainty::OneOf)
    }
}

impl Word {
    /// Adds text that is quoted.
    pub(super) fn push_quoted(&mut self, text: &str) {
        self.items.extend(text.chars().map(|c| Item::Char(c, true)));
    }

    /// Adds text that is not quoted: a backslash quotes what follows. An error is a character that would
    /// mean something else there.
    pub(super) fn push_bare(&mut self, text: &str) -> Result<(), char> {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('\n') => {}
                    Some(next) => self.items.push(Item::Char(next, true)),
                    None => return Err('\\'),
                },
                '\'' | '"' | '`' | '$' | '(' | ')' | '<' | '>' | '|' | '&' | ';' => return Err(c),
                c if c.is_whitespace() => return Err(c),
                c => self.items.push(Item::Char(c, false)),
            }
        }
        Ok(())
    }

    /// Adds the text between double quotes. An error is an expansion that was not recognised as one.
    pub(super) fn push_double_quoted(&mut self, text: &str) -> Result<(), char> {
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.peek() {
                    Some('\n') => {
                        chars.next();
                    }
                    Some(&next @ ('$' | '`' | '"' | '\\')) => {
                        chars.next();
                        self.items.push(Item::Char(next, true));
                    }
                    _ => self.items.push(Item::Char('\\', true)),
                },
                '`' | '"' => return Err(c),
                '$' if chars.peek().is_some_and(|&next| begins_expansion(next)) => return Err(c),
                c => self.items.push(Item::Char(c, true)),
            }
        }
        Ok(())
    }

    /// The arguments that it becomes.
    pub(super) fn arguments(&self, bases: &[String], root: &Path) -> Vec<Argument> {
        if let Some(loose) = self.uncertain() {
            return vec![loose];
        }
        // A shell takes braces apart before it looks at variables: `$x{b,c}` is `$xb $xc`.
        let bare = |item: &Item| matches!(item, Item::OneOf(_, false));
        if self.items.iter().any(bare) && self.items.contains(&Item::Char('{', false)) {
            return vec![self.loose()];
        }
        let Some(alternatives) = self.alternatives() else {
            return vec![self.prefix(Certainty::Loose)];
        };
        let certainty = if alternatives.len() > 1 { Certainty::OneOf } else { Certainty::Exact };
        let mut texts = Vec::new();
        for word in alternatives {
            let Some(words) = braces(word) else {
                return vec![self.prefix(Certainty::Loose)];
            };
            for word in words {
                if glob::is_pattern(&word) {
                    match glob::expand(&word, bases, root) {
                        Some(found) => texts.extend(found),
                        None => return vec![self.prefix(Certainty::Loose)],
                    }
                }
                // A pattern without matches, or of a shell without braces, stays as it is.
                texts.push(glob::text(&word));
            }
        }
        texts.into_iter().map(|text| Argument { text, certainty }).collect()
    }

    /// Whether what it finds among files can be taken for an option, whatever files there come to be.
    pub(super) fn finds_options(&self) -> bool {
        let pattern = |item: &Item| matches!(item, Item::Char('*' | '?' | '[', false));
        // The first that says something: a value may be empty.
        let begins = |item: &Item| match item {
            Item::Char(c, quoted) => {
                Some(*c == '-' || (!quoted && matches!(c, '*' | '?' | '[' | '{')))
            }
            Item::OneOf(values, _) if values.iter().any(|value| value.starts_with('-')) => {
                Some(true)
            }
            Item::OneOf(values, _) if values.iter().any(String::is_empty) => None,
            Item::OneOf(..) => Some(false),
            Item::Unknown(_) | Item::Number => Some(true),
        };
        self.items.iter().any(pattern) && self.items.iter().find_map(begins).unwrap_or(false)
    }

    /// Any number of arguments of which only the beginning is known.
    pub(super) fn loose(&self) -> Argument {
        self.prefix(Certainty::Loose)
    }

    fn uncertain(&self) -> Option<Argument> {
        if self.items == [Item::Number] {
            return Some(self.prefix(Certainty::Number));
        }
        let unknown = |item: &&Item| matches!(item, Item::Unknown(_) | Item::Number);
        self.items.iter().find(unknown)?;
        let splits = self.items.iter().any(|item| match item {
            Item::Unknown(quoted) => !quoted,
            Item::Number => false,
            Item::Char(c, quoted) => !quoted && matches!(c, '*' | '?' | '[' | '{'),
            Item::OneOf(values, quoted) => !quoted && !values.iter().all(|value| is_solid(value)),
        });
        Some(self.prefix(if splits { Certainty::Loose } else { Certainty::Prefix }))
    }

    /// What stands before the first piece that isn't known.
    fn prefix(&self, certainty: Certainty) -> Argument {
        let text = self.items.iter().map_while(|item| match item {
            Item::Char(c, _) => Some(*c),
            Item::OneOf(..) | Item::Unknown(_) | Item::Number => None,
        });
        Argument { text: text.collect(), certainty }
    }

    /// Each way to put the known values in; none if they could fall apart.
    fn alternatives(&self) -> Option<Vec<Vec<Char>>> {
        let mut all = vec![Vec::new()];
        for item in &self.items {
            match item {
                Item::Char(c, quoted) => all.iter_mut().for_each(|word| word.push((*c, *quoted))),
                Item::OneOf(values, quoted) => {
                    if !quoted && !values.iter().all(|value| is_solid(value)) {
                        return None;
                    }
                    let with = |word: &Vec<Char>, value: &String| {
                        word.iter().copied().chain(value.chars().map(|c| (c, true))).collect()
                    };
                    all = all
                        .iter()
                        .flat_map(|word| values.iter().map(move |value| with(word, value)))
                        .collect();
                }
                Item::Unknown(_) | Item::Number => return None,
            }
            if all.len() > MAX_WORDS {
                return None;
            }
        }
        Some(all)
    }
}

/// Whether a value stays one word without quotes.
fn is_solid(value: &str) -> bool {
    !value.is_empty()
        && !value.contains(|c: char| c.is_whitespace() || matches!(c, '*' | '?' | '[' | '\\'))
}

/// Whether `$` followed by this is an expansion.
pub(super) fn begins_expansion(next: char) -> bool {
    next.is_ascii_alphanumeric()
        || matches!(next, '_' | '(' | '{' | '[' | '@' | '*' | '#' | '?' | '!' | '$' | '-')
}

/// The words that the braces of a word make, and the word itself; none if there are too many.
fn braces(word: Vec<Char>) -> Option<Vec<Vec<Char>>> {
    if !word.contains(&('{', false)) {
        return Some(vec![word]);
    }
    let mut done = Vec::new();
    let mut open = vec![word.clone()];
    let mut seen = HashSet::new();
    while let Some(next) = open.pop() {
        if !seen.insert(next.clone()) {
            continue;
        }
        if seen.len() > MAX_WORDS * 4 || done.len() > MAX_WORDS {
            return None;
        }
        match first_brace(&next)? {
            None => done.push(next),
            Some((start, end, parts)) => open.extend(parts.into_iter().rev().map(|part| {
                let before = next[..start].iter().copied();
                before.chain(part).chain(next[end + 1..].iter().copied()).collect()
            })),
        }
    }
    if !done.contains(&word) {
        done.push(word);
    }
    Some(done)
}

type Brace = (usize, usize, Vec<Vec<Char>>);

/// The first brace that a shell expands; an outer none is one that can't be told.
fn first_brace(word: &[Char]) -> Option<Option<Brace>> {
    for start in 0..word.len() {
        if word[start] != ('{', false) {
            continue;
        }
        let mut depth = 0_u32;
        let mut cuts = vec![start];
        let mut end = None;
        for (at, c) in word.iter().enumerate().skip(start) {
            match c {
                ('{', false) => depth += 1,
                ('}', false) => {
                    depth -= 1;
                    if depth == 0 {
                        end = Some(at);
                        break;
                    }
                }
                (',', false) if depth == 1 => cuts.push(at),
                _ => {}
            }
        }
        let Some(end) = end else { continue };
        if cuts.len() > 1 {
            cuts.push(end);
            let parts = cuts.windows(2).map(|two| word[two[0] + 1..two[1]].to_vec()).collect();
            return Some(Some((start, end, parts)));
        }
        // A shell that finds no comma before this brace may take a later one for the end.
        let rest = &word[end + 1..];
        if rest.contains(&('}', false)) && rest.contains(&(',', false)) {
            return None;
        }
        let inner = glob::text(&word[start + 1..end]);
        if let Some((first, last)) = inner.split_once("..") {
            let (Some(first), Some(last)) = (bound(first), bound(last)) else {
                return None;
            };
            let (low, high) = (first.min(last), first.max(last));
            if usize::from(high - low) >= MAX_WORDS {
                return None;
            }
            let parts = (low..=high).map(|n| n.to_string().chars().map(|c| (c, true)).collect());
            return Some(Some((start, end, parts.collect())));
        }
    }
    Some(None)
}

/// A bound of a range, as plain as that each number between two of them is written in one way.
fn bound(text: &str) -> Option<u16> {
    let plain = text == "0" || !text.starts_with(['0', '+', '-']);
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(word: &Word) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let arguments = word.arguments(&[String::new()], folder.path());
        assert!(arguments.iter().all(Argument::is_known), "{arguments:?}");
        arguments.into_iter().map(|argument| argument.text).collect()
    }

    fn bare(text: &str) -> Word {
        let mut word = Word::default();
        word.push_bare(text).expect("a bare word");
        word
    }

    #[test]
    fn braces_make_words_and_quoted_ones_do_not() {
        assert_eq!(known(&bare("a")), ["a"]);
        assert_eq!(known(&bare("x{a,b{1..2}}y")), ["xay", "xb1y", "xb2y", "x{a,b{1..2}}y"]);
        assert_eq!(known(&bare(r"\{a,b}")), ["{a,b}"]);
        assert_eq!(known(&bare("HEAD@{1}")), ["HEAD@{1}"]);
        let many = bare("{1..9}{1..9}{1..9}").arguments(&[String::new()], Path::new("/"));
        assert_eq!(many[0].certainty, Certainty::Loose);
    }

    #[test]
    fn what_is_not_known_is_marked_and_keeps_its_beginning() {
        let root = Path::new("/");
        let mut word = bare("--file=");
        word.items.push(Item::Unknown(true));
        let prefix = Argument { text: "--file=".into(), certainty: Certainty::Prefix };
        assert_eq!(word.arguments(&[String::new()], root), [prefix]);
        word.items.push(Item::Unknown(false));
        assert_eq!(word.arguments(&[String::new()], root)[0].certainty, Certainty::Loose);
        let both = Word { items: vec![Item::OneOf(vec!["a".into(), "b c".into()], true)] };
        assert_eq!(known(&both), ["a", "b c"]);
        let split = Word { items: vec![Item::OneOf(vec!["b c".into()], false)] };
        assert_eq!(split.arguments(&[String::new()], root)[0].certainty, Certainty::Loose);
    }

    #[test]
    fn text_in_double_quotes_is_text_but_for_its_expansions() {
        let mut word = Word::default();
        assert_eq!(word.push_double_quoted(r#"a\"\$x 5$ \n"#), Ok(()));
        assert_eq!(known(&word), [r#"a"$x 5$ \n"#]);
        assert_eq!(word.push_double_quoted("$x"), Err('$'));
        assert_eq!(word.push_double_quoted("`x`"), Err('`'));
    }
}
