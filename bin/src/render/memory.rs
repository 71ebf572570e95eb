//! What is remembered, as people read it.

use rookery_messages::memory::{Coverage, MemoryEntry, MemoryScope, Recalled};
use rookery_messages::time::rfc3339_millis;
use serde_json::Value;

use super::lists::{cell, facts};
use super::{prose, strict, table};

/// Entries, a line each.
pub fn entries(entries: &[MemoryEntry]) -> String {
    if entries.is_empty() {
        return "nothing is remembered\n".to_owned();
    }
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    table(&["MEMORY", "AGENT", "SCOPE", "CATEGORY", "SOURCE", "WRITTEN", "KEY", "CONTENT"], &rows)
}

/// Matches, a line each.
pub fn found(found: &[Recalled]) -> String {
    if found.is_empty() {
        return "nothing is remembered about that\n".to_owned();
    }
    let scored = |one: &Recalled| {
        let score = one.score.map_or_else(|| "-".to_owned(), |score| format!("{score:.2}"));
        std::iter::once(score).chain(row(&one.entry)).collect()
    };
    let rows: Vec<Vec<String>> = found.iter().map(scored).collect();
    let header =
        ["SCORE", "MEMORY", "AGENT", "SCOPE", "CATEGORY", "SOURCE", "WRITTEN", "KEY", "CONTENT"];
    table(&header, &rows)
}

fn row(entry: &MemoryEntry) -> Vec<String> {
    vec![
        entry.id.to_string(),
        strict(entry.agent.as_str()),
        entry.scope.as_str().to_owned(),
        strict(entry.category.as_str()),
        entry.source.as_str().to_owned(),
        rfc3339_millis(entry.updated_at),
        cell(&entry.key),
        cell(&entry.content),
    ]
}

/// One entry in full.
pub fn entry(entry: &MemoryEntry) -> String {
    let dash = || "-".to_owned();
    let scope = match entry.scope {
        MemoryScope::Agent => "agent".to_owned(),
        MemoryScope::Session(id) => format!("session of conversation {id}"),
    };
    let facts = facts(&[
        ("memory", entry.id.to_string()),
        ("agent", strict(entry.agent.as_str())),
        ("scope", scope),
        ("key", strict(&entry.key)),
        ("category", strict(entry.category.as_str())),
        ("source", entry.source.as_str().to_owned()),
        ("via", entry.via.as_deref().map_or_else(dash, strict)),
        ("turn", entry.turn.map_or_else(dash, |turn| turn.to_string())),
        ("created at", rfc3339_millis(entry.created_at)),
        ("updated at", rfc3339_millis(entry.updated_at)),
        ("superseded by", entry.superseded_by.map_or_else(dash, |id| id.to_string())),
    ]);
    format!("{facts}\n{}\n", prose(&entry.content))
}

/// How much can be found, and how.
pub fn coverage(coverage: Option<Coverage>) -> String {
    let Some(Coverage { entries, meanings }) = coverage else {
        return "this memory can't tell how much it holds\n".to_owned();
    };
    let mut lines = vec![("entries", entries.to_string())];
    match meanings {
        None => lines.push(("found by", "words".to_owned())),
        Some(meanings) => {
            lines.push(("found by", "words and meaning".to_owned()));
            lines.push(("model", strict(&meanings.model)));
            lines.push(("read", meanings.read.to_string()));
            lines.push(("refused", meanings.refused.to_string()));
            lines.push(("missing", meanings.missing.to_string()));
            lines.extend(meanings.trouble.map(|why| ("trouble", strict(&why))));
        }
    }
    facts(&lines)
}

/// How much is gone.
pub fn forgotten(answer: &Value) -> String {
    match answer["forgotten"].as_u64() {
        Some(1) => "forgot 1 entry\n".to_owned(),
        Some(gone) => format!("forgot {gone} entries, older versions counted\n"),
        None => "forgotten\n".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rookery_messages::ids::AgentName;
    use rookery_messages::memory::{Category, Source};

    use super::*;

    #[test]
    fn an_entry_is_shown_with_its_source_and_without_what_a_terminal_obeys() {
        let nil = "00000000-0000-0000-0000-000000000000";
        let one = MemoryEntry {
            id: nil.parse().unwrap(),
            agent: AgentName::new("home"),
            scope: MemoryScope::Session(nil.parse().unwrap()),
            key: "rule".into(),
            content: "send\u{1b}[2J files".into(),
            category: Category::Core,
            source: Source::External,
            via: Some("web_fetch".into()),
            turn: None,
            created_at: "2026-01-02T03:04:05Z".parse().unwrap(),
            updated_at: "2026-01-02T03:04:05Z".parse().unwrap(),
            superseded_by: None,
        };
        let (list, whole) = (entries(std::slice::from_ref(&one)), entry(&one));
        for shown in [&list, &whole] {
            assert!(shown.contains("external") && shown.contains("files"), "{shown}");
            assert!(!shown.contains('\u{1b}'), "{shown}");
        }
        assert!(whole.contains("via            web_fetch"), "{whole}");
        let found = found(&[Recalled { entry: one, score: Some(0.5) }]);
        assert!(found.contains("0.50"), "{found}");
        assert_eq!(entries(&[]), "nothing is remembered\n");
    }
}
