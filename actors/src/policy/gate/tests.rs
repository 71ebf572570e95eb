use crate::policy::shell::Amid;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use proptest::prelude::*;
use rookery_messages::approval::{Decider, GrantScope};
use rookery_messages::ids::GrantId;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;

const LEVELS: [AutonomyLevel; 3] =
    [AutonomyLevel::Readonly, AutonomyLevel::Supervised, AutonomyLevel::Full];

fn effects(effects: Effects, reach: Reach) -> CallEffects {
    CallEffects { effects, reach, ..CallEffects::read_only() }
}

fn every_effect() -> Vec<(CallEffects, Risk)> {
    vec![
        (effects(Effects::ReadOnly, Reach::Workspace), Risk::Low),
        (effects(Effects::ReadOnly, Reach::Outside), Risk::Low),
        (connects(Effects::ReadOnly, "https://example.org/?q=1"), Risk::Medium),
        (connects(Effects::Once, "https://example.org/"), Risk::High),
        (effects(Effects::Idempotent, Reach::Workspace), Risk::Medium),
        (effects(Effects::Once, Reach::Workspace), Risk::Medium),
        (effects(Effects::Idempotent, Reach::Outside), Risk::High),
        (effects(Effects::Once, Reach::Outside), Risk::High),
        (CallEffects::unknown(), Risk::High),
    ]
}

fn connects(repeats: Effects, url: &str) -> CallEffects {
    CallEffects { connects: vec![url.to_owned()], ..effects(repeats, Reach::Outside) }
}

fn command(text: &str) -> CallEffects {
    CallEffects { command: Some(text.to_owned()), ..CallEffects::unknown() }
}

fn profile(level: AutonomyLevel) -> RiskProfile {
    RiskProfile { level, ..RiskProfile::default() }
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn agent() -> &'static AgentName {
    static AGENT: std::sync::LazyLock<AgentName> =
        std::sync::LazyLock::new(|| AgentName::new("home"));
    &AGENT
}

/// A gate on a workspace of its own.
struct Asked {
    _folder: TempDir,
    gate: Gate,
}

impl Asked {
    fn new(profile: RiskProfile) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let gate = Gate::new(Arc::new(profile), folder.path(), &[]);
        Self { _folder: folder, gate }
    }

    fn call<'a>(tool: &'a str, effects: &'a CallEffects) -> CallToJudge<'a> {
        CallToJudge {
            tool,
            effects,
            key: Some("key"),
            conversation_id: ConversationId(Uuid::nil()),
            agent: agent(),
            tainted: None,
            amid: Amid::Quiet,
            grant: None,
            approval: None,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn ask(&self, tool: &str, effects: &CallEffects) -> Access {
        self.gate.evaluate(&Self::call(tool, effects)).decision
    }
}

fn grant() -> Grant {
    Grant {
        id: GrantId(Uuid::from_u128(7)),
        scope: GrantScope::Conversation,
        conversation_id: ConversationId(Uuid::nil()),
        agent: agent().clone(),
        tool: "t".to_owned(),
        pattern: "t {}".to_owned(),
        key: "key".to_owned(),
        granted_by: Decider { who: "u".to_owned(), via: "cli".to_owned() },
        granted_at: Timestamp::UNIX_EPOCH,
        expires_at: Timestamp::from_second(100).expect("a time"),
        revoked_by: None,
        revoked_at: None,
    }
}

fn short(access: &Access) -> &'static str {
    match access {
        Access::Allowed(_) => "allowed",
        Access::NeedsApproval(_) => "asks",
        Access::Blocked(_) => "blocked",
    }
}

fn reason(access: Access) -> String {
    match access {
        Access::Blocked(reason) | Access::NeedsApproval(reason) => reason,
        Access::Allowed(authority) => panic!("allowed by {authority:?}"),
    }
}

