//! A reply as text with marks over it: what it looks like, whatever a platform writes for it.
//!
//! Markdown is read by a parser once; cutting works on the text and takes the marks along, so that a
//! mark that is cut is closed and opened again by construction (A055).

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// Deepest list that is indented further.
const MAX_INDENT: usize = 6;
/// Longest address of a link, in bytes.
const MAX_LINK: usize = 2_048;

/// What a mark does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Style {
    /// Quoted.
    Quote,
    /// A link to this address.
    Link(String),
    /// Bold.
    Bold,
    /// Italic.
    Italic,
    /// Struck out.
    Strike,
    /// Code within a line.
    Code,
    /// A block of code, with its language.
    Block(Option<String>),
}

/// A mark over a part of the text, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// From here.
    pub start: usize,
    /// To here, not included.
    pub end: usize,
    /// What it does.
    pub style: Style,
}

/// Text with marks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rich {
    /// The text.
    pub text: String,
    /// The marks, by where they begin.
    pub marks: Vec<Mark>,
}

impl Rich {
    /// Reads Markdown.
    pub fn parse(markdown: &str) -> Self {
        let options =
            Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
        let mut reader = Reader::default();
        for event in Parser::new_ext(markdown, options) {
            reader.event(event);
        }
        reader.finish()
    }

    /// A part of it, the marks clipped to it.
    pub fn part(&self, start: usize, end: usize) -> Self {
        let marks = self
            .marks
            .iter()
            .filter(|mark| mark.start < end && mark.end > start)
            .map(|mark| Mark {
                start: mark.start.max(start) - start,
                end: mark.end.min(end) - start,
                style: mark.style.clone(),
            })
            .collect();
        Self { text: self.text[start..end].to_owned(), marks }
    }

    /// The block of code a byte stands in, if it begins before it.
    pub fn block_at(&self, at: usize) -> Option<&Mark> {
        self.marks
            .iter()
            .find(|mark| matches!(mark.style, Style::Block(_)) && mark.start < at && at < mark.end)
    }
}

#[derive(Default)]
struct Reader {
    out: Rich,
    /// Newlines owed before the next text.
    owed: usize,
    open: Vec<(usize, Style)>,
    lists: Vec<Option<u64>>,
    cell: usize,
}

impl Reader {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(end) => self.end(end),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.push(&text),
            Event::Code(text) => {
                self.open(Style::Code);
                self.push(&text);
                self.close();
            }
            Event::SoftBreak | Event::HardBreak => self.push("\n"),
            Event::Rule => {
                self.owe(2);
                self.push("———");
                self.owe(2);
            }
            Event::TaskListMarker(done) => self.push(if done { "☑ " } else { "☐ " }),
            // Not asked for in the options.
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.push(&text)
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.owe(self.block_gap()),
            Tag::Heading { .. } => {
                self.owe(2);
                self.open(Style::Bold);
            }
            Tag::BlockQuote(_) => {
                self.owe(2);
                self.open(Style::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.owe(2);
                let language = match kind {
                    CodeBlockKind::Fenced(info) => language(&info),
                    CodeBlockKind::Indented => None,
                };
                self.open(Style::Block(language));
            }
            Tag::List(first) => {
                self.owe(if self.lists.is_empty() { 2 } else { 1 });
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Table(_) => {
                self.owe(2);
                self.open(Style::Block(None));
            }
            Tag::TableHead | Tag::TableRow => {
                self.owe(1);
                self.cell = 0;
            }
            Tag::TableCell => {
                if self.cell > 0 {
                    self.push(" | ");
                }
                self.cell += 1;
            }
            Tag::Emphasis => self.open(Style::Italic),
            Tag::Strong => self.open(Style::Bold),
            Tag::Strikethrough => self.open(Style::Strike),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.open(Style::Link(dest_url.into_string()));
            }
            _ => {}
        }
    }

    fn end(&mut self, end: TagEnd) {
        match end {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.owe(self.block_gap()),
            TagEnd::CodeBlock => {
                while self.out.text.ends_with('\n') {
                    self.out.text.pop();
                }
                self.close();
                self.owe(2);
            }
            TagEnd::Heading(_) | TagEnd::BlockQuote(_) | TagEnd::Table => {
                self.close();
                self.owe(2);
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.owe(if self.lists.is_empty() { 2 } else { 1 });
            }
            TagEnd::Item => self.owe(1),
            TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Link
            | TagEnd::Image => self.close(),
            _ => {}
        }
    }

    fn item(&mut self) {
        self.owe(1);
        let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(MAX_INDENT));
        let bullet = match self.lists.last_mut() {
            Some(Some(number)) => {
                let bullet = format!("{indent}{number}. ");
                *number = number.saturating_add(1);
                bullet
            }
            _ => format!("{indent}• "),
        };
        self.push(&bullet);
        // What follows stands on the bullet's line.
        self.owed = 0;
    }

    /// Blocks of a list stand closer.
    fn block_gap(&self) -> usize {
        match (self.lists.is_empty(), self.out.text.ends_with(['•', ' '])) {
            (true, _) => 2,
            (false, true) => 0,
            (false, false) => 1,
        }
    }

    fn owe(&mut self, newlines: usize) {
        self.owed = self.owed.max(newlines);
    }

    fn settle(&mut self) {
        if !self.out.text.is_empty() {
            let there = self.out.text.len() - self.out.text.trim_end_matches('\n').len();
            let missing = self.owed.saturating_sub(there);
            self.out.text.extend(std::iter::repeat_n('\n', missing));
        }
        self.owed = 0;
    }

    fn push(&mut self, text: &str) {
        self.settle();
        self.out.text.push_str(text);
    }

    fn open(&mut self, style: Style) {
        self.settle();
        self.open.push((self.out.text.len(), style));
    }

    fn close(&mut self) {
        let Some((start, style)) = self.open.pop() else { return };
        let end = self.out.text.len();
        if let Style::Link(address) = &style
            && !is_address(address)
        {
            return;
        }
        // The same again within itself adds nothing, and platforms refuse it.
        let twice = self.open.iter().any(|(_, outer)| {
            *outer == style || matches!((outer, &style), (Style::Link(_), Style::Link(_)))
        });
        if start < end && !twice {
            self.out.marks.push(Mark { start, end, style });
        }
    }

    fn finish(mut self) -> Rich {
        while !self.open.is_empty() {
            self.close();
        }
        let length = self.out.text.trim_end().len();
        let mut out = self.out.part(0, length);
        out.marks.sort_by_key(|mark| (mark.start, std::cmp::Reverse(mark.end)));
        out
    }
}

