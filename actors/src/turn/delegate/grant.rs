//! What a child gets: decided once, when it is handed on, and applied whenever it is begun.

use std::collections::BTreeSet;
use std::sync::Arc;

use rookery_messages::delegation::{ChildGrant, ChildOf};
use rookery_messages::ids::AgentName;
use rookery_messages::settings::RiskProfile;

use super::policy::{self, Powers, Violation, lower};
use super::request::Request;
use super::{Delegator, NAMES};
use crate::tool::mcp::SEARCH_TOOL;
use crate::turn::bundle::{AgentBundle, TurnDeps};
use crate::turn::narrowing::Narrowing;

impl Delegator {
    /// The agent that is to do it, and what it is granted. An error is what the model reads.
    pub(super) fn grant(&self, request: &Request) -> Result<(AgentName, ChildGrant), String> {
        let limits = &self.bundle.runtime.delegation;
        let depth = self.depth() + 1;
        if depth > limits.max_depth {
            return Err(format!(
                "not handed on: {} turns stand above this one already, and `max_depth` is {}; do it in \
                 this turn",
                self.depth(),
                limits.max_depth
            ));
        }
        let own = &self.bundle;
        let agent = match &request.agent {
            Some(name) if name.as_str() != own.name.as_str() => {
                let found = self.deps.agents.get(&AgentName::new(name.as_str()));
                found.cloned().ok_or_else(|| {
                    format!(
                        "not handed on: field `agent` names `{name}`, and there is no such agent"
                    )
                })?
            }
            _ => Arc::clone(own),
        };
        let names: BTreeSet<String> = self.tool_names().into_iter().collect();
        let same = agent.name == own.name;
        let tools = match (&request.tools, same) {
            (Some(tools), _) => {
                let lacks = tools.iter().find(|name| !same && !has(&agent, name));
                if let Some(name) = lacks {
                    return Err(format!(
                        "not handed on: field `tools` names `{name}`, which agent `{}` does not have",
                        agent.name.as_str()
                    ));
                }
                tools.iter().cloned().collect()
            }
            // What is handed over by name need not be searched for.
            (None, true) => names.iter().filter(|name| *name != SEARCH_TOOL).cloned().collect(),
            (None, false) => all_of(&agent),
        };
        let profile = asked(agent.gate.profile(), request);
        let cap = own.runtime.max_tool_iterations;
        let max_iterations = request.max_iterations.unwrap_or_else(|| {
            limits.max_iterations.min(cap).min(agent.runtime.max_tool_iterations)
        });
        let (above, below) = (hooks(own), hooks(&agent));
        let parent = Powers {
            profile: own.gate.profile(),
            tools: &names,
            workspace: own.gate.workspace(),
            hooks: &above,
            max_iterations: cap,
        };
        let child = Powers {
            profile: &profile,
            tools: &tools,
            workspace: agent.gate.workspace(),
            hooks: &below,
            max_iterations,
        };
        policy::check(&parent, &child)
            .map_err(|violation: Violation| format!("not handed on: {violation}"))?;
        let grant = ChildGrant {
            tools,
            level: profile.level,
            allowed_commands: profile.allowed_commands,
            forbidden_paths: profile.forbidden_paths,
            max_iterations,
            tainted: self.tainted.lock().clone(),
            allowance: self.purse.left(),
            payers: self.payers(),
        };
        Ok((agent.name.clone(), grant))
    }
}

/// The agent's profile with what the call takes away of it, or would add to it.
fn asked(profile: &RiskProfile, request: &Request) -> RiskProfile {
    let mut profile = profile.clone();
    profile.level = request.level.unwrap_or(profile.level);
    if let Some(commands) = &request.allowed_commands {
        profile.allowed_commands = Some(commands.clone());
    }
    profile.forbidden_paths.extend(request.forbidden_paths.iter().cloned());
    profile
}

fn has(agent: &AgentBundle, name: &str) -> bool {
    all_of(agent).contains(name)
}

/// The tools an agent has outside of any turn.
fn all_of(agent: &AgentBundle) -> BTreeSet<String> {
    let granted = agent.mcp.tools().into_iter().map(|granted| granted.tool.name().to_owned());
    let handing_on = NAMES.iter().filter(|_| agent.runtime.delegation.max_depth > 0);
    let names = agent.tools.names().map(str::to_owned).chain(granted);
    names
        .chain(handing_on.map(|name| (*name).to_owned()))
        .filter(|name| agent.admits(name))
        .collect()
}

fn hooks(agent: &AgentBundle) -> BTreeSet<String> {
    agent.hooks.names().map(str::to_owned).collect()
}

/// The agent a child turn runs as: what it was granted, and no more than its agent has by now. An error
/// says why it can't run.
pub(crate) fn granted(
    agent: &AgentBundle,
    of: &ChildOf,
    deps: &TurnDeps,
) -> Result<AgentBundle, String> {
    let people_of = deps.agents.get(&of.people_of).ok_or_else(|| {
        format!(
            "the agent `{}` that handed it on is not configured any more",
            of.people_of.as_str()
        )
    })?;
    let grant = &of.grant;
    let mut profile = RiskProfile::clone(agent.gate.profile());
    profile.level = lower(profile.level, grant.level);
    profile.allowed_commands = match (&grant.allowed_commands, profile.allowed_commands.take()) {
        (Some(granted), Some(own)) if own.iter().any(|command| command == "*") => {
            drop(own);
            Some(granted.clone())
        }
        (Some(granted), Some(own)) => {
            let any = granted.iter().any(|command| command == "*");
            Some(own.into_iter().filter(|command| any || granted.contains(command)).collect())
        }
        (granted, own) => granted.clone().or(own),
    };
    let more = grant.forbidden_paths.iter().filter(|path| !profile.forbidden_paths.contains(path));
    let more: Vec<_> = more.cloned().collect();
    profile.forbidden_paths.extend(more);
    let mut runtime = agent.runtime.clone();
    runtime.max_tool_iterations = runtime.max_tool_iterations.min(grant.max_iterations);
    Ok(AgentBundle {
        gate: agent.gate.under(profile),
        narrowing: agent.narrowing.and(&Narrowing::handed(grant.tools.iter().cloned())),
        // Its people are those of the turn above all its parents.
        channels: Arc::clone(&people_of.channels),
        approval_route: people_of.approval_route.clone(),
        approval_inherits: people_of.approval_inherits,
        runtime,
        ..agent.clone()
    })
}
