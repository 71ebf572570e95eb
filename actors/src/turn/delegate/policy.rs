//! A child's policy held against its parent's, field by field (V-M29).

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use rookery_messages::settings::{AutonomyLevel, NetworkSettings, RiskProfile};

/// A field in which the child would have more than its parent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Violation {
    /// The field's name, as in the configuration or the call's arguments.
    pub(super) field: &'static str,
    /// What is broader.
    pub(super) why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the child's `{}` is broader than its parent's: {}", self.field, self.why)
    }
}

fn broader(field: &'static str, why: impl Into<String>) -> Result<(), Violation> {
    Err(Violation { field, why: why.into() })
}

/// What a turn may do, as far as it can be handed on.
#[derive(Clone, Copy)]
pub(super) struct Powers<'a> {
    pub(super) profile: &'a RiskProfile,
    pub(super) tools: &'a BTreeSet<String>,
    pub(super) workspace: &'a Path,
    pub(super) hooks: &'a BTreeSet<String>,
    pub(super) max_iterations: u32,
}

/// Whether `child` is equal to `parent` or narrower, in every field.
pub(super) fn check(parent: &Powers<'_>, child: &Powers<'_>) -> Result<(), Violation> {
    let (above, below) = (parent.profile, child.profile);
    if rank(below.level) > rank(above.level) {
        let why = format!("{} over {}", word(below.level), word(above.level));
        return broader("level", why);
    }
    more("tools", child.tools.iter(), |name| parent.tools.contains(*name))?;
    if let Some(allowed) = &above.allowed_commands
        && !allowed.iter().any(|command| command == "*")
    {
        let Some(own) = &below.allowed_commands else {
            return broader("allowed_commands", "it has no list, and its parent has one");
        };
        more("allowed_commands", own.iter(), |command| allowed.contains(*command))?;
    }
    if above.block_high_risk && !below.block_high_risk {
        return broader("block_high_risk", "its parent has it set");
    }
    more("auto_approve", below.auto_approve.iter(), |name| above.auto_approve.contains(*name))?;
    missing("always_ask", &above.always_ask, |name| {
        below.always_ask.contains(name) || !child.tools.contains(name)
    })?;
    missing("forbidden_paths", &above.forbidden_paths, |path| closed(path, below))?;
    missing("read_only_paths", &above.read_only_paths, |path| {
        closed(path, below) || below.read_only_paths.iter().any(|own| path.starts_with(own))
    })?;
    missing("write_only_paths", &above.write_only_paths, |path| {
        closed(path, below) || below.write_only_paths.iter().any(|own| path.starts_with(own))
    })?;
    missing("hooks", parent.hooks, |hook| child.hooks.contains(hook))?;
    if !child.workspace.starts_with(parent.workspace) {
        return broader("workspace", "it lies elsewhere");
    }
    for (tool, limit) in &above.rate_limits {
        if below.rate_limits.get(tool).is_none_or(|own| own.per_minute > limit.per_minute) {
            return broader("rate_limits", format!("`{tool}` may be called more often"));
        }
    }
    network(&above.network, &below.network)?;
    if child.max_iterations > parent.max_iterations {
        let why = format!("{} over {}", child.max_iterations, parent.max_iterations);
        return broader("max_iterations", why);
    }
    Ok(())
}

fn network(above: &NetworkSettings, below: &NetworkSettings) -> Result<(), Violation> {
    if let Some(hosts) = &above.allow_hosts {
        let Some(own) = &below.allow_hosts else {
            return broader("network.allow_hosts", "it has no list, and its parent has one");
        };
        more("network.allow_hosts", own.iter(), |host| hosts.contains(*host))?;
    }
    missing("network.deny_hosts", &above.deny_hosts, |host| below.deny_hosts.contains(host))?;
    let ports = &above.allow_ports;
    more("network.allow_ports", below.allow_ports.iter(), |port| ports.contains(*port))?;
    let private = &above.allow_private;
    more("network.allow_private", below.allow_private.iter(), |one| private.contains(*one))
}

fn closed(path: &Path, below: &RiskProfile) -> bool {
    below.forbidden_paths.iter().any(|closed| path.starts_with(closed))
}

/// Everything the child has must be there above.
fn more<'a, T: fmt::Display + ?Sized + 'a>(
    field: &'static str,
    own: impl Iterator<Item = &'a T>,
    above: impl Fn(&&'a T) -> bool,
) -> Result<(), Violation> {
    let extra: Vec<String> = own.filter(|one| !above(one)).map(|one| format!("`{one}`")).collect();
    if extra.is_empty() { Ok(()) } else { broader(field, format!("{} more", extra.join(", "))) }
}

/// Every restriction from above must be there below.
fn missing<'a, T: fmt::Debug + 'a>(
    field: &'static str,
    above: impl IntoIterator<Item = &'a T>,
    kept: impl Fn(&'a T) -> bool,
) -> Result<(), Violation> {
    let gone: Vec<String> =
        above.into_iter().filter(|one| !kept(one)).map(|one| format!("{one:?}")).collect();
    if gone.is_empty() {
        Ok(())
    } else {
        broader(field, format!("its parent's {} is not in it", gone.join(", ")))
    }
}

fn rank(level: AutonomyLevel) -> u8 {
    match level {
        AutonomyLevel::Readonly => 0,
        AutonomyLevel::Supervised => 1,
        AutonomyLevel::Full => 2,
    }
}

pub(super) fn word(level: AutonomyLevel) -> &'static str {
    match level {
        AutonomyLevel::Readonly => "readonly",
        AutonomyLevel::Supervised => "supervised",
        AutonomyLevel::Full => "full",
    }
}

/// The narrower of two levels.
pub(super) fn lower(one: AutonomyLevel, other: AutonomyLevel) -> AutonomyLevel {
    if rank(one) <= rank(other) { one } else { other }
}
