//! Where a long text is cut: at a paragraph, else a line, else a sentence, else a word, never inside what
//! a reader sees as one character.

use rookery_messages::channel::Unit;
use unicode_segmentation::UnicodeSegmentation;

/// Longest language tag that is carried over a cut, in bytes.
const MAX_INFO: usize = 32;
/// Limits below this are too small for carrying a fence over.
const MIN_FENCED: usize = 64;

/// The byte at which to cut `text` so that what stands before it is at most `limit` long. Always cuts
/// off something.
pub fn cut(text: &str, unit: Unit, limit: usize) -> usize {
    let hard = fitting(text, unit, limit);
    if hard == text.len() {
        return hard;
    }
    let head = &text[..hard];
    let after = |at: Option<usize>, width: usize| {
        at.map(|at| at + width).filter(|at| *at > hard / 2 && *at <= hard)
    };
    // The cut may stand right before the separator too: it goes with the seam.
    if text[hard..].starts_with('\n') && !head.trim().is_empty() {
        return hard;
    }
    after(head.rfind("\n\n"), 2)
        .or_else(|| after(head.rfind('\n'), 1))
        .or_else(|| after(sentence_end(head), 0))
        .or_else(|| after(head.rfind([' ', '\t']), 1))
        .unwrap_or(hard)
}

/// The longest prefix that fits, at a boundary between graphemes.
fn fitting(text: &str, unit: Unit, limit: usize) -> usize {
    let mut used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += unit.measure(grapheme);
        if used > limit {
            // A single one that is longer than a message is cut all the same: it must arrive.
            return if at > 0 { at } else { inside(grapheme, unit, limit) };
        }
    }
    text.len()
}

fn inside(grapheme: &str, unit: Unit, limit: usize) -> usize {
    let mut used = 0;
    for (at, c) in grapheme.char_indices() {
        used += unit.measure(c.encode_utf8(&mut [0; 4]));
        if used > limit && at > 0 {
            return at;
        }
    }
    grapheme.len()
}

fn sentence_end(head: &str) -> Option<usize> {
    let ascii = [". ", "! ", "? "].iter().filter_map(|end| head.rfind(end).map(|at| at + 2));
    let wide =
        ['。', '！', '？'].iter().filter_map(|end| head.rfind(*end).map(|at| at + end.len_utf8()));
    ascii.chain(wide).max()
}

/// Markdown in pieces of at most `limit`: a code block that is cut is closed, and opened again with its
/// language (R13).
pub fn markdown(text: &str, unit: Unit, limit: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut opened: Option<Fence> = None;
    while !rest.is_empty() {
        let prefix = opened.as_ref().map(Fence::opening).unwrap_or_default();
        let room = limit.saturating_sub(unit.measure(&prefix)).max(1);
        let (mut at, mut open) = (rest.len(), None);
        // Room for closing a block is left only if one is open where the cut falls.
        for reserve in [0, 4, MAX_INFO + 1] {
            at = cut(rest, unit, room.saturating_sub(reserve).max(1));
            let carried = at < rest.len() && limit >= MIN_FENCED;
            open = fence_after(opened.as_ref(), &rest[..at]).filter(|_| carried);
            if open.as_ref().is_none_or(|fence| unit.measure(&fence.closing()) <= reserve) {
                break;
            }
        }
        let mut piece = format!("{prefix}{}", rest[..at].trim_end_matches('\n'));
        rest = rest[at..].trim_start_matches('\n');
        if let Some(fence) = &open {
            piece.push_str(&fence.closing());
        }
        if !piece.trim().is_empty() {
            pieces.push(piece);
        }
        opened = open;
    }
    pieces
}

/// An open code block.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Fence {
    marks: String,
    info: String,
}

impl Fence {
    fn opening(&self) -> String {
        format!("{}{}\n", self.marks, self.info)
    }

    fn closing(&self) -> String {
        format!("\n{}", self.marks)
    }

