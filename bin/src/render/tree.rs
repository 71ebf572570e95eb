//! The actor tree with box characters.

use jiff::Timestamp;
use rookery_messages::tree::{ActorStatus, TreeNode, TreeSnapshot};

use super::{strict, table};

const HEADER: [&str; 8] =
    ["ACTOR", "STATUS", "FOR", "MAILBOX", "RESTARTS", "IN HAND", "WAITING ON", "LAST EXIT"];

/// The columns that are left out where there is no room for all, the most dispensable first.
const DISPENSABLE: [&str; 3] = ["LAST EXIT", "RESTARTS", "MAILBOX"];

/// So much of a long id is shown where room is scarce; the commands take it for the whole.
const ID_TAIL: usize = 8;

/// A line of the tree.
struct Line {
    cells: Vec<String>,
    /// Something goes on there, or below.
    moves: bool,
}

/// The whole tree, a line an actor.
pub fn tree(snapshot: &TreeSnapshot) -> String {
    let rows: Vec<_> = lines(snapshot, false).into_iter().map(|line| line.cells).collect();
    table(&HEADER, &rows)
}

/// The tree in so many columns and rows: ids are shortened, columns and idle actors left out as needed.
/// Without a line break at its end.
pub fn fitted(snapshot: &TreeSnapshot, width: usize, height: usize) -> String {
    let all = lines(snapshot, true);
    let count = all.len();
    // A title, the header, and perhaps a line about what is left out.
    let room = height.saturating_sub(2).max(1);
    let shown = if count > room { most_important(all, room.saturating_sub(1)) } else { all };
    let mut rows: Vec<Vec<String>> = shown.into_iter().map(|line| line.cells).collect();
    let left_out = count - rows.len();
    let mut header = HEADER.to_vec();
    let mut text = table(&header, &rows);
    for name in DISPENSABLE {
        let fits = text.lines().all(|line| line.chars().count() <= width);
        let Some(column) = header.iter().position(|one| *one == name).filter(|_| !fits) else {
            continue;
        };
        header.remove(column);
        for row in &mut rows {
            row.remove(column);
        }
        text = table(&header, &rows);
    }
    let at = rookery_messages::time::rfc3339_millis(snapshot.captured_at);
    let title = format!("{at}   {count} actors   Ctrl-C ends");
    let more = (left_out > 0).then(|| format!("… {left_out} more; `rookery tree` shows all"));
    let lines = std::iter::once(title.as_str()).chain(text.lines()).chain(more.as_deref());
    lines.map(|line| cut(line, width)).collect::<Vec<_>>().join("\n")
}

/// Those where something goes on, with those above them; then the others, as far as there is room.
fn most_important(lines: Vec<Line>, room: usize) -> Vec<Line> {
    let moving = lines.iter().filter(|line| line.moves).count();
    let mut idle = room.saturating_sub(moving);
    let mut moves = room;
    let kept = lines.into_iter().filter(|line| {
        let left = if line.moves { &mut moves } else { &mut idle };
        let keep = *left > 0;
        *left = left.saturating_sub(1);
        keep
    });
    kept.collect()
}

pub(super) fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn lines(snapshot: &TreeSnapshot, short: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    let drawing = Drawing { now: snapshot.captured_at, short };
    drawing.push(&snapshot.root, None, "", "", &mut lines);
    lines
}

struct Drawing {
    now: Timestamp,
    short: bool,
}

impl Drawing {
    /// Draws a node and all below it; whether something goes on there.
    fn push(
        &self,
        node: &TreeNode,
        parent: Option<&str>,
        branch: &str,
        below: &str,
        lines: &mut Vec<Line>,
    ) -> bool {
        let mut name = label(node, parent);
        if self.short {
            name = shortened(&name);
        }
        let place = lines.len();
        let mut moves =
            node.status != ActorStatus::Idle || node.in_hand.is_some() || node.waiting_on.is_some();
        lines.push(Line { cells: row(node, format!("{branch}{name}"), self.now), moves });
        let last = node.children.len().saturating_sub(1);
        for (index, child) in node.children.iter().enumerate() {
            let (corner, line) =
                if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let branch = format!("{below}{corner}");
            moves |= self.push(child, Some(&node.path), &branch, &format!("{below}{line}"), lines);
        }
        lines[place].moves = moves;
        moves
    }
}

