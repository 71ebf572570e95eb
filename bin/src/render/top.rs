//! The busiest actors, a line each.

use rookery_messages::tree::{TreeNode, TreeSnapshot};
use serde::Serialize;

use super::tree::{cut, duration, shortened, status, waiting};
use super::{strict, table};
use crate::cli::TopBy;

const HEADER: [&str; 8] =
    ["ACTOR", "STATUS", "MAILBOX", "MOST", "MSG/S", "HANDLED", "IN HAND", "WAITING ON"];

/// An actor, and how much it does.
#[derive(Serialize)]
pub struct Busy<'a> {
    path: &'a str,
    kind: &'a str,
    status: &'static str,
    /// Messages that wait, the room for them, and the most so far.
    depth: usize,
    capacity: usize,
    high_water: usize,
    handled: u64,
    /// Messages handled in a second: since the snapshot before, or since its start.
    rate: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_hand: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_hand_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_on: Option<String>,
    tasks: usize,
    restarts: u64,
}

/// The busiest of a snapshot, the busiest first. `before`: an earlier one, from which rates are known.
pub fn busiest<'a>(
    now: &'a TreeSnapshot,
    before: Option<&TreeSnapshot>,
    by: TopBy,
    limit: usize,
) -> Vec<Busy<'a>> {
    let mut all = Vec::new();
    collect(&now.root, now, before, &mut all);
    all.sort_by(|a, b| {
        let key = |one: &Busy<'_>| match by {
            TopBy::Mailbox => (one.depth as f64, one.high_water as f64),
            TopBy::Rate => (one.rate, 0.0),
            TopBy::Busy => (one.in_hand_ms.map_or(-1.0, |ms| ms as f64), 0.0),
            TopBy::Handled => (one.handled as f64, 0.0),
        };
        let (a_key, b_key) = (key(a), key(b));
        b_key.0.total_cmp(&a_key.0).then(b_key.1.total_cmp(&a_key.1)).then(a.path.cmp(b.path))
    });
    all.truncate(limit);
    all
}

fn collect<'a>(
    node: &'a TreeNode,
    now: &TreeSnapshot,
    before: Option<&TreeSnapshot>,
    all: &mut Vec<Busy<'a>>,
) {
    let former = before.and_then(|before| Some((find(&before.root, node)?, before.captured_at)));
    let (handled, since) = match former {
        Some((former, at)) => (node.handled.saturating_sub(former.handled), at),
        None => (node.handled, node.started_at),
    };
    let seconds = now.captured_at.duration_since(since).as_secs_f64();
    all.push(Busy {
        path: &node.path,
        kind: &node.kind,
        status: status(node.status),
        depth: node.mailbox.depth,
        capacity: node.mailbox.capacity,
        high_water: node.mailbox.high_water,
        handled: node.handled,
        rate: if seconds > 0.0 { handled as f64 / seconds } else { 0.0 },
        in_hand: node.in_hand.as_ref().map(|hand| hand.message.as_str()),
        in_hand_ms: node.in_hand.as_ref().map(|hand| hand.since_ms),
        waiting_on: waiting(node),
        tasks: node.tasks,
        restarts: node.restarts,
    });
    node.children.iter().for_each(|child| collect(child, now, before, all));
}

/// The same incarnation in an earlier tree.
fn find<'a>(root: &'a TreeNode, wanted: &TreeNode) -> Option<&'a TreeNode> {
    if root.path == wanted.path {
        return (root.id == wanted.id).then_some(root);
    }
    let above = |child: &&TreeNode| {
        wanted
            .path
            .strip_prefix(&child.path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    root.children.iter().filter(above).find_map(|child| find(child, wanted))
}

/// A table of them.
pub fn top(busy: &[Busy<'_>]) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rows: Vec<Vec<String>> = busy
        .iter()
        .map(|one| {
            let in_hand = one.in_hand.zip(one.in_hand_ms);
            vec![
                shortened(&strict(one.path)),
                one.status.to_owned(),
                format!("{}/{}", one.depth, one.capacity),
                one.high_water.to_string(),
                format!("{:.1}", one.rate),
                one.handled.to_string(),
                or_dash(in_hand.map(|(what, ms)| format!("{} {}", strict(what), duration(ms)))),
                or_dash(one.waiting_on.clone()),
            ]
        })
        .collect();
    table(&HEADER, &rows)
}

/// The table for a screen of so many columns, without a line break at its end.
pub fn fitted(busy: &[Busy<'_>], title: &str, width: usize) -> String {
    let text = top(busy);
    let lines = std::iter::once(title).chain(text.lines());
    lines.map(|line| cut(line, width)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(path: &str, depth: usize, handled: u64, children: Vec<Value>) -> Value {
        json!({
            "path": path, "kind": "k", "id": path.len(), "status": "idle", "generation": 1,
            "started_at": "2026-01-01T00:00:00.000Z", "handled": handled, "tasks": 0, "restarts": 0,
            "mailbox": {"depth": depth, "capacity": 9, "high_water": depth + 1}, "children": children,
        })
    }

    fn snapshot(at: &str, a: (usize, u64), b: (usize, u64)) -> TreeSnapshot {
        let below = vec![node("root/a", a.0, a.1, vec![]), node("root/bb", b.0, b.1, vec![])];
        let root = node("root", 0, 1, below);
        let at = format!("2026-01-01T00:00:{at}.000Z");
        serde_json::from_value(json!({"version": 1, "seq": 1, "captured_at": at, "root": root}))
            .expect("a snapshot")
    }

    #[test]
    fn the_busiest_come_first_by_what_is_asked_for() {
        let before = snapshot("10", (0, 100), (0, 40));
        let now = snapshot("12", (1, 102), (3, 60));
        let paths = |by, before| -> Vec<&str> {
            busiest(&now, before, by, 2).iter().map(|one| one.path).collect()
        };
        assert_eq!(paths(TopBy::Mailbox, None), ["root/bb", "root/a"]);
        assert_eq!(paths(TopBy::Handled, None), ["root/a", "root/bb"]);
        assert_eq!(paths(TopBy::Rate, Some(&before)), ["root/bb", "root/a"]);
        let rates: Vec<f64> =
            busiest(&now, Some(&before), TopBy::Rate, 9).iter().map(|one| one.rate).collect();
        assert_eq!(rates, [10.0, 1.0, 0.0]);
        let text = top(&busiest(&now, Some(&before), TopBy::Mailbox, 1));
        assert!(text.contains("root/bb  idle    3/9") && text.contains("10.0"), "{text}");
    }
}
