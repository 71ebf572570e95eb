//! The conformance suite of channel adapters: what every channel promises, held against any adapter and a
//! fake of its platform (B8).
//!
//! Implement [`Platform`] for the fake, then call [`passes`] in a test. The suite runs the real host around
//! the adapter (receiver, intake, sender, drafts, store) and plays the turn's part itself, so that it needs
//! neither a model nor a configuration. What an adapter says it can't do ([`Capabilities`]) is not asked
//! of it; everything else is.

mod bench;
mod checks;

use std::future::Future;
use std::sync::Arc;

use rookery_messages::channel::{Capabilities, ChannelAdapter, Streaming};

pub use bench::Bench;

/// Somebody who may speak.
pub const ANN: &str = "7";
/// Somebody else who may speak.
pub const BEN: &str = "8";
/// Somebody who may not.
pub const EVE: &str = "666";

/// A message as people see it.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// The platform's id.
    pub id: String,
    /// The text, marks read.
    pub text: String,
    /// Every text it had, the newest last.
    pub texts: Vec<String>,
    /// Its buttons: label and data.
    pub buttons: Vec<(String, String)>,
}

/// A fake platform, and the adapter that speaks to it. People are [`ANN`], [`BEN`] and [`EVE`]; each has one
/// chat with us.
pub trait Platform: Send + Sync + 'static {
    /// The adapter, as a new process would make it: the platform is the same, what it remembers is gone.
    fn adapter(&self) -> Arc<dyn ChannelAdapter>;

    /// Whether messages come by the adapter; else they come by the gateway.
    fn receives(&self) -> bool {
        true
    }

    /// Whether answers are carried by the adapter; else their readers fetch them.
    fn carries(&self) -> bool {
        true
    }

    /// The adapter's id of the chat with somebody.
    fn chat(&self, who: &str) -> String {
        who.to_owned()
    }

    /// Somebody writes.
    fn say(&self, who: &str, text: &str) {
        let _ = (who, text);
    }

    /// Somebody sends a file that can be fetched.
    fn send_file(&self, who: &str, name: &str, bytes: &[u8]) {
        let _ = (who, name, bytes);
    }

    /// What was acknowledged last is delivered once more.
    fn deliver_again(&self) {}

    /// Somebody presses a button of a message.
    fn press(&self, who: &str, message: &Seen, label: &str) {
        let _ = (who, message, label);
    }

    /// Receiving fails once, in passing.
    fn stumble(&self) {}

    /// The next send is told to come back in a second.
    fn slow_down(&self) {}

    /// What somebody sees of their chat.
    fn seen(&self, who: &str) -> Vec<Seen>;

    /// How much was not acknowledged yet.
    fn unacknowledged(&self) -> usize {
        0
    }

    /// How many files were fetched, or asked for.
    fn fetched(&self) -> usize {
        0
    }

    /// What presses were answered with.
    fn answers(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Runs every check that applies, each against a platform of its own. Fails the test at the first that
/// doesn't hold; gives the names of those that ran.
pub async fn passes<P, F>(make: impl Fn() -> F) -> Vec<&'static str>
where
    P: Platform,
    F: Future<Output = P>,
{
    crate::install_tls();
    let platform = make().await;
    let able = platform.adapter().capabilities();
    let (receives, carries) = (platform.receives(), platform.carries());
    drop(platform);
    let mut ran = Vec::new();
    macro_rules! check {
        ($applies:expr, $name:ident) => {
            if $applies {
                eprintln!("conformance: {}", stringify!($name));
                checks::$name(Bench::new(make().await).await).await;
                ran.push(stringify!($name));
            }
        };
    }
    check!(receives, takes_what_is_delivered_twice_once);
    check!(receives, drops_strangers_before_anything_is_fetched);
    check!(receives, acknowledges_after_the_commit);
    check!(receives, takes_messages_in_order);
    check!(receives, reconnects_and_loses_nothing);
    check!(receives, gives_the_next_life_what_was_not_acknowledged);
    check!(receives && able.attachments.is_some(), fetches_files_into_the_workspace);
    check!(carries, delivers_in_order_over_a_retry);
    check!(carries, delivers_the_whole_of_a_long_answer_within_the_limit);
    check!(carries, delivers_what_is_due_at_shutdown);
    check!(carries && shows_drafts(&able), shows_a_draft_and_lets_the_answer_take_it_over);
    check!(carries && shows_drafts(&able), closes_a_draft_of_a_former_life_with_the_answer);
    check!(carries && able.streaming == Streaming::Paragraphs, sends_paragraphs_as_they_come);
    check!(receives && carries && able.buttons, asks_in_the_chat_and_takes_one_decision);
    ran
}

fn shows_drafts(able: &Capabilities) -> bool {
    matches!(able.streaming, Streaming::Draft { .. })
}
