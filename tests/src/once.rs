//! Calls that must not be repeated: what their turn's journal says, held against what they did (I5).

use std::collections::HashMap;

use rookery_messages::ids::CallId;
use rookery_messages::journal::{JournalEntry, JournalKind};
use rookery_messages::tool::Effects;
use rookery_messages::turn::CallState;

/// What a journal says of one call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Life {
    effects: Effects,
    /// The attempts in which it began.
    starts: Vec<u32>,
    /// Its ends, with their attempts.
    ends: Vec<(u32, CallState)>,
}

fn lives(journal: &[JournalEntry]) -> HashMap<CallId, Life> {
    let mut lives: HashMap<CallId, Life> = HashMap::new();
    for entry in journal {
        match &entry.kind {
            JournalKind::CallPrepared { call, effects, .. } => {
                lives.entry(*call).or_default().effects = *effects;
            }
            JournalKind::CallStarted { call } => {
                lives.entry(*call).or_default().starts.push(entry.attempt);
            }
            JournalKind::CallFinished { call, state, .. } => {
                lives.entry(*call).or_default().ends.push((entry.attempt, *state));
            }
            _ => {}
        }
    }
    lives
}

/// No call has two ends. One that must not be repeated began at most once, had its effect no more often
/// than it began, and if it began in one attempt and ended in another nobody claims to know how. `ran`:
/// how often the calls had their effect, as far as the test can tell.
pub fn check_once(journal: &[JournalEntry], ran: &HashMap<CallId, usize>) -> Result<(), String> {
    let lives = lives(journal);
    for (call, life) in &lives {
        if life.ends.len() > 1 {
            return Err(format!("call {call} ended more than once: {life:?}"));
        }
        if life.effects != Effects::Once {
            continue;
        }
        if life.starts.len() > 1 {
            return Err(format!("call {call} must not be repeated and began again: {life:?}"));
        }
        if let ([began], [(ended, state)]) = (life.starts.as_slice(), life.ends.as_slice())
            && began != ended
            && *state != CallState::Unknown
        {
            return Err(format!("the outcome of call {call} can't be known: {life:?}"));
        }
    }
    for (call, times) in ran {
        let life = lives.get(call).cloned().unwrap_or_default();
        if life.effects == Effects::Once && *times > life.starts.len() {
            return Err(format!("call {call} had its effect {times} times: {life:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> CallId {
        serde_json::from_value(serde_json::json!(format!("00000000-0000-0000-0000-{n:012}")))
            .unwrap()
    }

    fn prepared(effects: Effects) -> JournalKind {
        JournalKind::CallPrepared {
            call: id(1),
            tool: "shell".into(),
            state: CallState::Planned,
            arguments: None,
            effects,
            output: None,
            same_as: None,
            brings_in: false,
        }
    }

    fn started() -> JournalKind {
        JournalKind::CallStarted { call: id(1) }
    }

    fn finished(state: CallState) -> JournalKind {
        JournalKind::CallFinished { call: id(1), state, output: "output".into(), receipt: None }
    }

    fn journal(kinds: impl IntoIterator<Item = (u32, JournalKind)>) -> Vec<JournalEntry> {
        let entry = |(seq, (attempt, kind))| JournalEntry { attempt, seq, kind };
        (0..).zip(kinds).map(entry).collect()
    }

    fn ran(times: usize) -> HashMap<CallId, usize> {
        HashMap::from([(id(1), times)])
    }

    #[test]
    fn a_call_that_ran_once_and_one_whose_outcome_is_unknown_pass() {
        let plain = journal([
            (1, prepared(Effects::Once)),
            (1, started()),
            (1, finished(CallState::Succeeded)),
        ]);
        assert_eq!(check_once(&plain, &ran(1)), Ok(()));
        let cut = journal([
            (1, prepared(Effects::Once)),
            (1, started()),
            (2, prepared(Effects::Once)),
            (2, finished(CallState::Unknown)),
        ]);
        assert_eq!((check_once(&cut, &ran(1)), check_once(&cut, &ran(0))), (Ok(()), Ok(())));
        let again = journal([
            (1, prepared(Effects::ReadOnly)),
            (1, started()),
            (2, started()),
            (2, finished(CallState::Succeeded)),
        ]);
        assert_eq!(check_once(&again, &ran(2)), Ok(()));
    }

    // I5
    #[test]
    fn a_call_that_was_repeated_or_whose_outcome_was_made_up_is_seen() {
        let once = || (1, prepared(Effects::Once));
        let broken = [
            (journal([once(), (1, started()), (2, started())]), 0, "began again"),
            (journal([once(), (1, started())]), 2, "had its effect 2 times"),
            (journal([once()]), 1, "had its effect 1 times"),
            (
                journal([once(), (1, started()), (2, finished(CallState::Failed))]),
                1,
                "can't be known",
            ),
            (
                journal([
                    once(),
                    (1, started()),
                    (1, finished(CallState::Failed)),
                    (2, finished(CallState::Unknown)),
                ]),
                1,
                "more than once",
            ),
        ];
        for (journal, times, complaint) in broken {
            let seen = check_once(&journal, &ran(times)).unwrap_err();
            assert!(seen.contains(complaint), "{seen}");
        }
    }
}