/// The language a fence names: its first word.
fn language(info: &str) -> Option<String> {
    let word = info.split([' ', ',', '\t', '{']).next().unwrap_or_default();
    let fits = !word.is_empty()
        && word.len() <= 32
        && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '+' | '-' | '_' | '#' | '.'));
    fits.then(|| word.to_owned())
}

/// Whether an address is one people are sent to; others are shown as the text they stand under.
fn is_address(address: &str) -> bool {
    let known = ["http://", "https://", "mailto:", "tg://", "tel:"];
    address.len() <= MAX_LINK
        && !address.chars().any(|c| c.is_control() || c.is_whitespace())
        && known.iter().any(|scheme| {
            address.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(rich: &Rich) -> Vec<(&str, &Style)> {
        rich.marks.iter().map(|mark| (&rich.text[mark.start..mark.end], &mark.style)).collect()
    }

    #[test]
    fn markdown_becomes_text_with_marks() {
        let rich = Rich::parse(
            "# Title\n\nSome **bold *both*** and `code`, ~~gone~~.\nNext [link](https://x.example).\n\n\
             - one\n- two\n  1. deep\n  2. deeper\n\n> said\n> so\n\n```rust ignore\nfn f() {}\n\n1\n```\n\nend",
        );
        assert_eq!(
            rich.text,
            "Title\n\nSome bold both and code, gone.\nNext link.\n\n• one\n• two\n  1. deep\n  2. deeper\n\n\
             said\nso\n\nfn f() {}\n\n1\n\nend"
        );
        let link = Style::Link("https://x.example".into());
        let block = Style::Block(Some("rust".into()));
        assert_eq!(
            marks(&rich),
            [
                ("Title", &Style::Bold),
                ("bold both", &Style::Bold),
                ("both", &Style::Italic),
                ("code", &Style::Code),
                ("gone", &Style::Strike),
                ("link", &link),
                ("said\nso", &Style::Quote),
                ("fn f() {}\n\n1", &block),
            ]
        );
    }

    #[test]
    fn what_is_no_markdown_stays_as_it_is() {
        for text in ["snake_case * 3 [x", "a < b && c > d", "<b>not ours</b>", "1 ~ 2 **x"] {
            assert_eq!(Rich::parse(text), Rich { text: text.into(), marks: vec![] });
        }
        let rich = Rich::parse("[x](javascript:alert) **a **b** c**");
        assert!(rich.marks.iter().all(|mark| mark.style == Style::Bold), "{rich:?}");
    }

    #[test]
    fn tables_task_lists_and_rules_are_readable_as_text() {
        let rich =
            Rich::parse("| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] done\n- [ ] open\n\n---\n\nz");
        assert_eq!(rich.text, "a | b\n1 | 2\n\n• ☑ done\n• ☐ open\n\n———\n\nz");
    }

    #[test]
    fn a_part_takes_its_marks_along() {
        let rich = Rich::parse("ab **cdef** gh");
        let part = rich.part(5, 9);
        assert_eq!(part.text, "ef g");
        assert_eq!(marks(&part), [("ef", &Style::Bold)]);
    }
}