/// Long ids by their last characters: those of one time differ there.
pub(super) fn shortened(label: &str) -> String {
    let short = |segment: &str| {
        let is_id = segment.len() == 36 && segment.is_ascii() && segment.matches('-').count() == 4;
        if is_id { format!("…{}", &segment[36 - ID_TAIL..]) } else { segment.to_owned() }
    };
    label.split('/').map(short).collect::<Vec<_>>().join("/")
}

/// The paths that somebody may mean by a whole path, by its last segments, or by the end of an id.
pub fn meant<'a>(root: &'a TreeNode, wanted: &str) -> Vec<&'a str> {
    let wanted = wanted.trim_start_matches('…').trim_matches('/');
    let mut paths = Vec::new();
    collect(root, &mut paths);
    if let Some(exact) = paths.iter().find(|path| **path == wanted) {
        return vec![exact];
    }
    let by_end = |path: &&str| {
        path.strip_suffix(wanted).is_some_and(|before| {
            let of_id = |c: char| c.is_ascii_hexdigit() || c == '-';
            let inside_id = wanted.len() >= ID_TAIL && wanted.chars().all(of_id);
            before.ends_with('/') || (inside_id && before.ends_with(of_id))
        })
    };
    if wanted.is_empty() { Vec::new() } else { paths.into_iter().filter(by_end).collect() }
}

fn collect<'a>(node: &'a TreeNode, paths: &mut Vec<&'a str>) {
    paths.push(&node.path);
    node.children.iter().for_each(|child| collect(child, paths));
}

/// The path without what the parent's says already.
fn label(node: &TreeNode, parent: Option<&str>) -> String {
    let short = parent
        .and_then(|parent| node.path.strip_prefix(parent))
        .and_then(|rest| rest.strip_prefix('/'))
        .unwrap_or(&node.path);
    strict(short)
}

/// How long an incarnation lives, or how long there has been none.
fn age(node: &TreeNode, now: Timestamp) -> String {
    let ended = node.last_exit.as_ref().filter(|_| node.status == ActorStatus::Ended);
    let since = ended.map_or(node.started_at, |exit| exit.at);
    duration(u64::try_from(now.duration_since(since).as_millis()).unwrap_or(0))
}

/// What it waits for, and for how long.
pub(super) fn waiting(node: &TreeNode) -> Option<String> {
    let what = strict(node.waiting_on.as_deref()?);
    Some(node.waiting_ms.map_or(what.clone(), |ms| format!("{what} {}", duration(ms))))
}

fn row(node: &TreeNode, name: String, now: Timestamp) -> Vec<String> {
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
        age(node, now),
        format!("{}/{}", mailbox.depth, mailbox.capacity),
        node.restarts.to_string(),
        in_hand.unwrap_or_else(|| "-".to_owned()),
        waiting(node).unwrap_or_else(|| "-".to_owned()),
        exit.unwrap_or_else(|| "-".to_owned()),
    ]
}

pub(super) fn status(status: ActorStatus) -> &'static str {
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
pub(super) fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..60_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{}m{}s", millis / 60_000, millis % 60_000 / 1_000),
        _ => format!("{}h{}m", millis / 3_600_000, millis % 3_600_000 / 60_000),
    }
}

