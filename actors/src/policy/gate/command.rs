//! The gate's view of a shell command: what `allowed_commands`, the level and the risk make of it.

use rookery_messages::approval::Risk;
use rookery_messages::settings::AutonomyLevel;

use super::Gate;
use crate::policy::paths::PathGate;
use crate::policy::shell::{Amid, Rules, Weight, judge};

/// What stands against a command that nothing blocks.
#[derive(Debug)]
pub(super) enum CommandVerdict {
    /// Its risk decides, as for any tool. With it, what was found.
    ByRisk(Risk, String),
    /// It asks, at any level.
    Asks(String),
    /// Level full, and no list: it runs.
    Unrestricted(Risk),
}

/// A verdict, and whether a yes for later can be bound to what the command would run.
#[derive(Debug)]
pub(super) struct JudgedCommand {
    pub(super) verdict: CommandVerdict,
    pub(super) bound: bool,
}

impl CommandVerdict {
    /// How dangerous the command is.
    pub(super) fn risk(&self) -> Risk {
        match self {
            Self::ByRisk(risk, _) | Self::Unrestricted(risk) => *risk,
            Self::Asks(_) => Risk::High,
        }
    }
}

impl Gate {
    /// Judges a command by the gates of what it names, what it reads and what it writes. `bases` are the folders it
    /// starts in; `amid` says what else may go on. An error blocks.
    pub(super) fn judge_command(
        &self,
        command: &str,
        (bases, amid): (&[String], Amid),
        [always, paths, writing]: [&PathGate; 3],
    ) -> Result<JudgedCommand, String> {
        let bases: &[String] = if bases.is_empty() { &[String::new()] } else { bases };
        let allowed = self.profile.allowed_commands.as_deref();
        let found = judge(command, Rules { always, paths, writing, allowed, bases, amid });
        let any = allowed.is_none_or(|list| list.iter().any(|name| name == "*"));
        let full = self.profile.level == AutonomyLevel::Full;
        if found.weight == Weight::Closed {
            return Err(found.reason);
        }
        if allowed.is_some_and(<[String]>::is_empty) {
            return Err(
                "command not allowed: the risk profile's `allowed_commands` is empty; the \
                        operator has to name the commands that may run"
                    .to_owned(),
            );
        }
        let risk = match found.weight {
            Weight::Low => Risk::Low,
            Weight::Medium => Risk::Medium,
            _ => Risk::High,
        };
        let verdict = match found.weight {
            _ if any && full => CommandVerdict::Unrestricted(risk),
            Weight::Low | Weight::Medium | Weight::High => {
                CommandVerdict::ByRisk(risk, found.reason)
            }
            Weight::Unclear => CommandVerdict::Asks(match allowed {
                Some(_) => format!("{}, so `allowed_commands` can't admit it", found.reason),
                None => format!("{}, and the risk profile's `level` is supervised", found.reason),
            }),
            Weight::Refused | Weight::NotListed | Weight::Closed => return Err(found.reason),
        };
        Ok(JudgedCommand { verdict, bound: !found.unbound })
    }
}
