//! Memory's file: nobody else's, and out of the tools' reach.

use rookery_actors::memory::MAX_DIMENSIONS;
use rookery_actors::model::embeddings::has_embeddings;
use rookery_messages::settings::Settings;

use super::{Findings, settled};

pub(super) fn check(settings: &Settings, found: &mut Findings<'_>) {
    embeddings(settings, found);
    file(settings, found);
}

fn embeddings(settings: &Settings, found: &mut Findings<'_>) {
    let Some(wanted) = &settings.memory.embeddings else { return };
    let at = |key| ["memory", "embeddings", key];
    match settings.providers.get(&wanted.provider) {
        None => found.add(
            &at("provider"),
            format!("names no provider there is: `{}`; add [providers.{0}]", wanted.provider),
        ),
        Some(profile) if !has_embeddings(profile.kind) => found.add(
            &at("provider"),
            "names a profile whose kind has no embeddings; use one of kind openai, gemini or ollama",
        ),
        Some(_) => {}
    }
    if wanted.model.trim().is_empty() {
        found.add(
            &at("model"),
            "is blank; name the embedding model, such as text-embedding-3-small",
        );
    }
    if wanted.dimensions.is_some_and(|numbers| numbers == 0 || numbers as usize > MAX_DIMENSIONS) {
        found.add(&at("dimensions"), format!("is out of range; use 1 to {MAX_DIMENSIONS}"));
    }
    if wanted.timeout_ms == 0 || wanted.timeout_ms >= settings.memory.recall_timeout_ms {
        found.add(
            &at("timeout_ms"),
            format!(
                "leaves no time for an answer by words; use 1 to {}, or raise memory.recall_timeout_ms",
                settings.memory.recall_timeout_ms.saturating_sub(1)
            ),
        );
    }
    if wanted.same_percent > 100 || wanted.unrelated_percent >= wanted.same_percent {
        found.add(&at("same_percent"), "must be above unrelated_percent, and 100 at most");
    }
}

fn file(settings: &Settings, found: &mut Findings<'_>) {
    let Some(memory) = settings.memory.path.as_deref().map(settled) else { return };
    if settings.store.path.as_deref().map(settled).as_ref() == Some(&memory) {
        found.add(&["memory", "path"], "is the store's file too; give each its own");
    }
    for (name, agent) in &settings.agents {
        if agent.workspace.as_deref().map(settled).is_some_and(|work| memory.starts_with(work)) {
            found.add(
                &["memory", "path"],
                format!("lies in the workspace of agent `{name}`, whose tools could reach it; move it to data_dir"),
            );
        }
    }
}