// V-H1, V-H2, V-H3, R10: the whole table of section 4.6
#[test]
fn the_table_of_levels_and_risks_holds() {
    for (effects, risk) in every_effect() {
        for level in LEVELS {
            for auto in [false, true] {
                for block in [false, true] {
                    let mut profile = profile(level);
                    profile.block_high_risk = block;
                    if auto {
                        profile.auto_approve = names(&["t"]);
                    }
                    let asked = Asked::new(profile);
                    let decision = asked.gate.evaluate(&Asked::call("t", &effects));
                    let expected = match (level, risk) {
                        (_, Risk::Low) | (AutonomyLevel::Full, _) => "allowed",
                        (AutonomyLevel::Readonly, _) => "blocked",
                        (AutonomyLevel::Supervised, Risk::Medium) if auto => "allowed",
                        (AutonomyLevel::Supervised, Risk::High) if block => "blocked",
                        (AutonomyLevel::Supervised, _) => "asks",
                    };
                    let case = format!("{effects:?} {level:?} auto={auto} block={block}");
                    assert_eq!(short(&decision.decision), expected, "{case}");
                    assert_eq!(decision.risk, risk, "{case}");
                }
            }
        }
    }
}

// V-H1, V-H4
#[test]
fn always_ask_beats_auto_approve_a_grant_and_full() {
    let grant = grant();
    for (effects, risk) in every_effect() {
        for level in LEVELS {
            let mut profile = profile(level);
            profile.always_ask = names(&["t"]);
            profile.auto_approve = names(&["t"]);
            let asked = Asked::new(profile);
            let call = CallToJudge { grant: Some(&grant), ..Asked::call("t", &effects) };
            let expected = match (level, risk) {
                (AutonomyLevel::Readonly, Risk::Medium | Risk::High) => "blocked",
                _ => "asks",
            };
            let access = asked.gate.evaluate(&call).decision;
            assert_eq!(short(&access), expected, "{effects:?} {level:?}");
        }
    }
}

// V-D1, V-D2, T5
#[test]
fn the_lists_of_tools_hold_at_every_level_whatever_else_admits_the_call() {
    let grant = grant();
    let cases = [
        (None, names(&[]), true),
        (None, names(&["t"]), false),
        (Some(names(&["t"])), names(&["t"]), false),
        (Some(names(&[])), names(&[]), false),
        (Some(names(&["u"])), names(&[]), false),
        (Some(names(&["t", "u"])), names(&["u"]), true),
        (Some(names(&["T"])), names(&[]), false),
    ];
    for (allowed, excluded, admitted) in cases {
        for level in LEVELS {
            let mut profile = profile(level);
            profile.allowed_tools = allowed.clone();
            profile.excluded_tools = excluded.clone();
            profile.auto_approve = names(&["t"]);
            profile.always_ask = names(&["t"]);
            let asked = Asked::new(profile);
            assert_eq!(asked.gate.admits("t"), admitted, "{allowed:?} {excluded:?}");
            let effects = CallEffects::read_only();
            let approval = Some(ApprovalId(Uuid::nil()));
            let call = CallToJudge { grant: Some(&grant), approval, ..Asked::call("t", &effects) };
            let access = asked.gate.evaluate(&call).decision;
            assert_eq!(matches!(access, Access::Blocked(_)), !admitted, "{allowed:?} {excluded:?}");
        }
    }
}

// V-H5, I7
#[test]
fn a_grant_covers_exactly_its_call_in_its_conversation_while_it_lasts() {
    let asked = Asked::new(profile(AutonomyLevel::Supervised));
    let effects = CallEffects::unknown();
    let given = grant();
    let covered = CallToJudge { grant: Some(&given), ..Asked::call("t", &effects) };
    assert_eq!(
        asked.gate.evaluate(&covered).decision,
        Access::Allowed(Authority::Granted { grant: given.id })
    );
    let late = CallToJudge { now: given.expires_at, ..covered };
    let elsewhere = CallToJudge { conversation_id: ConversationId(Uuid::max()), ..covered };
    let otherwise = CallToJudge { key: Some("other"), ..covered };
    let unbound = CallToJudge { key: None, ..covered };
    let another = CallToJudge { tool: "u", ..covered };
    for call in [late, elsewhere, otherwise, unbound, another] {
        assert_eq!(short(&asked.gate.evaluate(&call).decision), "asks", "{call:?}");
    }
}

