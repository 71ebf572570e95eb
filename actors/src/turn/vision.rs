//! Vision routing (R16): who is asked while the conversation shows images, and how many it shows.

use std::sync::Arc;

use rookery_messages::chat::ChatMessage;

use super::bundle::AgentBundle;
use crate::model::ProfileRef;
use crate::model::gallery::{Gallery, MOST_IMAGES, TOKENS};

/// How many images a request within `budget` tokens (0: no limit) shows at most: they leave half of the
/// window to words. None, if nobody of the agent's providers sees.
pub(super) fn most_images(bundle: &AgentBundle, budget: u64) -> usize {
    let mut profiles = bundle.chain.iter().chain(bundle.vision.iter());
    if !profiles.any(|profile| profile.sight.sees()) {
        return 0;
    }
    match budget {
        0 => MOST_IMAGES,
        budget => usize::try_from(budget / 2 / TOKENS).unwrap_or(MOST_IMAGES).clamp(1, MOST_IMAGES),
    }
}

/// The profiles to try, in order. With images to show, and a first profile that sees none, those that see go
/// before the agent's own: the words that stand for an image are better than no answer. How tools are
/// offered follows each profile, as ever (V-D23).
pub(super) fn route(
    bundle: &AgentBundle,
    messages: &[ChatMessage],
    most: usize,
) -> Arc<[ProfileRef]> {
    let (own, seeing) = (&bundle.chain, &bundle.vision);
    let sees = own.first().is_some_and(|first| first.sight.sees());
    if sees || seeing.is_empty() || Gallery::of(messages, most).is_empty() {
        return Arc::clone(own);
    }
    let others = own.iter().filter(|one| seeing.iter().all(|other| other.name != one.name));
    seeing.iter().chain(others).cloned().collect()
}
