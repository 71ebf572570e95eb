//! A fault stays where it is: the tree before and after it (I8).

use std::collections::HashMap;

use rookery_messages::tree::{ActorStatus, TreeNode, TreeSnapshot};

use crate::quiet::{OF_A_TURN, nodes};

/// Kinds that come and go by themselves, beside those of a turn.
const PASSING: [&str; 2] = ["session", "connection"];

/// Whatever stood outside the subtree of `victim` still stands, as the same incarnation, and nobody outside
/// failed; inside, nobody was restarted more than `restarts` times.
pub fn check_apart(
    before: &TreeSnapshot,
    after: &TreeSnapshot,
    victim: &str,
    restarts: u64,
) -> Result<(), String> {
    let within = |node: &TreeNode| {
        node.path.strip_prefix(victim).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let then: HashMap<&str, &TreeNode> =
        nodes(before).into_iter().filter(|n| lives(n)).map(|n| (n.path.as_str(), n)).collect();
    let now = nodes(after);
    let known: Vec<_> = nodes(before).into_iter().map(|node| node.id).collect();
    for node in &now {
        let dead = node.status == ActorStatus::Ended && !known.contains(&node.id);
        if dead && !within(node) {
            return Err(format!("{} failed too: {:?}", node.path, node.last_exit));
        }
        let earlier = then.get(node.path.as_str()).map_or(0, |earlier| earlier.restarts);
        if within(node) && node.restarts > earlier + restarts {
            return Err(format!("{} was restarted {} times", node.path, node.restarts - earlier));
        }
    }
    let now: HashMap<&str, &TreeNode> =
        now.into_iter().filter(|node| lives(node)).map(|node| (node.path.as_str(), node)).collect();
    for (path, node) in then {
        let passing =
            OF_A_TURN.contains(&node.kind.as_str()) || PASSING.contains(&node.kind.as_str());
        if passing || within(node) {
            continue;
        }
        match now.get(path) {
            None => return Err(format!("{path} went with {victim}")),
            Some(now) if now.id != node.id => {
                return Err(format!("{path} was started anew with {victim}"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn lives(node: &TreeNode) -> bool {
    node.status != ActorStatus::Ended
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::quiet::sample::{node, snapshot};

    /// The root with a store, and a router with a session, its turn and two tools.
    fn tree(change: impl Fn(&mut Value)) -> TreeSnapshot {
        let mut ids = 1..;
        let mut fixed = |path: &str, kind: &str, children: Value| {
            let mut node = node(path, kind, "idle", children);
            node["id"] = json!(ids.next());
            node
        };
        let tools =
            [fixed("root/s/c/t/a", "tool", json!([])), fixed("root/s/c/t/b", "tool", json!([]))];
        let turn = fixed("root/s/c/t", "turn", json!(tools));
        let session = fixed("root/s/c", "session", json!([turn]));
        let router = fixed("root/s", "router", json!([session]));
        let store = fixed("root/store", "store", json!([]));
        let mut root = fixed("root", "root", json!([store, router]));
        change(&mut root);
        snapshot(root)
    }

    fn tool(root: &mut Value, n: usize) -> &mut Value {
        &mut root["children"][1]["children"][0]["children"][0]["children"][n]
    }

    fn failed(node: &mut Value, id: u64) {
        node["status"] = json!("ended");
        node["id"] = json!(id);
    }

    #[test]
    fn a_failure_that_ends_its_own_subtree_passes() {
        let before = tree(|_| ());
        let after = tree(|root| failed(tool(root, 0), 100));
        assert_eq!(check_apart(&before, &after, "root/s/c/t/a", 0), Ok(()));
        let restarted = tree(|root| {
            root["children"][0]["id"] = json!(101);
            root["children"][0]["restarts"] = json!(1);
        });
        assert_eq!(check_apart(&before, &restarted, "root/store", 1), Ok(()));
    }

    // I8
    #[test]
    fn a_failure_that_spreads_and_restarts_without_bound_are_seen() {
        let before = tree(|_| ());
        type Change<'a> = &'a dyn Fn(&mut Value);
        let broken: [(&str, Change<'_>, &str); 4] = [
            ("root/s/c/t/a", &|root| failed(tool(root, 1), 100), "root/s/c/t/b failed too"),
            (
                "root/s/c",
                &|root| root["children"][0]["id"] = json!(100),
                "root/store was started anew",
            ),
            (
                "root/s",
                &|root| {
                    root["children"].as_array_mut().unwrap().remove(0);
                },
                "root/store went with",
            ),
            ("root/store", &|root| root["children"][0]["restarts"] = json!(2), "restarted 2 times"),
        ];
        for (victim, change, complaint) in broken {
            let seen = check_apart(&before, &tree(change), victim, 1).unwrap_err();
            assert!(seen.contains(complaint), "{seen}");
        }
        // A neighbour whose path merely begins alike is no part of the subtree.
        let after = tree(|root| failed(tool(root, 1), 100));
        assert!(check_apart(&before, &after, "root/s/c/t/", 0).is_err());
        assert!(check_apart(&before, &after, "root/s/c/t", 0).is_ok());
    }
}
