//! The access gate: `evaluate_tool_access` of every tool call (R10; DESIGN.md, section 4.6).
//!
//! Pure but for path look-ups. The turn asks it when a call is prepared and once more right before the
//! call starts, so that a setting, a link or a grant that changed meanwhile counts.

mod command;
#[cfg(test)]
mod tests;

use crate::policy::shell::Amid;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rookery_messages::approval::{Grant, Risk};
use rookery_messages::ids::{AgentName, ApprovalId, ConversationId};
use rookery_messages::settings::{AutonomyLevel, NetworkSettings, RiskProfile};
use rookery_messages::tool::{Authority, CallEffects, Effects, Reach};

use super::network::NetworkRules;
use super::paths::PathGate;
use super::shell::places::starts_later_at;
use super::taint::carries_out;
use command::CommandVerdict;

/// What the gate says of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Access {
    /// It runs, by this authority.
    Allowed(Authority),
    /// A person has to say yes. The reason names the rule and its key.
    NeedsApproval(String),
    /// It does not run, whoever says yes. The reason names the rule and its key.
    Blocked(String),
}

/// The gate's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessDecision {
    /// Whether it may run.
    pub decision: Access,
    /// How dangerous it is.
    pub risk: Risk,
    /// Whether a yes can stand for later: what it would run is told by the call and what a grant binds. Settings
    /// of a repository that name programs are not.
    pub bound: bool,
}

/// A call as the gate judges it.
#[derive(Clone, Copy, Debug)]
pub struct CallToJudge<'a> {
    /// The tool's resolved name (V-D17).
    pub tool: &'a str,
    /// What it would do.
    pub effects: &'a CallEffects,
    /// What a grant would have to name ([`super::cover::Cover::key`]); none: no grant can cover it.
    pub key: Option<&'a str>,
    /// The conversation it belongs to.
    pub conversation_id: ConversationId,
    /// The agent whose call it is.
    pub agent: &'a AgentName,
    /// The tool that brought content from outside into the conversation, if one did.
    pub tainted: Option<&'a str>,
    /// What other calls of its response may do meanwhile.
    pub amid: Amid,
    /// A standing grant that may cover it; the gate checks that it does.
    pub grant: Option<&'a Grant>,
    /// The request by which a person approved exactly this call, if one did. It answers a question; it
    /// lifts no block.
    pub approval: Option<ApprovalId>,
    /// Now: a grant ends.
    pub now: Timestamp,
}

/// One agent's gate.
#[derive(Clone, Debug)]
pub struct Gate {
    profile: Arc<RiskProfile>,
    workspace: PathBuf,
    closed: ClosedPaths,
    network: Arc<NetworkSettings>,
    rules: Arc<NetworkRules>,
}

impl Gate {
    /// A gate for an agent with this profile and workspace. `forbidden` are the service's own paths
    /// (configuration, data); those of the profile are added.
    pub fn new(
        profile: Arc<RiskProfile>,
        workspace: impl Into<PathBuf>,
        forbidden: &[PathBuf],
    ) -> Self {
        let workspace = workspace.into();
        let closed = ClosedPaths::new(&profile, forbidden);
        let network = Arc::new(profile.network.clone());
        let rules = Arc::new(NetworkRules::new(&network));
        Self { profile, workspace, closed, network, rules }
    }

    /// The paths that are closed to a call with these effects: what its context must carry.
    pub fn forbidden_paths(&self, effects: &CallEffects) -> Arc<[PathBuf]> {
        let runs = effects.command.is_some();
        // What a command reads and writes was judged word by word; its folder is only entered.
        // What only reads reads something, even if it names no path: a search takes the whole workspace.
        let reads = !effects.reads.is_empty() || effects.effects == Effects::ReadOnly;
        self.closed.to(!runs && reads, !runs && !effects.writes.is_empty())
    }

    /// Where its tools may connect to.
    pub fn network(&self) -> Arc<NetworkSettings> {
        Arc::clone(&self.network)
    }

    /// What the agent may do.
    pub fn profile(&self) -> &Arc<RiskProfile> {
        &self.profile
    }

