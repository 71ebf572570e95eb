//! What a child may have, field by field.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rookery_messages::delegation::TaskState;
use rookery_messages::settings::{AutonomyLevel, NetworkSettings, RateLimit, RiskProfile};
use rookery_messages::turn::{Outcome, TurnState};
use serde_json::{Value, json};

use super::policy::{Powers, check};
use super::request::Request;

struct Policy {
    profile: RiskProfile,
    tools: BTreeSet<String>,
    workspace: PathBuf,
    hooks: BTreeSet<String>,
    max_iterations: u32,
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Policy {
    fn new() -> Self {
        let profile = RiskProfile {
            level: AutonomyLevel::Supervised,
            auto_approve: list(&["write"]),
            always_ask: list(&["edit"]),
            allowed_commands: Some(list(&["ls", "cat"])),
            forbidden_paths: vec![PathBuf::from("/w/secret")],
            read_only_paths: vec![PathBuf::from("/w/vendor")],
            write_only_paths: vec![PathBuf::from("/w/outbox")],
            block_high_risk: true,
            rate_limits: [("read".to_owned(), RateLimit { per_minute: 5 })].into(),
            network: NetworkSettings {
                allow_hosts: Some(list(&["example.org"])),
                deny_hosts: list(&["bad.example.org"]),
                ..NetworkSettings::default()
            },
            ..RiskProfile::default()
        };
        Self {
            profile,
            tools: set(&["read", "write", "edit"]),
            workspace: PathBuf::from("/w"),
            hooks: set(&["audit"]),
            max_iterations: 10,
        }
    }

    fn powers(&self) -> Powers<'_> {
        Powers {
            profile: &self.profile,
            tools: &self.tools,
            workspace: Path::new(&self.workspace),
            hooks: &self.hooks,
            max_iterations: self.max_iterations,
        }
    }
}

fn violated(change: impl FnOnce(&mut Policy)) -> Option<&'static str> {
    let (parent, mut child) = (Policy::new(), Policy::new());
    change(&mut child);
    check(&parent.powers(), &child.powers()).err().map(|violation| violation.field)
}

// V-M29
#[test]
fn a_policy_that_is_broader_in_any_field_is_refused_by_the_name_of_the_field() {
    assert_eq!(violated(|c| c.profile.level = AutonomyLevel::Full), Some("level"));
    assert_eq!(violated(|c| c.tools = set(&["read", "shell"])), Some("tools"));
    let commands = "allowed_commands";
    assert_eq!(violated(|c| c.profile.allowed_commands = None), Some(commands));
    assert_eq!(
        violated(|c| c.profile.allowed_commands = Some(list(&["ls", "rm"]))),
        Some(commands)
    );
    assert_eq!(
        violated(|c| c.profile.auto_approve = list(&["write", "read"])),
        Some("auto_approve")
    );
    assert_eq!(violated(|c| c.profile.always_ask.clear()), Some("always_ask"));
    assert_eq!(violated(|c| c.profile.forbidden_paths.clear()), Some("forbidden_paths"));
    assert_eq!(violated(|c| c.profile.read_only_paths.clear()), Some("read_only_paths"));
    assert_eq!(violated(|c| c.profile.write_only_paths.clear()), Some("write_only_paths"));
    assert_eq!(violated(|c| c.profile.block_high_risk = false), Some("block_high_risk"));
    assert_eq!(violated(|c| c.profile.rate_limits.clear()), Some("rate_limits"));
    let network = |change: fn(&mut NetworkSettings)| violated(|c| change(&mut c.profile.network));
    assert_eq!(network(|n| n.allow_hosts = None), Some("network.allow_hosts"));
    assert_eq!(network(|n| n.deny_hosts.clear()), Some("network.deny_hosts"));
    assert_eq!(network(|n| n.allow_ports.push(22)), Some("network.allow_ports"));
    assert_eq!(network(|n| n.allow_private.push("::1".into())), Some("network.allow_private"));
    assert_eq!(violated(|c| c.hooks.clear()), Some("hooks"));
    assert_eq!(violated(|c| c.workspace = PathBuf::from("/elsewhere")), Some("workspace"));
    assert_eq!(violated(|c| c.max_iterations = 11), Some("max_iterations"));
}

// V-M29
#[test]
fn a_policy_that_is_equal_or_narrower_is_fine() {
    assert_eq!(violated(|_| ()), None);
    let narrower = violated(|child| {
        child.profile.level = AutonomyLevel::Readonly;
        child.tools = set(&["read"]);
        child.profile.allowed_commands = Some(Vec::new());
        child.profile.auto_approve.clear();
        // What it can't call need not be asked about.
        child.profile.always_ask = list(&["write"]);
        // Closed altogether is more than closed to writing.
        child.profile.read_only_paths.clear();
        child.profile.forbidden_paths = vec![PathBuf::from("/w")];
        child.profile.rate_limits.insert("read".to_owned(), RateLimit { per_minute: 1 });
        child.profile.network.allow_hosts = Some(Vec::new());
        child.profile.network.deny_hosts.push("worse.example.org".to_owned());
        child.profile.network.allow_ports.clear();
        child.hooks = set(&["audit", "more"]);
        child.workspace = PathBuf::from("/w/below");
        child.max_iterations = 1;
    });
    assert_eq!(narrower, None);
}

#[test]
fn a_request_names_the_field_that_is_wrong_and_takes_null_as_absent() {
    let read = |value: Value| {
        let Value::Object(arguments) = value else { panic!("no object") };
        Request::read(&arguments)
    };
    let request = read(json!({"task": "look", "agent": null, "level": "readonly"})).unwrap();
    assert_eq!((request.agent, request.level), (None, Some(AutonomyLevel::Readonly)));
    for (arguments, field) in [
        (json!({}), "task"),
        (json!({"task": "  "}), "task"),
        (json!({"task": "x".repeat(70_000)}), "task"),
        (json!({"task": "look", "max_iterations": 0}), "max_iterations"),
        (json!({"task": "look", "rights": "all"}), "rights"),
    ] {
        let refused = read(arguments).unwrap_err();
        assert!(refused.contains(&format!("`{field}`")), "{refused}");
    }
}

// T24
#[test]
fn a_tasks_state_follows_from_its_turn() {
    use TaskState::{Cancelled, Done, Failed, Lost, Running};
    for (state, outcome, error, task) in [
        (TurnState::Queued, None, None, Running),
        (TurnState::Running, None, None, Running),
        (TurnState::WaitingApproval, None, None, Running),
        (TurnState::Ended, Some(Outcome::Answered), None, Done),
        (TurnState::Ended, Some(Outcome::Failed), Some("iteration_cap"), Failed),
        (TurnState::Ended, Some(Outcome::Failed), Some("crashed"), Lost),
        (TurnState::Ended, Some(Outcome::Failed), Some("lost"), Lost),
        (TurnState::Ended, Some(Outcome::Cancelled), Some("cancelled"), Cancelled),
    ] {
        assert_eq!(TaskState::of(state, outcome, error), task, "{state:?} {outcome:?} {error:?}");
    }
}