// V-G6, I7
#[test]
fn an_approval_answers_a_question_and_lifts_no_block() {
    let approval = ApprovalId(Uuid::from_u128(3));
    let effects = CallEffects::unknown();
    let call = CallToJudge { approval: Some(approval), ..Asked::call("t", &effects) };
    let asked = Asked::new(profile(AutonomyLevel::Supervised));
    assert_eq!(
        asked.gate.evaluate(&call).decision,
        Access::Allowed(Authority::Approved { approval })
    );
    let mut blocking = profile(AutonomyLevel::Supervised);
    blocking.block_high_risk = true;
    assert_eq!(short(&Asked::new(blocking).gate.evaluate(&call).decision), "blocked");
    let readonly = Asked::new(profile(AutonomyLevel::Readonly));
    assert_eq!(short(&readonly.gate.evaluate(&call).decision), "blocked");
    // Where nothing asks, policy is the authority.
    let full = Asked::new(profile(AutonomyLevel::Full));
    assert_eq!(full.gate.evaluate(&call).decision, Access::Allowed(Authority::Policy));
}

// V-M19
#[test]
fn a_read_only_path_is_read_and_not_written_and_a_write_only_one_the_reverse() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ws = folder.path().join("ws");
    for sub in ["vendor", "outbox"] {
        fs::create_dir_all(ws.join(sub)).expect("a folder");
        fs::write(ws.join(sub).join("f"), "text").expect("a file");
    }
    symlink(ws.join("vendor"), ws.join("link")).expect("a link");
    let mut profile = self::profile(AutonomyLevel::Full);
    profile.read_only_paths = vec!["vendor".into()];
    profile.write_only_paths = vec!["outbox".into()];
    let gate = Gate::new(Arc::new(profile), &ws, &[]);
    let decide = |effects: CallEffects| short(&gate.evaluate(&Asked::call("t", &effects)).decision);
    let reads = |path: &str| CallEffects { reads: vec![path.into()], ..CallEffects::read_only() };
    let writes = |path: &str| CallEffects { writes: vec![path.into()], ..CallEffects::unknown() };
    for (path, read, write) in [
        ("vendor/f", "allowed", "blocked"),
        ("vendor/new", "allowed", "blocked"),
        ("link/f", "allowed", "blocked"),
        ("outbox/f", "blocked", "allowed"),
        ("notes", "allowed", "allowed"),
    ] {
        assert_eq!((decide(reads(path)), decide(writes(path))), (read, write), "{path}");
    }
    // The tool opens what it was given with the same rules.
    let closed = |effects: &CallEffects| gate.forbidden_paths(effects).to_vec();
    assert_eq!(closed(&writes("x")), [PathBuf::from("vendor")]);
    assert_eq!(closed(&reads("x")), [PathBuf::from("outbox")]);
    assert_eq!(closed(&CallEffects::read_only()), [PathBuf::from("outbox")]);
    let mut asks = self::profile(AutonomyLevel::Supervised);
    asks.read_only_paths = vec!["vendor".into()];
    asks.write_only_paths = vec!["outbox".into()];
    let gate = Gate::new(Arc::new(asks), &ws, &[]);
    let decide = |text: &str| short(&gate.evaluate(&Asked::call("t", &command(text))).decision);
    for (text, then) in [
        ("cat vendor/f", "allowed"),
        ("cat notes > vendor/f", "blocked"),
        ("touch vendor/f", "blocked"),
        ("rm -r .", "blocked"),
        ("cat outbox/f", "blocked"),
        ("ls > outbox/f", "asks"),
    ] {
        assert_eq!(decide(text), then, "{text}");
    }
}

