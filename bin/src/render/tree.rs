//! The actor tree with box characters.

use rookery_messages::tree::{ActorStatus, TreeNode, TreeSnapshot};

use super::{strict, table};

const HEADER: [&str; 7] =
    ["ACTOR", "STATUS", "MAILBOX", "RESTARTS", "IN HAND", "WAITING ON", "LAST EXIT"];

/// The whole tree, a line an actor.
pub fn tree(snapshot: &TreeSnapshot) -> String {
    let mut rows = Vec::new();
    push(&snapshot.root, None, "", "", &mut rows);
    table(&HEADER, &rows)
}

fn push(
    node: &TreeNode,
    parent: Option<&str>,
    branch: &str,
    below: &str,
    rows: &mut Vec<Vec<String>>,
) {
    rows.push(row(node, format!("{branch}{}", label(node, parent))));
    let last = node.children.len().saturating_sub(1);
    for (index, child) in node.children.iter().enumerate() {
        let (corner, line) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let branch = format!("{below}{corner}");
        push(child, Some(&node.path), &branch, &format!("{below}{line}"), rows);
    }
}

/// The path without what the parent's says already.
fn label(node: &TreeNode, parent: Option<&str>) -> String {
    let short = parent
        .and_then(|parent| node.path.strip_prefix(parent))
        .and_then(|rest| rest.strip_prefix('/'))
        .unwrap_or(&node.path);
    strict(short)
}

fn row(node: &TreeNode, name: String) -> Vec<String> {
    let mailbox = node.mailbox;
    let in_hand = node
        .in_hand
        .as_ref()
        .map(|hand| format!("{} {}", strict(&hand.message), duration(hand.since_ms)));
    let exit = node.last_exit.as_ref().map(|exit| {
        let hand = exit.in_hand.as_ref().map(|hand| format!(" in {}", strict(hand)));
        format!("{}{}", strict(&exit.text), hand.unwrap_or_default())
    });
    vec![
        name,
        status(node.status).to_owned(),
        format!("{}/{}", mailbox.depth, mailbox.capacity),
        node.restarts.to_string(),
        in_hand.unwrap_or_else(|| "-".to_owned()),
        node.waiting_on.as_deref().map_or_else(|| "-".to_owned(), strict),
        exit.unwrap_or_else(|| "-".to_owned()),
    ]
}

fn status(status: ActorStatus) -> &'static str {
    match status {
        ActorStatus::Starting => "starting",
        ActorStatus::Idle => "idle",
        ActorStatus::Busy => "busy",
        ActorStatus::Stopping => "stopping",
        ActorStatus::Restarting => "restarting",
        ActorStatus::Parked => "parked",
        ActorStatus::Paused => "paused",
        ActorStatus::Ended => "ended",
    }
}

/// A time span for eyes.
fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..60_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{}m{}s", millis / 60_000, millis % 60_000 / 1_000),
        _ => format!("{}h{}m", millis / 3_600_000, millis % 3_600_000 / 60_000),
    }
}

/// One actor in full: the table's facts, one a line, and its own view of its state.
pub fn actor(node: &TreeNode) -> String {
    let mut facts = vec![
        ("path", strict(&node.path)),
        ("kind", strict(&node.kind)),
        ("id", node.id.to_string()),
        ("status", status(node.status).to_owned()),
        ("generation", node.generation.to_string()),
        ("started at", rookery_messages::time::rfc3339_millis(node.started_at)),
        (
            "mailbox",
            format!(
                "{}/{}, at most {} so far",
                node.mailbox.depth, node.mailbox.capacity, node.mailbox.high_water
            ),
        ),
        ("handled", node.handled.to_string()),
        ("tasks", node.tasks.to_string()),
        ("restarts", node.restarts.to_string()),
        ("children", node.children.len().to_string()),
    ];
    if let Some(hand) = &node.in_hand {
        facts.push(("in hand", format!("{} {}", strict(&hand.message), duration(hand.since_ms))));
    }
    if let Some(waiting) = &node.waiting_on {
        facts.push(("waiting on", strict(waiting)));
    }
    if let Some(exit) = &node.last_exit {
        let at = rookery_messages::time::rfc3339_millis(exit.at);
        facts.push(("last exit", format!("{} at {at}", strict(&exit.text))));
    }
    if !node.detail.is_null() {
        facts.push(("detail", strict(&node.detail.to_string())));
    }
    super::lists::facts(&facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rookery_messages::exit::ExitReason;
    use rookery_messages::ids::ActorId;
    use rookery_messages::tree::{InHand, LastExit, MailboxView};

    fn node(path: &str, status: ActorStatus, children: Vec<TreeNode>) -> TreeNode {
        TreeNode {
            path: path.to_owned(),
            kind: "k".to_owned(),
            id: ActorId(1),
            status,
            generation: 1,
            started_at: "2026-01-02T03:04:05Z".parse().unwrap(),
            mailbox: MailboxView { depth: 1, capacity: 64, high_water: 3 },
            in_hand: None,
            waiting_on: None,
            handled: 0,
            tasks: 0,
            restarts: 0,
            last_exit: None,
            detail: serde_json::Value::Null,
            children,
        }
    }

    // A078
    #[test]
    fn the_tree_shows_each_actor_with_its_mailbox_message_restarts_and_last_exit() {
        let mut turn = node("service/sessions/s1/turn/t1", ActorStatus::Busy, vec![]);
        turn.in_hand = Some(InHand { message: "StartTool".to_owned(), since_ms: 1_250 });
        turn.waiting_on = Some("model".to_owned());
        let session = node("service/sessions/s1", ActorStatus::Idle, vec![turn]);
        let mut observer = node("service/observer", ActorStatus::Restarting, vec![]);
        observer.restarts = 2;
        observer.last_exit = Some(LastExit {
            at: "2026-01-02T03:04:06Z".parse().unwrap(),
            reason: ExitReason::Killed,
            text: "panicked: \u{1b}[2J".to_owned(),
            in_hand: Some("Observed".to_owned()),
        });
        let sessions = node("service/sessions", ActorStatus::Idle, vec![session]);
        let service = node("service", ActorStatus::Idle, vec![observer, sessions]);
        let root = node(
            "root",
            ActorStatus::Idle,
            vec![node("store", ActorStatus::Idle, vec![]), service],
        );
        let snapshot = TreeSnapshot {
            version: 1,
            seq: 9,
            captured_at: "2026-01-02T03:04:07Z".parse().unwrap(),
            root,
        };
        let expected = "\
ACTOR                STATUS      MAILBOX  RESTARTS  IN HAND         WAITING ON  LAST EXIT
root                 idle        1/64     0         -               -           -
├─ store             idle        1/64     0         -               -           -
└─ service           idle        1/64     0         -               -           -
   ├─ observer       restarting  1/64     2         -               -           panicked: \\u{1b}[2J in Observed
   └─ sessions       idle        1/64     0         -               -           -
      └─ s1          idle        1/64     0         -               -           -
         └─ turn/t1  busy        1/64     0         StartTool 1.2s  model       -
";
        assert_eq!(tree(&snapshot), expected);
    }

    #[test]
    fn spans_are_short_at_every_size() {
        let spans = [0, 999, 1_000, 59_999, 60_000, 3_599_999, 3_600_000];
        assert_eq!(
            spans.map(duration),
            ["0ms", "999ms", "1.0s", "59.9s", "1m0s", "59m59s", "1h0m"]
        );
    }
}
