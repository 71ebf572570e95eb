//! Memory's file: nobody else's, and out of the tools' reach.

use rookery_messages::settings::Settings;

use super::{Findings, settled};

pub(super) fn check(settings: &Settings, found: &mut Findings<'_>) {
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
