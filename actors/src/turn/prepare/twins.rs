//! Identical calls within one response (V-G10–V-G13).

use std::collections::HashMap;

use rookery_messages::settings::RuntimeProfile;
use rookery_messages::tool::{CallEffects, Effects, Verdict};

/// The calls of one response that may run or are asked about, by tool and canonical arguments.
#[derive(Default)]
pub(super) struct Twins {
    first: HashMap<(String, String), usize>,
}

impl Twins {
    /// The earlier call that this one is the same as, if a guard covers it. A command that would be asked
    /// about is never asked about twice, whatever the settings; then comes the standard guard.
    pub(super) fn find(
        &mut self,
        index: usize,
        tool: &str,
        canonical: String,
        effects: &CallEffects,
        verdict: &Verdict,
        runtime: &RuntimeProfile,
    ) -> Option<usize> {
        let asked = match verdict {
            Verdict::Ask(_) => true,
            Verdict::Run(_) => false,
            // It has its end, which is its own.
            _ => return None,
        };
        let first = *self.first.entry((tool.to_owned(), canonical)).or_insert(index);
        let prompt_guard = asked && effects.command.is_some();
        let guarded = prompt_guard || is_guarded(tool, effects, runtime);
        (first != index && guarded).then_some(first)
    }
}

fn is_guarded(tool: &str, effects: &CallEffects, runtime: &RuntimeProfile) -> bool {
    runtime.duplicate_guard
        && effects.effects != Effects::ReadOnly
        && !runtime.duplicate_exempt.iter().any(|exempt| exempt == tool)
}