    /// The agent's workspace.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The same gate under another profile. What was closed stays closed.
    pub fn under(&self, profile: RiskProfile) -> Self {
        Self::new(Arc::new(profile), self.workspace.clone(), &self.closed.to(false, false))
    }

    /// Whether the lists admit a tool at all: the filter of what a model is shown (V-D1, V-D2).
    pub fn admits(&self, tool: &str) -> bool {
        self.listed(tool).is_ok()
    }

    /// Whether calls of this tool ask whatever else admits them, grants included.
    pub fn always_asks(&self, tool: &str) -> bool {
        self.profile.always_ask.iter().any(|name| name == tool)
    }

    /// Judges a call. Looks paths up, so it may wait for the file system, for nothing else.
    pub fn evaluate(&self, call: &CallToJudge<'_>) -> AccessDecision {
        let mut found = Found { risk: risk(call.effects), bound: true };
        let decision = match self.judge(call, &mut found) {
            Ok(access) => access,
            Err(reason) => Access::Blocked(reason),
        };
        AccessDecision { decision, risk: found.risk, bound: found.bound }
    }

    fn judge(&self, call: &CallToJudge<'_>, found: &mut Found) -> Result<Access, String> {
        self.listed(call.tool)?;
        let open = |closed: Arc<[PathBuf]>| {
            PathGate::open(&self.workspace, &closed).map_err(|e| e.to_string())
        };
        let always = open(self.closed.to(false, false))?;
        // Opened only where they differ: every call passes here, twice.
        let (for_reading, for_writing) = match self.closed.depends_on_use() {
            true => {
                let reading = open(self.closed.to(true, false))?;
                (Some(reading), Some(open(self.closed.to(false, true))?))
            }
            false => (None, None),
        };
        let reading = for_reading.as_ref().unwrap_or(&always);
        let writing = for_writing.as_ref().unwrap_or(&always);
        if call.effects.writes.iter().any(|path| starts_later_at(writing, path)) {
            found.risk = Risk::High;
        }
        for (gate, paths) in [(reading, &call.effects.reads), (writing, &call.effects.writes)] {
            for path in paths {
                match gate.resolve(path) {
                    // What the file system refuses, the tool reports: that is no rule's business.
                    Ok(_) => {}
                    Err(e) if e.is_policy() => return Err(e.to_string()),
                    Err(_) => {}
                }
            }
        }
        for address in &call.effects.connects {
            self.rules.judge(address).map_err(|refusal| refusal.to_string())?;
        }
        let verdict = match &call.effects.command {
            Some(command) => {
                let gates = [&always, reading, writing];
                let judged =
                    self.judge_command(command, (&call.effects.reads, call.amid), gates)?;
                found.bound = judged.bound;
                found.risk = judged.verdict.risk();
                Some(judged.verdict)
            }
            None => None,
        };
        let changes = call.effects.effects != Effects::ReadOnly;
        if self.profile.level == AutonomyLevel::Readonly && (changes || found.risk > Risk::Low) {
            let what = if changes { "changes things" } else { "reaches out" };
            return Err(format!(
                "tool `{}` {what}, and the risk profile's `level` is readonly",
                call.tool
            ));
        }
        self.ask_or_run(call, *found, verdict)
    }