// V-M11, A094: a file tool that writes what runs later is as heavy as the shell that does
#[test]
fn a_file_that_decides_what_runs_later_is_of_high_risk() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir_all(folder.path().join(".git/hooks")).expect("a folder");
    symlink(".git", folder.path().join("repo")).expect("a link");
    let mut profile = self::profile(AutonomyLevel::Supervised);
    profile.auto_approve = names(&["file_write"]);
    let gate = Gate::new(Arc::new(profile), folder.path(), &[]);
    let judge = |path: &str| {
        let mut effects = effects(Effects::Idempotent, Reach::Workspace);
        effects.writes = vec![path.into()];
        let found = gate.evaluate(&Asked::call("file_write", &effects));
        (short(&found.decision), found.risk)
    };
    for path in
        [".git/config", ".git/hooks/pre-commit", "repo/config", "a/.husky/x", ".envrc", "./.jq"]
    {
        assert_eq!(judge(path), ("asks", Risk::High), "{path}");
    }
    for path in ["notes", "src/git/config", ".gitignore", ".env"] {
        assert_eq!(judge(path), ("allowed", Risk::Medium), "{path}");
    }
}

// V-H1, V-M20, A099
#[test]
fn paths_outside_and_forbidden_paths_block_at_every_level() {
    for level in LEVELS {
        let mut profile = profile(level);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ws = folder.path().join("ws");
        fs::create_dir_all(ws.join("closed")).expect("a folder");
        symlink(ws.join("closed"), ws.join("link")).expect("a link");
        profile.forbidden_paths = vec![ws.join("closed")];
        let own = folder.path().join("ws/own.db");
        let gate = Gate::new(Arc::new(profile), &ws, std::slice::from_ref(&own));
        assert_eq!(gate.forbidden_paths(&CallEffects::unknown()).len(), 2);
        let decide = |path: &str| {
            let reads = vec![path.to_owned()];
            let effects = CallEffects { reads, ..CallEffects::read_only() };
            gate.evaluate(&Asked::call("t", &effects)).decision
        };
        for (path, key) in [
            ("closed/x", "`forbidden_paths`"),
            ("link/x", "`forbidden_paths`"),
            ("own.db", "`forbidden_paths`"),
            ("../x", "`workspace`"),
            ("/etc/passwd", "`workspace`"),
        ] {
            let access = decide(path);
            assert_eq!(short(&access), "blocked", "{path} {level:?}");
            assert!(reason(access).contains(key), "{path}");
        }
        // That nothing is there is the tool's to say.
        assert_eq!(short(&decide("nothing/here")), "allowed");
    }
}

// A092: every refusal names its rule and key
#[test]
fn every_reason_names_its_key() {
    type Change = fn(&mut RiskProfile);
    let cases: [(Change, &str); 5] = [
        (|p| p.excluded_tools = names(&["t"]), "`excluded_tools`"),
        (|p| p.allowed_tools = Some(vec![]), "`allowed_tools`"),
        (|p| p.level = AutonomyLevel::Readonly, "`level`"),
        (|p| p.block_high_risk = true, "`block_high_risk`"),
        (|p| p.always_ask = names(&["t"]), "`always_ask`"),
    ];
    for (change, key) in cases {
        let mut profile = profile(AutonomyLevel::Supervised);
        change(&mut profile);
        let reason = reason(Asked::new(profile).ask("t", &CallEffects::unknown()));
        assert!(reason.contains(key), "{key}: {reason}");
    }
}

