//! What a supervisor does about a child's end. Pure: the actor in [`crate::supervisor`] carries it out.

use std::collections::VecDeque;
use std::time::Duration;

use rookery_actors::runtime::Intent;
use rookery_messages::child::{Backoff, ChildPolicy, Exhausted, Restart, Strategy};
use rookery_messages::exit::{ExitReason, StopReason};
use tokio::time::Instant;

/// The restarts of one child so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    /// When each restart of the current window was decided.
    recent: VecDeque<Instant>,
    /// Restarts since it last was healthy: the backoff's exponent.
    streak: u32,
}

impl History {
    /// Restarts still counted.
    pub fn recent(&self) -> usize {
        self.recent.len()
    }

    /// Restarts since it last was healthy.
    pub fn streak(&self) -> u32 {
        self.streak
    }
}

/// One child as the decision sees it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its policy.
    pub policy: &'a ChildPolicy,
    /// It runs, or is about to: not parked, not forgotten.
    pub wanted: bool,
}

/// An end.
#[derive(Clone, Copy, Debug)]
pub struct Exit<'a> {
    /// Whose: an index into the members.
    pub child: usize,
    /// How.
    pub reason: &'a ExitReason,
    /// What an operator wanted of it.
    pub intent: Intent,
    /// How long this incarnation lived.
    pub lived: Duration,
}

/// Which children are stopped, and which are started again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// To be stopped first, the last started first. Never the child that ended.
    pub stop: Vec<usize>,
    /// To be started then, in order.
    pub start: Vec<usize>,
    /// Between the two.
    pub delay: Duration,
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Start it again, and whoever the strategy names.
    Restart(Plan),
    /// It stays failed, with its cause on show; siblings are untouched.
    Park,
    /// It was stopped on purpose; it stays so until an operator wants it back.
    Shelve,
    /// It is not needed any more.
    Forget,
    /// The supervisor ends as failed.
    Escalate,
    /// Its planned end is the supervisor's.
    Finish,
}

/// A decision, and the child's history after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// What to do.
    pub decision: Decision,
    /// What to remember of the child.
    pub history: History,
}

/// Decides about an end. `fraction` (`0.0..=1.0`) is the jitter.
///
/// An operator's restart starts it at once and counts for nothing. A stop on purpose (an operator's, or
/// the shutdown's) is not undone. A cause that a restart can't mend is not tried again. Everything else
/// counts against the child's intensity.
pub fn decide(
    strategy: Strategy,
    members: &[Member<'_>],
    history: &History,
    exit: &Exit<'_>,
    now: Instant,
    fraction: f64,
) -> Verdict {
    let unchanged = |decision| Verdict { decision, history: history.clone() };
    let Some(member) = members.get(exit.child) else { return unchanged(Decision::Forget) };
    let policy = member.policy;
    if exit.intent == Intent::Restart {
        return unchanged(Decision::Restart(plan(strategy, members, exit.child, Duration::ZERO)));
    }
    let on_purpose = is_on_purpose(exit.reason);
    if policy.significant && (on_purpose || *exit.reason == ExitReason::Finished) {
        return unchanged(Decision::Finish);
    }
    match policy.restart {
        Restart::Temporary => return unchanged(Decision::Forget),
        _ if on_purpose => return unchanged(Decision::Shelve),
        Restart::Transient if !exit.reason.is_abnormal() => return unchanged(Decision::Forget),
        Restart::Transient | Restart::Permanent => {}
    }
    let given_up = match policy.exhausted {
        Exhausted::Park => Decision::Park,
        Exhausted::Escalate => Decision::Escalate,
    };
    if exit.reason.is_permanent() {
        return unchanged(given_up);
    }
    let mut history = history.clone();
    if exit.lived >= policy.backoff.healthy_after {
        history.streak = 0;
    }
    let window = policy.intensity.window;
    history.recent.retain(|at| now.saturating_duration_since(*at) < window);
    if history.recent.len() >= usize::try_from(policy.intensity.restarts).unwrap_or(usize::MAX) {
        return Verdict { decision: given_up, history };
    }
    let delay = ceiling(&policy.backoff, history.streak).mul_f64(fraction.clamp(0.0, 1.0));
    history.recent.push_back(now);
    history.streak = history.streak.saturating_add(1);
    Verdict { decision: Decision::Restart(plan(strategy, members, exit.child, delay)), history }
}

fn is_on_purpose(reason: &ExitReason) -> bool {
    matches!(reason, ExitReason::Stopped { reason: StopReason::Operator(_) | StopReason::Shutdown })
}

/// The longest delay before the restart that follows `streak` others.
pub fn ceiling(backoff: &Backoff, streak: u32) -> Duration {
    // 2^32 times any delay is past any sensible maximum.
    let factor = 1_u32.checked_shl(streak).filter(|_| streak < 32).unwrap_or(u32::MAX);
    backoff.initial.saturating_mul(factor).min(backoff.max)
}

fn plan(strategy: Strategy, members: &[Member<'_>], child: usize, delay: Duration) -> Plan {
    let affected = |index: usize| match strategy {
        Strategy::OneForOne => false,
        Strategy::OneForAll => true,
        Strategy::RestForOne => index > child,
    };
    let siblings: Vec<usize> = (0..members.len())
        .filter(|&index| index != child && affected(index) && members[index].wanted)
        .collect();
    let start = (0..members.len())
        .filter(|&index| {
            index == child
                || (siblings.contains(&index)
                    && members[index].policy.restart != Restart::Temporary)
        })
        .collect();
    Plan { stop: siblings.into_iter().rev().collect(), start, delay }
}

/// How long a child gets to stop, when `left` remains for it and for the `others` after it.
///
/// Its own grace, if all of them fit; else its share, so that the first to be stopped doesn't use up
/// the time of the last, which is the one with most to lose.
pub fn stop_share(left: Duration, mine: Duration, others: Duration) -> Duration {
    let all = mine.saturating_add(others);
    if all <= left || all.is_zero() {
        return mine.min(left);
    }
    left.mul_f64(mine.as_secs_f64() / all.as_secs_f64()).min(left)
}

#[cfg(test)]
mod tests;
