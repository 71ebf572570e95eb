//! `rookery policy check`: what the gate says of one call, by the configuration alone.

use rookery_actors::policy::shell::Amid;
use std::path::PathBuf;
use std::sync::Arc;

use rookery_actors::policy::gate::{Access, CallToJudge};
use rookery_actors::runtime::system_world;
use rookery_actors::tool::builtin::builtin_registry;
use rookery_actors::tool::mcp::{SEARCH_TOOL, policy_name};
use rookery_messages::approval::Risk;
use rookery_messages::ids::{AgentName, ConversationId};
use rookery_messages::settings::Settings;
use rookery_messages::tool::CallEffects;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::config::nearest;
use crate::service::{builtin_names, gate, granted, handing_on, memory, workspace};

/// What the gate decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Allowed,
    /// A person has to decide.
    NeedsApproval,
    /// It can't run.
    Blocked,
}

/// A judged call, as it is printed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PolicyAnswer {
    /// The decision.
    pub decision: Verdict,
    /// How dangerous the call is.
    pub risk: Risk,
    /// Which rule decided.
    pub reason: String,
}

/// Judges a call of `tool` by `agent` with these arguments. Nothing is run, nobody is asked; standing
/// grants are not looked at.
pub fn policy_check(
    settings: &Settings,
    own_files: &[PathBuf],
    agent: &str,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Result<PolicyAnswer, PolicyCheckError> {
    let Some(agent_settings) = settings.agents.get(agent) else {
        return Err(PolicyCheckError::NoAgent(agent.to_owned()));
    };
    let world = system_world();
    let mut tools = builtin_registry(Arc::clone(&world.clock), None);
    memory::offer(settings, &mut tools, &world);
    let mcp = policy_name(tool, settings.mcp.servers.keys().map(String::as_str));
    let runtime = settings.runtime_profiles.get(&agent_settings.runtime_profile);
    let hands_on = runtime.is_none_or(|runtime| runtime.delegation.max_depth > 0);
    let blocked = |reason: String| {
        let (decision, risk) = (Verdict::Blocked, Risk::High);
        Ok(PolicyAnswer { decision, risk, reason })
    };
    let mut beside = None;
    let (name, effects) = match tools.resolve(tool) {
        Some((name, tool)) => (name, tool.effects(arguments)),
        // What it hands on is judged when that is done.
        None if handing_on(tool).is_some_and(|own| own == SEARCH_TOOL || hands_on) => {
            (tool, CallEffects::read_only())
        }
        None if handing_on(tool).is_some() => {
            let profile = &agent_settings.runtime_profile;
            return blocked(format!("runtime_profiles.{profile}.delegation.max_depth is 0"));
        }
        // Its server may say more of it while the service runs; nothing is known of it here.
        None if granted(settings, agent_settings, &mcp) => {
            let server = mcp.split_once("__").and_then(|(name, _)| settings.mcp.servers.get(name));
            beside = server.filter(|server| server.trust_annotations).map(|_| {
                "not asked here, its server may say that it only reads, which is trusted \
                 (trust_annotations): then the running service lets it run"
            });
            (mcp.as_str(), CallEffects::unknown())
        }
        None => {
            let names = builtin_names();
            let near = nearest(tool, names.iter().map(String::as_str)).unwrap_or_default();
            return blocked(format!("there is no tool `{tool}`; the nearest is `{near}`"));
        }
    };
    let workspace = workspace(agent, agent_settings);
    // Paths are judged against the real folder; the service would make it at its start too.
    std::fs::create_dir_all(&workspace).map_err(|error| {
        PolicyCheckError::NoWorkspace(agent.to_owned(), workspace.clone(), error)
    })?;
    let profile =
        settings.risk_profiles.get(&agent_settings.risk_profile).cloned().unwrap_or_default();
    let gate = gate(settings, profile, workspace, own_files);
    let judged = gate.evaluate(&CallToJudge {
        tool: name,
        effects: &effects,
        key: None,
        conversation_id: ConversationId(world.ids.next()),
        agent: &AgentName::new(agent),
        tainted: None,
        amid: Amid::Quiet,
        grant: None,
        approval: None,
        now: world.now(),
    });
    let (decision, reason) = match judged.decision {
        Access::Allowed(_) => (Verdict::Allowed, "the risk profile allows it".to_owned()),
        Access::NeedsApproval(reason) => (Verdict::NeedsApproval, reason),
        Access::Blocked(reason) => (Verdict::Blocked, reason),
    };
    let reason = match beside {
        Some(beside) => format!("{reason}; {beside}"),
        None => reason,
    };
    Ok(PolicyAnswer { decision, risk: judged.risk, reason })
}

/// Why a call can't be judged.
#[derive(Debug, thiserror::Error)]
pub enum PolicyCheckError {
    /// No such agent.
    #[error("there is no agent `{0}`; `rookery config show` lists them")]
    NoAgent(String),
    /// Paths are judged against the real folder.
    #[error("the workspace {} of agent `{}` can't be made: {}; check agents.{}.workspace", .1.display(), .0, .2, .0)]
    NoWorkspace(String, PathBuf, std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, load_text};

    fn check(text: &str, tool: &str) -> PolicyAnswer {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("w");
        let text = format!("[agents.home]\nworkspace = {workspace:?}\nmcp_bundles = ['b']\n{text}");
        let loaded = load_text(None, &text, &Environment::default()).unwrap();
        policy_check(&loaded.settings, &[], "home", tool, &Map::new()).unwrap()
    }

    const SERVER: &str = "[mcp.servers.t]\ncommand = 'x'\n[mcp_bundles.b]\nservers = ['t']\n";

    #[test]
    fn the_tools_of_a_turn_itself_are_known_and_what_is_none_has_a_nearest() {
        for tool in ["delegate", "spawn_subagent", "tasks", "tool_search", "memory_recall"] {
            assert_eq!(check(SERVER, tool).decision, Verdict::Allowed, "{tool}");
        }
        let off = format!("{SERVER}[runtime_profiles.default.delegation]\nmax_depth = 0\n");
        assert_eq!(check(&off, "delegate").decision, Verdict::Blocked);
        let answer = check(SERVER, "shel");
        assert!(answer.reason.ends_with("the nearest is `shell`"), "{answer:?}");
    }

    #[test]
    fn of_a_trusted_server_s_tool_it_is_said_what_cannot_be_known_here() {
        let trusted = SERVER.replace("command = 'x'", "command = 'x'\ntrust_annotations = true");
        let answer = check(&trusted, "t__add");
        assert_eq!(answer.decision, Verdict::NeedsApproval);
        assert!(answer.reason.contains("trust_annotations"), "{answer:?}");
        assert!(!check(SERVER, "t__add").reason.contains("trust_annotations"));
    }
}
