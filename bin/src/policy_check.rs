//! `rookery policy check`: what the gate says of one call, by the configuration alone.

use std::path::PathBuf;
use std::sync::Arc;

use rookery_actors::policy::gate::{Access, CallToJudge};
use rookery_actors::runtime::system_world;
use rookery_actors::tool::builtin::builtin_registry;
use rookery_actors::tool::mcp::policy_name;
use rookery_messages::approval::Risk;
use rookery_messages::ids::{AgentName, ConversationId};
use rookery_messages::settings::Settings;
use rookery_messages::tool::CallEffects;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::service::{gate, granted, memory, workspace};

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
    let (name, effects) = match tools.resolve(tool) {
        Some((name, tool)) => (name, tool.effects(arguments)),
        // Its server may say more of it while the service runs; nothing is known of it here.
        None if granted(settings, agent_settings, &mcp) => (mcp.as_str(), CallEffects::unknown()),
        None => {
            return Ok(PolicyAnswer {
                decision: Verdict::Blocked,
                risk: Risk::High,
                reason: format!("there is no tool `{tool}`"),
            });
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
        grant: None,
        approval: None,
        now: world.now(),
    });
    let (decision, reason) = match judged.decision {
        Access::Allowed(_) => (Verdict::Allowed, "the risk profile allows it".to_owned()),
        Access::NeedsApproval(reason) => (Verdict::NeedsApproval, reason),
        Access::Blocked(reason) => (Verdict::Blocked, reason),
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
