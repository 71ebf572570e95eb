//! Ready, with reasons; and alive.

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::tree::{ActorStatus, TreeNode};
use serde::Serialize;

use crate::inspect::{Inspector, word};
use crate::supervisor;

/// How long a permanent actor may have one message in hand before the tree counts as stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Ready if `Ok`; else the reason why not.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// How many members of a group the service needs to be ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// All.
    All,
    /// One, if there are any. The others are shown with their reasons.
    Any,
    /// None; they are shown only.
    None,
}

/// One component's standing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Component {
    /// Its name: `store`, `channels/telegram.main` …
    pub name: String,
    /// Whether it does its work.
    pub ready: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer of `/readyz`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Readiness {
    /// Whether the service can do its work.
    pub ready: bool,
    /// Its components.
    pub components: Vec<Component>,
}

/// The answer of `/livez`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Liveness {
    /// Whether the tree moves.
    pub alive: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

enum Source {
    /// One permanent actor.
    Actor(String),
    /// Each child below a path.
    Group(String, Needs),
    /// Something the tree doesn't show.
    Check(Check),
    /// The same, without a say.
    Shown(Check),
}

/// Knows the components. Built once at the start.
pub struct Health {
    inspector: Inspector,
    sources: Vec<(String, Source)>,
}

impl Health {
    /// Without components yet.
    pub fn new(inspector: Inspector) -> Self {
        Self { inspector, sources: Vec::new() }
    }

    /// The service needs the actor at `path`.
    #[must_use]
    pub fn actor(mut self, name: impl Into<String>, path: impl Into<String>) -> Self {
        self.sources.push((name.into(), Source::Actor(path.into())));
        self
    }

    /// The children of the actor at `path`, each a component `<name>/<segment>`.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>, path: impl Into<String>, needs: Needs) -> Self {
        self.sources.push((name.into(), Source::Group(path.into(), needs)));
        self
    }

    /// A check of something the tree doesn't show. Must not block.
    #[must_use]
    pub fn check(mut self, name: impl Into<String>, check: Check) -> Self {
        self.sources.push((name.into(), Source::Check(check)));
        self
    }

    /// As [`Health::check`], but only shown: the service is ready without it.
    #[must_use]
    pub fn shown(mut self, name: impl Into<String>, check: Check) -> Self {
        self.sources.push((name.into(), Source::Shown(check)));
        self
    }

    /// Whether the service can do its work, and if not, why.
    pub fn readiness(&self) -> Readiness {
        let root = self.inspector.snapshot().map(|snapshot| snapshot.root);
        let ready = root.as_ref().is_some_and(has_started);
        let mut answer = Readiness { ready, components: Vec::new() };
        for (name, source) in &self.sources {
            match source {
                Source::Actor(path) => {
                    let reason = match root.as_ref().and_then(|root| find(root, path)) {
                        Some(node) => trouble(node),
                        None => Some("not started".to_owned()),
                    };
                    answer.ready &= reason.is_none();
                    answer.components.push(component(name.clone(), reason));
                }
                Source::Group(path, needs) => {
                    let members = match root.as_ref().and_then(|root| find(root, path)) {
                        Some(node) => self.members(name, node),
                        None => vec![component(name.clone(), Some("not started".to_owned()))],
                    };
                    answer.ready &= match needs {
                        Needs::All => members.iter().all(|member| member.ready),
                        Needs::Any => {
                            members.is_empty() || members.iter().any(|member| member.ready)
                        }
                        Needs::None => true,
                    };
                    answer.components.extend(members);
                }
                Source::Check(check) => {
                    let reason = check().err();
                    answer.ready &= reason.is_none();
                    answer.components.push(component(name.clone(), reason));
                }
                Source::Shown(check) => {
                    answer.components.push(component(name.clone(), check().err()));
                }
            }
        }
        answer
    }

    /// Whether the tree moves: there is a root, and no permanent actor is stuck in a message.
    pub fn liveness(&self) -> Liveness {
        if self.inspector.snapshot().is_none() {
            return Liveness { alive: false, reason: Some("there is no root".to_owned()) };
        }
        let stuck = self.inspector.stuck(STUCK_AFTER);
        match stuck.iter().find(|stuck| stuck.permanent) {
            None => Liveness { alive: true, reason: None },
            Some(stuck) => Liveness {
                alive: false,
                reason: Some(format!(
                    "{} has {} in hand for {} s",
                    stuck.path,
                    stuck.in_hand.message,
                    stuck.in_hand.since_ms / 1_000
                )),
            },
        }
    }

    fn members(&self, name: &str, group: &TreeNode) -> Vec<Component> {
        // A group that is down itself has no members to show.
        if let Some(reason) = own_trouble(group) {
            return vec![component(name.to_owned(), Some(reason))];
        }
        let prefix = group.path.len() + 1;
        let member = |node: &TreeNode| {
            let segment = node.path.get(prefix..).unwrap_or(&node.path);
            component(format!("{name}/{segment}"), trouble(node))
        };
        let kept = group.children.iter().filter(|node| node.status != ActorStatus::Ended);
        let mut members: Vec<_> = kept.map(member).collect();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        members
    }
}

fn component(name: String, reason: Option<String>) -> Component {
    Component { name, ready: reason.is_none(), reason }
}

fn find<'a>(node: &'a TreeNode, path: &str) -> Option<&'a TreeNode> {
    if node.path == path {
        return Some(node);
    }
    let above = path.strip_prefix(&node.path).is_some_and(|rest| rest.starts_with('/'));
    if above { node.children.iter().find_map(|child| find(child, path)) } else { None }
}

/// Whether every supervisor of the tree has made its first starts. Until then parts may be missing that
/// nobody sees yet, whatever a group needs.
pub fn has_started(node: &TreeNode) -> bool {
    !is_beginning(node) && node.children.iter().all(has_started)
}

/// A supervisor starts its children with its first message.
fn is_beginning(node: &TreeNode) -> bool {
    let up = matches!(node.status, ActorStatus::Starting | ActorStatus::Idle | ActorStatus::Busy);
    node.kind == supervisor::KIND && node.generation <= 1 && up && node.handled == 0
}

/// Why an actor does not do its work: its own trouble, or that of a child it supervises.
fn trouble(node: &TreeNode) -> Option<String> {
    own_trouble(node).or_else(|| trouble_below(node))
}

/// Only supervised children count: what a session or connection starts comes and goes.
fn trouble_below(node: &TreeNode) -> Option<String> {
    if node.kind != supervisor::KIND {
        return None;
    }
    let kept = node.children.iter().filter(|child| child.status != ActorStatus::Ended);
    kept.into_iter().find_map(|child| match own_trouble(child) {
        Some(reason) => Some(format!("{}: {reason}", child.path)),
        None => trouble_below(child),
    })
}

fn own_trouble(node: &TreeNode) -> Option<String> {
    let status = word(node.status);
    match node.status {
        ActorStatus::Idle | ActorStatus::Busy if is_beginning(node) => {
            Some(word(ActorStatus::Starting).to_owned())
        }
        ActorStatus::Idle | ActorStatus::Busy => None,
        ActorStatus::Starting | ActorStatus::Stopping | ActorStatus::Paused => {
            Some(status.to_owned())
        }
        ActorStatus::Restarting | ActorStatus::Parked | ActorStatus::Ended => {
            Some(match &node.last_exit {
                Some(exit) => format!("{status} ({})", exit.text),
                None => status.to_owned(),
            })
        }
    }
}

#[cfg(test)]
mod tests;
