//! The lines people see of a call while a turn runs (T19): one when it begins, one if it fails.
//!
//! Pure. Both take what events carry, from which secrets are gone already.

use serde_json::Value;

use crate::tool::head;

/// Longest hint, in characters.
pub const HINT_CHARS: usize = 60;
/// Longest error, in characters.
pub const ERROR_CHARS: usize = 200;

/// The arguments that say most of a call: of a shell, of tools on files, of a delegation, of a search.
const TELLING: [&str; 6] = ["command", "path", "task", "prompt", "pattern", "url"];

/// A call's line as it begins: the tool, and one hint at what it is about.
pub fn started(tool: &str, arguments: &Value) -> String {
    let hint = TELLING.iter().find_map(|name| arguments.get(*name)?.as_str());
    match hint.map(|hint| one_line(hint, HINT_CHARS)).filter(|hint| !hint.is_empty()) {
        Some(hint) => format!("{tool}: {hint}"),
        None => tool.to_owned(),
    }
}

/// What went wrong, in one short line.
pub fn failure(output: &str) -> String {
    one_line(output, ERROR_CHARS)
}

/// White space of every kind becomes one blank; what is too much is cut visibly.
fn one_line(text: &str, max: usize) -> String {
    // More than enough to fill the line, and never all of a long text.
    let beginning = head(text, max * 16);
    let mut line = String::new();
    for word in beginning.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let is_cut = line.chars().count() > max || beginning.len() < text.len();
    if !is_cut {
        return line;
    }
    let mut cut: String = line.chars().take(max - 1).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // V-I21, T19
    #[test]
    fn a_line_has_one_short_hint_and_an_error_is_short() {
        let ls = json!({ "timeout_secs": 5, "command": "cargo test\n  --all" });
        assert_eq!(started("shell", &ls), "shell: cargo test --all");
        let write = json!({ "path": "src/main.rs", "content": "long" });
        assert_eq!(started("file_write", &write), "file_write: src/main.rs");
        assert_eq!(started("delegate", &json!({ "task": "look" })), "delegate: look");
        assert_eq!(started("time", &json!({ "zone": "UTC" })), "time");
        assert_eq!(started("shell", &json!({ "command": ["no", "text"] })), "shell");
        for long in ["é".repeat(61), "é ".repeat(5_000), "x".repeat(1_000_000)] {
            let line = started("shell", &json!({ "command": long }));
            let hint = line.strip_prefix("shell: ").unwrap();
            assert!(hint.chars().count() <= HINT_CHARS && hint.ends_with('…'), "{hint}");
        }
        assert_eq!(started("shell", &json!({ "command": "é".repeat(60) })).chars().count(), 67);
        assert_eq!(failure("error:\tno\nsuch file"), "error: no such file");
        assert_eq!(failure(&"x".repeat(500)).chars().count(), ERROR_CHARS);
    }
}