// A095: what the network rules close is blocked at every level, and nobody is asked
#[test]
fn an_address_that_is_closed_is_blocked_at_every_level() {
    for level in LEVELS {
        let mut profile = profile(level);
        profile.network.deny_hosts = names(&["*.example.net"]);
        let asked = Asked::new(profile);
        for (url, key) in [
            ("http://169.254.169.254/", "`network.allow_private`"),
            ("http://0x7f.1/", "`network.allow_private`"),
            ("https://a.example.net/", "`network.deny_hosts`"),
            ("https://example.org:22/", "`network.allow_ports`"),
            ("file:///etc/passwd", "`file`"),
        ] {
            for repeats in [Effects::ReadOnly, Effects::Once] {
                let access = asked.ask("t", &connects(repeats, url));
                assert_eq!(short(&access), "blocked", "{level:?} {url}");
                assert!(reason(access).contains(key), "{url}");
            }
        }
    }
}

// V-M10, V-M12, V-M13, V-M14, V-M15, A089, A091, A092
#[test]
fn shell_commands_run_ask_or_are_blocked_by_list_and_level() {
    use AutonomyLevel::{Full, Readonly, Supervised};
    let cases: [(AutonomyLevel, Option<&[&str]>, &str, &str); 44] = [
        (Supervised, None, "ls", "allowed"),
        (Supervised, None, "ls; id", "allowed"),
        (Supervised, None, "touch x", "asks"),
        (Supervised, None, "git reset", "asks"),
        (Supervised, None, "mytool", "asks"),
        (Full, None, "ls; id", "allowed"),
        (Full, None, "touch x", "allowed"),
        (Full, None, "git reset", "allowed"),
        (Full, None, "mytool $X", "allowed"),
        (Readonly, None, "ls", "blocked"),
        (Supervised, Some(&["ls"]), "ls -la", "allowed"),
        (Full, Some(&["ls"]), "ls -la", "allowed"),
        (Readonly, Some(&["ls"]), "ls", "blocked"),
        (Supervised, Some(&["ls"]), "id", "blocked"),
        (Full, Some(&["ls"]), "id", "blocked"),
        (Supervised, Some(&["ls"]), "/tmp/ls", "blocked"),
        (Supervised, Some(&["ls"]), "./ls", "blocked"),
        (Supervised, Some(&["ls"]), "ls | sh", "blocked"),
        (Supervised, Some(&["ls"]), "ls $(id)", "blocked"),
        (Supervised, Some(&["ls"]), "ls\u{200b}", "asks"),
        (Full, Some(&["ls"]), "ls; id", "blocked"),
        (Full, Some(&["ls"]), "$X", "asks"),
        (Readonly, Some(&["ls"]), "ls; id", "blocked"),
        (Supervised, Some(&[]), "ls", "blocked"),
        (Full, Some(&[]), "ls; id", "blocked"),
        (Supervised, Some(&["*"]), "date; id", "allowed"),
        (Supervised, Some(&["*"]), "sh -c id", "allowed"),
        (Supervised, Some(&["*"]), "\"rm\" -rf x", "asks"),
        (Supervised, Some(&["*"]), "'curl' https://example.com", "asks"),
        (Supervised, Some(&["curl"]), "curl https://example.com", "asks"),
        (Full, Some(&["curl"]), "curl https://example.com", "allowed"),
        (Supervised, Some(&["mytool"]), "mytool", "asks"),
        (Full, Some(&["mytool"]), "mytool", "allowed"),
        (Full, Some(&["*"]), "date", "allowed"),
        (Full, Some(&["*"]), "nohup firefox &", "allowed"),
        (Full, Some(&["*"]), "ls x 2>/dev/null", "allowed"),
        (Full, Some(&["*"]), "cat /etc/passwd", "allowed"),
        (Full, Some(&["*"]), "cat /proc/self/environ", "blocked"),
        (Supervised, Some(&["cat"]), "cat /etc/passwd", "blocked"),
        (Supervised, Some(&["cat"]), "cat ../x", "blocked"),
        (Supervised, Some(&["cat"]), "cat --file=/etc/x", "blocked"),
        (Full, Some(&["cat"]), "cat /etc/passwd", "blocked"),
        (Supervised, Some(&["cat"]), "cat notes/a.md", "allowed"),
        (Supervised, Some(&["echo"]), "echo 'a; b'", "allowed"),
    ];
    for (level, list, text, expected) in cases {
        let mut profile = profile(level);
        profile.allowed_commands = list.map(names);
        let access = Asked::new(profile).ask("shell", &command(text));
        assert_eq!(short(&access), expected, "{level:?} {list:?} {text:?}: {access:?}");
        if expected == "blocked" {
            let reason = reason(access);
            let keys = ["`allowed_commands`", "`level`", "`workspace`", "`forbidden_paths`"];
            assert!(keys.iter().any(|key| reason.contains(key)), "{reason}");
        }
    }
}

