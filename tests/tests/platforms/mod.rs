//! The channels of the product as the conformance suite sees them: a fake of their platform, or clients of the
//! gateway.

mod bot;
mod posts;
mod sockets;
mod terminals;

use rookery_messages::settings::{AuthRole, Secret, Settings, TokenSettings};
use rookery_tests::conformance::{ANN, BEN};

pub use bot::Bot;
pub use posts::Posts;
pub use sockets::Sockets;
pub use terminals::Terminals;

/// Somebody's token; only those of [`ANN`] and [`BEN`] are known.
fn token_of(who: &str) -> String {
    format!("token-of-{who}-0123456789abcdef")
}

/// A gateway that knows the two.
fn with_tokens() -> Settings {
    let mut settings = Settings::default();
    settings.gateway.tokens = [ANN, BEN]
        .map(|who| TokenSettings {
            name: who.to_owned(),
            token: Secret::new(token_of(who)),
            role: AuthRole::Chat,
        })
        .into();
    settings
}

/// The stored name of a token's conversation.
fn own(who: &str) -> String {
    format!("~{who}/main")
}