    /// What is left when nothing blocks: does it ask?
    fn ask_or_run(
        &self,
        call: &CallToJudge<'_>,
        found: Found,
        verdict: Option<CommandVerdict>,
    ) -> Result<Access, String> {
        let (tool, risk) = (call.tool, found.risk);
        let contains = |list: &[String]| list.iter().any(|name| name == tool);
        let always = self.always_asks(tool);
        let full = self.profile.level == AutonomyLevel::Full;
        let taint = call.tainted.filter(|_| !full && carries_out(call.effects)).map(|source| {
            format!(
                "the conversation holds content from outside (a result of `{source}`), and this call of \
                 `{tool}` could carry data out or change what later turns are told"
            )
        });
        let reason = match verdict {
            _ if always => Some(format!("tool `{tool}` is in `always_ask`")),
            Some(CommandVerdict::Asks(why)) => Some(why),
            Some(CommandVerdict::Unrestricted(_)) => None,
            // What admits it otherwise knows nothing of what the model has read.
            Some(CommandVerdict::ByRisk(..)) if risk > Risk::Low && taint.is_some() => taint,
            None if taint.is_some() => taint,
            _ if full || risk == Risk::Low => None,
            _ if risk == Risk::Medium && contains(&self.profile.auto_approve) => None,
            Some(CommandVerdict::ByRisk(risk, why)) => Some(format!(
                "{why}: {} risk, and the risk profile's `level` is supervised",
                risk.as_str()
            )),
            None => Some(format!(
                "tool `{tool}` is of {} risk, and the risk profile's `level` is supervised",
                risk.as_str()
            )),
        };
        let Some(reason) = reason else {
            return Ok(Access::Allowed(Authority::Policy));
        };
        // At level full nothing is asked for its risk alone, so there is nothing to block instead.
        if self.profile.block_high_risk && risk == Risk::High && !full {
            return Err(format!("{reason}, it is of high risk, and `block_high_risk` is set"));
        }
        if let Some(approval) = call.approval {
            return Ok(Access::Allowed(Authority::Approved { approval }));
        }
        match call.grant {
            Some(grant) if !always && found.bound && covers(grant, call) => {
                Ok(Access::Allowed(Authority::Granted { grant: grant.id }))
            }
            _ => Ok(Access::NeedsApproval(reason)),
        }
    }

    /// The lists of tools, on the resolved name.
    fn listed(&self, tool: &str) -> Result<(), String> {
        if self.profile.excluded_tools.iter().any(|name| name == tool) {
            return Err(format!("tool `{tool}` is in the risk profile's `excluded_tools`"));
        }
        match &self.profile.allowed_tools {
            Some(allowed) if !allowed.iter().any(|name| name == tool) => {
                Err(format!("tool `{tool}` is not in the risk profile's `allowed_tools`"))
            }
            _ => Ok(()),
        }
    }
}

/// What was found out about a call on the way.
#[derive(Clone, Copy)]
struct Found {
    risk: Risk,
    bound: bool,
}

/// The paths that are closed to calls that read, that write, that do both.
#[derive(Clone, Debug)]
struct ClosedPaths([Arc<[PathBuf]>; 4]);

impl ClosedPaths {
    fn new(profile: &RiskProfile, own: &[PathBuf]) -> Self {
        let list = |more: [&[PathBuf]; 2]| -> Arc<[PathBuf]> {
            let always = own.iter().chain(&profile.forbidden_paths);
            always.chain(more.into_iter().flatten()).cloned().collect()
        };
        let (readable, writable) = (&profile.read_only_paths, &profile.write_only_paths);
        Self([
            list([&[], &[]]),
            list([&[], writable]),
            list([readable, &[]]),
            list([readable, writable]),
        ])
    }

    /// Whether it makes a difference what a path is used for.
    fn depends_on_use(&self) -> bool {
        self.0[3].len() > self.0[0].len()
    }

    fn to(&self, reads: bool, writes: bool) -> Arc<[PathBuf]> {
        Arc::clone(&self.0[usize::from(reads) + 2 * usize::from(writes)])
    }
}

/// How dangerous a call with these effects is. An idempotent one that reaches outside is a network write. One
/// that reads from an address of the model's choice is no mere read: the address can carry data out.
fn risk(effects: &CallEffects) -> Risk {
    match (effects.effects, effects.reach) {
        (Effects::ReadOnly, _) if !effects.connects.is_empty() => Risk::Medium,
        (Effects::ReadOnly, _) => Risk::Low,
        (Effects::Idempotent | Effects::Once, Reach::Workspace) => Risk::Medium,
        (Effects::Idempotent | Effects::Once, Reach::Outside) => Risk::High,
    }
}

/// Whether a grant names exactly this call, here and now (V-H5).
fn covers(grant: &Grant, call: &CallToJudge<'_>) -> bool {
    grant.tool == call.tool
        && call.key == Some(grant.key.as_str())
        && grant.holds(call.conversation_id, call.agent, call.now)
}