// V-M10, V-M12, V-M13
#[test]
fn the_risk_of_a_command_is_that_of_the_heaviest_thing_it_does() {
    let asked = Asked::new(RiskProfile {
        allowed_commands: Some(names(&["*", "mytool"])),
        ..profile(AutonomyLevel::Supervised)
    });
    for (text, risk) in [
        ("ls", Risk::Low),
        ("ls | wc -l", Risk::Low),
        ("touch x", Risk::Medium),
        ("git reset", Risk::Medium),
        ("git commit -m x", Risk::Medium),
        ("mkdir x", Risk::Medium),
        ("ls > x", Risk::Medium),
        ("mytool x", Risk::Medium),
        ("ls; touch x; curl https://example.com", Risk::High),
        ("\"rm\" -rf x", Risk::High),
        ("othertool", Risk::High),
        ("$X", Risk::High),
    ] {
        let effects = command(text);
        assert_eq!(asked.gate.evaluate(&Asked::call("shell", &effects)).risk, risk, "{text}");
    }
    let mut profile = profile(AutonomyLevel::Supervised);
    profile.auto_approve = names(&["shell"]);
    let asked = Asked::new(profile);
    for (text, expected) in [("touch x", "allowed"), ("rm x", "asks"), ("ls > $X", "asks")] {
        assert_eq!(short(&asked.ask("shell", &command(text))), expected, "{text}");
    }
}

// V-H4
#[test]
fn always_ask_holds_for_listed_commands_and_block_high_risk_for_others() {
    let mut asking = profile(AutonomyLevel::Full);
    asking.allowed_commands = Some(names(&["*"]));
    asking.always_ask = names(&["shell"]);
    assert_eq!(short(&Asked::new(asking).ask("shell", &command("date"))), "asks");
    let mut blocking = profile(AutonomyLevel::Supervised);
    blocking.allowed_commands = Some(names(&["date"]));
    blocking.block_high_risk = true;
    let asked = Asked::new(blocking);
    assert_eq!(short(&asked.ask("shell", &command("date"))), "allowed");
    assert_eq!(short(&asked.ask("shell", &command("date; id"))), "blocked");
}

// V-M15, V-M17, A099
#[test]
fn a_command_that_writes_out_a_forbidden_path_is_blocked_at_every_level() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ws = folder.path().join("ws");
    fs::create_dir_all(ws.join("sub")).expect("a folder");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder");
    fs::write(data.join("token"), "t").expect("a file");
    symlink(&data, ws.join("link")).expect("a link");
    let mut profile = profile(AutonomyLevel::Full);
    profile.allowed_commands = Some(names(&["*"]));
    let gate = Gate::new(Arc::new(profile), &ws, std::slice::from_ref(&data));
    let decide = |text: &str, reads: &[&str]| {
        let effects = CallEffects { reads: names(reads), ..command(text) };
        gate.evaluate(&Asked::call("shell", &effects)).decision
    };
    let absolute = format!("cat <{}/token|wc", data.display());
    for text in [
        &absolute,
        "cat ../data/token",
        "cat link/token",
        "tar cf x --directory=link",
        "tar -Clink x",
    ] {
        assert_eq!(short(&decide(text, &[])), "blocked", "{text}");
    }
    assert_eq!(short(&decide("cat ../../data/token", &["sub"])), "blocked");
    assert_eq!(short(&decide("cat ../sub/x", &["sub"])), "allowed");
}