    fn of(line: &str) -> Option<Self> {
        let trimmed = line.trim_start_matches(' ');
        if line.len() - trimmed.len() > 3 {
            return None;
        }
        let mark = trimmed.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let length = trimmed.chars().take_while(|c| *c == mark).count();
        let info = trimmed[length..].trim();
        if length < 3 || (mark == '`' && info.contains('`')) {
            return None;
        }
        let info = rookery_messages::tool::head(info, MAX_INFO).to_owned();
        Some(Self { marks: mark.to_string().repeat(length.min(MAX_INFO)), info })
    }

    fn closes(&self, line: &str) -> bool {
        Self::of(line).is_some_and(|end| end.info.is_empty() && end.marks.starts_with(&self.marks))
    }
}

/// The code block that is open after `text`.
fn fence_after(before: Option<&Fence>, text: &str) -> Option<Fence> {
    text.lines().fold(before.cloned(), |open, line| match open {
        Some(fence) if fence.closes(line) => None,
        Some(fence) => Some(fence),
        None => Fence::of(line),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNITS: [Unit; 3] = [Unit::Bytes, Unit::Chars, Unit::Utf16];

    // R13
    #[test]
    fn a_text_is_cut_at_the_best_place_that_fits() {
        for (text, limit, head) in [
            ("short", 10, "short"),
            ("one two\n\nthree four", 12, "one two\n\n"),
            ("one two\nthree four", 12, "one two\n"),
            ("Is it? It is so", 12, "Is it? "),
            ("一二三。四五六七", 6, "一二三。"),
            ("alpha beta gamma", 12, "alpha beta "),
            ("abcdefghijklmnop", 4, "abcd"),
            ("abcd\nefgh", 4, "abcd"),
        ] {
            let at = cut(text, Unit::Chars, limit);
            assert_eq!(&text[..at], head, "{text:?}");
        }
    }

    // R13
    #[test]
    fn limits_are_in_the_platforms_unit_and_no_grapheme_is_cut() {
        let family = "👨‍👩‍👧‍👦";
        let text = family.repeat(3);
        assert_eq!(cut(&text, Unit::Utf16, 11 * 2 + 5), family.len() * 2);
        assert_eq!(cut(&text, Unit::Chars, 7 + 6), family.len());
        assert_eq!(cut(&text, Unit::Bytes, 25), family.len());
        // One that is longer than a message is cut between its characters.
        assert_eq!(cut(&text, Unit::Chars, 2), "👨\u{200d}".len());
        assert_eq!(cut("e\u{301}x", Unit::Chars, 2), "e\u{301}".len());
    }

    // R13
    #[test]
    fn a_cut_code_block_is_closed_and_opened_again_with_its_language() {
        let code = (0..20).map(|n| format!("    let x{n} = {n};\n")).collect::<String>();
        let text = format!("Look:\n\n```rust ignore\n{code}```\n\nDone.");
        let pieces = markdown(&text, Unit::Utf16, 120);
        assert!(pieces.len() > 3, "{pieces:?}");
        for piece in &pieces {
            assert!(Unit::Utf16.measure(piece) <= 120, "{piece}");
            let fences = piece.lines().filter(|line| line.starts_with("```")).count();
            assert_eq!(fences % 2, 0, "{piece}");
        }
        assert!(pieces[1].starts_with("```rust ignore\n    let"), "{}", pieces[1]);
        assert!(pieces.last().unwrap().ends_with("Done."));
    }

    proptest! {
        #[test]
        fn all_of_a_text_arrives_in_pieces_that_fit(
            text in "(`{3}rust\n|`{3}\n|[a-zé😀 \n]{0,30}){0,12}", limit in 64_usize..120,
        ) {
            for unit in UNITS {
                let pieces = markdown(&text, unit, limit);
                for piece in &pieces {
                    prop_assert!(unit.measure(piece) <= limit, "{piece:?}");
                }
                // Fences are repeated at seams; all else is there once, in order.
                let bare = |text: &str| {
                    text.lines()
                        .filter(|line| Fence::of(line).is_none())
                        .flat_map(str::chars)
                        .filter(|c| !c.is_whitespace() && *c != '`')
                        .collect::<String>()
                };
                let (whole, joined) = (bare(&text), bare(&pieces.join("\n")));
                // A fence that a cut splits may be read otherwise; text never is.
                prop_assert_eq!(whole.replace("rust", ""), joined.replace("rust", ""));
            }
        }
    }
}
