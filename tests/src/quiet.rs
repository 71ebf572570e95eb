//! What must be true of the tree once the work is done.

use rookery_messages::tree::{ActorStatus, TreeNode, TreeSnapshot};

/// Kinds that live only while a turn runs.
pub(crate) const OF_A_TURN: [&str; 6] = ["turn", "model", "batch", "tool", "delegate", "approval"];

/// Every node of the tree, parents first.
pub fn nodes(snapshot: &TreeSnapshot) -> Vec<&TreeNode> {
    let mut found = Vec::new();
    let mut open = vec![&snapshot.root];
    while let Some(node) = open.pop() {
        found.push(node);
        open.extend(node.children.iter().rev());
    }
    found
}

/// Each node stands under its parent's path, is there once, and no live one is under a dead one (I9, from
/// outside).
pub fn check_shape(snapshot: &TreeSnapshot) -> Result<(), String> {
    let mut seen = std::collections::HashSet::new();
    for node in nodes(snapshot) {
        if !seen.insert(node.id) {
            return Err(format!("{} stands twice in the tree", node.path));
        }
        for child in &node.children {
            if !child.path.starts_with(&format!("{}/", node.path)) {
                return Err(format!("{} stands under {}", child.path, node.path));
            }
            if node.status == ActorStatus::Ended && child.status != ActorStatus::Ended {
                return Err(format!("{} lives under {}, which has ended", child.path, node.path));
            }
        }
        if node.mailbox.high_water > node.mailbox.capacity && node.mailbox.capacity > 0 {
            return Err(format!("the mailbox of {} went over its cap", node.path));
        }
    }
    Ok(())
}

/// No turn, and nothing below one, is left; sessions are at rest (I6). The dead that stay on show don't count.
pub fn check_quiet(snapshot: &TreeSnapshot) -> Result<(), String> {
    check_shape(snapshot)?;
    for node in nodes(snapshot).iter().filter(|node| node.status != ActorStatus::Ended) {
        if OF_A_TURN.contains(&node.kind.as_str()) {
            return Err(format!("left running: {} ({:?})", node.path, node.status));
        }
        if node.kind == "session" && node.status != ActorStatus::Idle {
            return Err(format!("a session is not at rest: {} ({:?})", node.path, node.status));
        }
    }
    Ok(())
}

/// How many actors live.
pub fn count_live(snapshot: &TreeSnapshot) -> usize {
    nodes(snapshot).iter().filter(|node| node.status != ActorStatus::Ended).count()
}

/// How many tasks live actors own.
pub fn count_tasks(snapshot: &TreeSnapshot) -> usize {
    nodes(snapshot).iter().map(|node| node.tasks).sum()
}

/// The paths of live actors of one kind.
pub fn live_of_kind(snapshot: &TreeSnapshot, kind: &str) -> Vec<String> {
    nodes(snapshot)
        .iter()
        .filter(|node| node.kind == kind && node.status != ActorStatus::Ended)
        .map(|node| node.path.clone())
        .collect()
}

/// Trees made by hand, for the tests of checks.
#[cfg(test)]
pub(crate) mod sample {
    use rookery_messages::tree::TreeSnapshot;
    use serde_json::{Value, json};

    pub(crate) fn node(path: &str, kind: &str, status: &str, children: Value) -> Value {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        json!({
            "path": path, "kind": kind, "id": id, "status": status, "generation": 1,
            "started_at": "2026-01-01T00:00:00.000Z",
            "mailbox": {"depth": 0, "capacity": 8, "high_water": 1},
            "handled": 0, "tasks": 1, "restarts": 0, "children": children
        })
    }

    pub(crate) fn snapshot(root: Value) -> TreeSnapshot {
        serde_json::from_value(json!({
            "version": 1, "seq": 1, "captured_at": "2026-01-01T00:00:00.000Z", "root": root
        }))
        .unwrap()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::sample::{node, snapshot};
    use super::*;

    #[test]
    fn a_tree_at_rest_is_quiet() {
        let session = node("root/s", "session", "idle", json!([]));
        let dead = node("root/d", "tool", "ended", json!([]));
        let tree = snapshot(node("root", "root", "idle", json!([session, dead])));
        assert_eq!(check_quiet(&tree), Ok(()));
        assert_eq!((count_live(&tree), count_tasks(&tree)), (2, 3));
        assert_eq!(live_of_kind(&tree, "session"), ["root/s"]);
    }

    // I6
    #[test]
    fn anything_of_a_turn_that_still_lives_is_named() {
        for kind in OF_A_TURN {
            let left = node("root/x", kind, "busy", json!([]));
            let tree = snapshot(node("root", "root", "idle", json!([left])));
            assert!(check_quiet(&tree).unwrap_err().contains("left running: root/x"), "{kind}");
        }
        let session = node("root/s", "session", "busy", json!([]));
        let tree = snapshot(node("root", "root", "idle", json!([session])));
        assert!(check_quiet(&tree).is_err());
    }

    // I9
    #[test]
    fn an_actor_without_its_parent_is_seen() {
        let stray = node("elsewhere/x", "store", "idle", json!([]));
        assert!(check_shape(&snapshot(node("root", "root", "idle", json!([stray])))).is_err());
        let orphan = node("root/p/x", "store", "idle", json!([]));
        let parent = node("root/p", "session", "ended", json!([orphan]));
        assert!(check_shape(&snapshot(node("root", "root", "idle", json!([parent])))).is_err());
    }

    // I10
    #[test]
    fn a_mailbox_over_its_cap_is_seen() {
        let mut full = node("root/m", "store", "idle", json!([]));
        full["mailbox"]["high_water"] = json!(9);
        assert!(check_shape(&snapshot(node("root", "root", "idle", json!([full])))).is_err());
    }
}