// V-H5: a grant for the agent holds in its other conversations, a revoked one nowhere
#[test]
fn how_far_a_grant_holds_is_its_scope() {
    let effects = effects(Effects::Once, Reach::Outside);
    let asked = Asked::new(profile(AutonomyLevel::Supervised));
    let wide = Grant { scope: GrantScope::Agent, ..grant() };
    let elsewhere = CallToJudge {
        conversation_id: ConversationId(Uuid::max()),
        grant: Some(&wide),
        ..Asked::call("t", &effects)
    };
    assert_eq!(short(&asked.gate.evaluate(&elsewhere).decision), "allowed");
    let stranger = AgentName::new("other");
    let foreign = CallToJudge { agent: &stranger, ..elsewhere };
    assert_eq!(short(&asked.gate.evaluate(&foreign).decision), "asks");
    let revoked = Grant { revoked_at: Some(Timestamp::UNIX_EPOCH), ..wide.clone() };
    let taken_back = CallToJudge { grant: Some(&revoked), ..elsewhere };
    assert_eq!(short(&asked.gate.evaluate(&taken_back).decision), "asks");
}

// A096
#[test]
fn what_could_carry_data_out_asks_once_the_conversation_holds_content_from_outside() {
    let mut listed = profile(AutonomyLevel::Supervised);
    listed.auto_approve = names(&["t"]);
    // A listed program that isn't known is of medium risk.
    listed.allowed_commands = Some(names(&["cat", "publish"]));
    let memory =
        CallEffects { carries_out: true, ..effects(Effects::Idempotent, Reach::Workspace) };
    let fetch = CallEffects { carries_out: true, ..CallEffects::read_only() };
    let cases = [
        (memory, "asks"),
        (fetch, "asks"),
        (command("publish notes.txt"), "asks"),
        (command("cat notes.txt"), "allowed"),
        (CallEffects::read_only(), "allowed"),
        (effects(Effects::Once, Reach::Workspace), "allowed"),
    ];
    for (effects, then) in cases {
        let asked = Asked::new(listed.clone());
        let clean = Asked::call("t", &effects);
        assert_eq!(short(&asked.gate.evaluate(&clean).decision), "allowed", "{effects:?}");
        let tainted = CallToJudge { tainted: Some("web_fetch"), ..clean };
        let access = asked.gate.evaluate(&tainted).decision;
        assert_eq!(short(&access), then, "{effects:?}");
        if then == "asks" {
            // A person's own word about exactly this call still counts.
            let given = grant();
            let granted = CallToJudge { grant: Some(&given), ..tainted };
            assert_eq!(short(&asked.gate.evaluate(&granted).decision), "allowed");
            assert!(reason(access).contains("`web_fetch`"));
        }
        let full = Asked::new(RiskProfile { level: AutonomyLevel::Full, ..listed.clone() });
        assert_eq!(short(&full.gate.evaluate(&tainted).decision), "allowed", "{effects:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    // V-H2
    #[test]
    fn readonly_lets_nothing_through_that_changes_things(which in 0_usize..9, lists in any::<[bool; 4]>()) {
        let (effects, risk) = every_effect().swap_remove(which);
        let [auto, block, always, granted] = lists;
        let mut profile = profile(AutonomyLevel::Readonly);
        if auto { profile.auto_approve = names(&["t"]); }
        if always { profile.always_ask = names(&["t"]); }
        profile.block_high_risk = block;
        let grant = grant();
        let call = CallToJudge {
            grant: granted.then_some(&grant),
            approval: granted.then_some(ApprovalId(Uuid::nil())),
            ..Asked::call("t", &effects)
        };
        let blocked = matches!(Asked::new(profile).gate.evaluate(&call).decision, Access::Blocked(_));
        prop_assert_eq!(blocked, risk != Risk::Low);
    }
}