/// One actor in full at this time: the table's facts, one a line, and its own view of its state.
pub fn actor(node: &TreeNode, now: Timestamp) -> String {
    let mut facts = vec![
        ("path", strict(&node.path)),
        ("kind", strict(&node.kind)),
        ("id", node.id.to_string()),
        ("status", status(node.status).to_owned()),
        ("generation", node.generation.to_string()),
        ("started at", rookery_messages::time::rfc3339_millis(node.started_at)),
        ("for", age(node, now)),
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
    if let Some(waiting) = waiting(node) {
        facts.push(("waiting on", waiting));
    }
    if let Some(exit) = &node.last_exit {
        let at = rookery_messages::time::rfc3339_millis(exit.at);
        facts.push(("last exit", format!("{} at {at}", strict(&exit.text))));
    }
    let mut text = super::lists::facts(&facts);
    if !node.detail.is_null() {
        text.push_str(&format!("detail\n{}\n", super::json_text(&node.detail)));
    }
    text
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
            waiting_ms: None,
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
        turn.waiting_ms = Some(61_000);
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
ACTOR                STATUS      FOR   MAILBOX  RESTARTS  IN HAND         WAITING ON  LAST EXIT
root                 idle        2.0s  1/64     0         -               -           -
├─ store             idle        2.0s  1/64     0         -               -           -
└─ service           idle        2.0s  1/64     0         -               -           -
   ├─ observer       restarting  2.0s  1/64     2         -               -           panicked: \\u{1b}[2J in Observed
   └─ sessions       idle        2.0s  1/64     0         -               -           -
      └─ s1          idle        2.0s  1/64     0         -               -           -
         └─ turn/t1  busy        2.0s  1/64     0         StartTool 1.2s  model 1m1s  -
";
        assert_eq!(tree(&snapshot), expected);
    }

    const SESSION: &str = "019e0a5d-ac96-774b-bcce-b30209aa8057";
    const TURN: &str = "019e0a5d-ac96-774b-bcce-b30209bb8057";

    /// Sixty idle channels, and a turn that hangs in a tool.
    fn large() -> TreeSnapshot {
        let path = format!("root/service/sessions/{SESSION}");
        let mut turn = node(&format!("{path}/turn/{TURN}"), ActorStatus::Idle, vec![]);
        turn.waiting_on = Some("running".to_owned());
        turn.waiting_ms = Some(720_000);
        let session = node(&path, ActorStatus::Idle, vec![turn]);
        let sessions = node("root/service/sessions", ActorStatus::Idle, vec![session]);
        let mut below: Vec<_> = (0..60)
            .map(|n| node(&format!("root/service/channel.{n}"), ActorStatus::Idle, vec![]))
            .collect();
        below.push(sessions);
        let service = node("root/service", ActorStatus::Idle, below);
        let captured_at = "2026-01-02T03:04:07Z".parse().unwrap();
        let root = node("root", ActorStatus::Idle, vec![service]);
        TreeSnapshot { version: 1, seq: 9, captured_at, root }
    }

    #[test]
    fn a_tree_fits_the_terminal_and_what_goes_on_is_what_is_seen() {
        for (width, height) in [(80, 24), (40, 10), (200, 100)] {
            let text = fitted(&large(), width, height);
            let lines: Vec<_> = text.lines().collect();
            assert!(lines.len() <= height && !text.ends_with('\n'), "{width}x{height}:\n{text}");
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("turn/…09bb8057"), "{text}");
            assert_eq!(text.contains("more; "), height < 60, "{text}");
        }
        let text = fitted(&large(), 80, 24);
        assert!(text.contains("running 12m0s") && text.contains("FOR"), "{text}");
        assert!(text.starts_with("2026-01-02T03:04:07.000Z   65 actors"), "{text}");
    }

    #[test]
    fn an_actor_is_meant_by_its_path_the_end_of_it_or_the_end_of_its_id() {
        let tree = large();
        let turn = format!("root/service/sessions/{SESSION}/turn/{TURN}");
        for wanted in [
            turn.as_str(),
            &format!("/{turn}/"),
            &format!("turn/{TURN}"),
            TURN,
            "09bb8057",
            "…09bb8057",
        ] {
            assert_eq!(meant(&tree.root, wanted), [turn.as_str()], "{wanted}");
        }
        assert_eq!(meant(&tree.root, "root"), ["root"], "a whole path is meant by itself");
        assert_eq!(meant(&tree.root, "channel.7"), ["root/service/channel.7"], "not channel.17");
        for wanted in ["8057", "hannel.7", "", "…", "x"] {
            assert_eq!(meant(&tree.root, wanted), [""; 0], "{wanted}");
        }
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
