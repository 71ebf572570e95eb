//! The conformance suite of channels: what every channel promises, held against any adapter and a fake of
//! its platform, or against the gateway and a client of it (B8).
//!
//! Implement [`Platform`] for the fake, then call [`passes`] in a test. The suite runs the real host around
//! the adapter (receiver or gateway, intake, sender, drafts, store) and plays the turn's part itself, so that
//! it needs neither a model nor a configuration. What an adapter says it can't do ([`Capabilities`]) is not
//! asked of it, and named as not offered; everything else is asked of every channel.

mod bench;
mod checks;
mod gateway;
mod host;
mod turns;

use std::any::Any;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rookery_messages::channel::{Capabilities, ChannelAdapter, Streaming};
use rookery_messages::settings::Settings;

pub use bench::{Bench, QUEUE_LIMIT};

use crate::wait::impatient;

/// Somebody who may speak.
pub const ANN: &str = "7";
/// Somebody else who may speak.
pub const BEN: &str = "8";
/// Somebody who may not.
pub const EVE: &str = "666";
/// A bot of somebody's that may speak, where bots may.
pub const BOT: &str = "99";

/// A message as people see it.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// The platform's id.
    pub id: String,
    /// The text, marks read.
    pub text: String,
    /// Every text it had, the newest last.
    pub texts: Vec<String>,
    /// Its buttons, or what stands in their place: label and data.
    pub buttons: Vec<(String, String)>,
}

/// Where messages come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entrance {
    /// By the adapter, which receives.
    Adapter,
    /// By the gateway: clients connect to it.
    Gateway,
}

/// A fake platform, and the adapter that speaks to it; or clients of the gateway. People are [`ANN`], [`BEN`]
/// and [`EVE`]; each has one chat with us.
pub trait Platform: Send + Sync + 'static {
    /// The adapter, as a new process would make it: the platform is the same, what it remembers is gone.
    fn adapter(&self) -> Arc<dyn ChannelAdapter>;

    /// Where messages come in.
    fn entrance(&self) -> Entrance {
        Entrance::Adapter
    }

    /// What the gateway is configured with: the channel's section, its people's tokens.
    fn settings(&self) -> Settings {
        Settings::default()
    }

    /// The gateway listens here.
    fn gateway_at(&self, address: SocketAddr) {
        let _ = address;
    }

    /// Our id of the chat with somebody, as it is stored.
    fn chat(&self, who: &str) -> String {
        who.to_owned()
    }

    /// The platform's id of our own account.
    fn ours(&self) -> String {
        "1".to_owned()
    }

    /// Somebody writes. It is delivered until it is acknowledged.
    fn say(&self, who: &str, text: &str);

    /// The account of a bot, [`BOT`] or our own, writes in the chat of [`ANN`].
    fn say_as_bot(&self, account: &str, text: &str) {
        let _ = (account, text);
    }

    /// Somebody sends a file that can be fetched.
    fn send_file(&self, who: &str, name: &str, bytes: &[u8]) {
        let _ = (who, name, bytes);
    }

    /// What was acknowledged last is delivered once more.
    fn deliver_again(&self);

    /// Somebody presses a button of a message, or does what stands in its place. False: they are shown
    /// nothing they could press.
    fn press(&self, who: &str, message: &Seen, label: &str) -> bool;

    /// The connection that messages come in by fails once, in passing.
    fn stumble(&self);

    /// The next message that is sent does not get through, for about a second.
    fn slow_down(&self);

    /// What somebody sees of their chat.
    fn seen(&self, who: &str) -> Vec<Seen>;

    /// How much was not acknowledged yet.
    fn unacknowledged(&self) -> usize;

    /// How many files were fetched, or asked for.
    fn fetched(&self) -> usize {
        0
    }

    /// What presses were answered with.
    fn answers(&self) -> Vec<String>;
}

/// What became of the checks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// These ran, and held.
    pub held: Vec<&'static str>,
    /// The adapter says that it can't do what these are about.
    pub not_offered: Vec<&'static str>,
}

macro_rules! checks {
    ($($name:ident: $applies:expr,)*) => {
        /// The names of all checks, in the order in which they run.
        pub const CHECKS: &[&str] = &[$(stringify!($name)),*];

        fn is_offered(name: &str, able: &Capabilities) -> bool {
            $(if name == stringify!($name) {
                let applies: fn(&Capabilities) -> bool = $applies;
                return applies(able);
            })*
            panic!("there is no check `{name}`");
        }

        async fn run<P: Platform>(name: &str, bench: Bench<P>) {
            $(if name == stringify!($name) {
                return Box::pin(checks::$name(bench)).await;
            })*
        }
    };
}

checks! {
    takes_what_is_delivered_twice_once: |_| true,
    drops_strangers_before_anything_is_fetched: |_| true,
    acknowledges_after_the_commit: |_| true,
    takes_messages_in_order: |_| true,
    reconnects_and_loses_nothing: |_| true,
    gives_the_next_life_what_was_not_acknowledged: |_| true,
    tells_whoever_finds_the_queue_full: |_| true,
    fetches_files_into_the_workspace: |able| able.attachments.is_some(),
    never_answers_itself: |able| able.bots,
    drops_bots_and_where_they_may_speak_cuts_their_chain: |able| able.bots,
    delivers_in_order_over_a_retry: |_| true,
    delivers_the_whole_of_a_long_answer_within_the_limit: |_| true,
    delivers_what_is_due_at_shutdown: |_| true,
    shows_a_draft_and_lets_the_answer_take_it_over: shows_drafts,
    closes_a_draft_of_a_former_life_with_the_answer: shows_drafts,
    sends_paragraphs_as_they_come: |able| able.streaming == Streaming::Paragraphs,
    streams_text_as_it_comes: |able| able.streaming == Streaming::Live,
    asks_its_people_and_takes_one_decision: |_| true,
}

fn shows_drafts(able: &Capabilities) -> bool {
    matches!(able.streaming, Streaming::Draft { .. })
}

/// Runs every check, each against a platform of its own. Fails the test at the first that doesn't hold.
pub async fn passes<P, F>(make: impl Fn() -> F) -> Report
where
    P: Platform,
    F: Future<Output = P>,
{
    crate::install_tls();
    let able = make().await.adapter().capabilities();
    let mut report = Report::default();
    for name in CHECKS.iter().copied() {
        if is_offered(name, &able) {
            eprintln!("conformance: {name}");
            run(name, Bench::new(make().await).await).await;
            report.held.push(name);
        } else {
            eprintln!("conformance: {name}: not offered");
            report.not_offered.push(name);
        }
    }
    report
}

/// Runs one check, whatever is offered, without patience; gives its complaint, if it doesn't hold.
pub async fn complaint<P: Platform>(name: &str, platform: P, limit: Duration) -> Option<String> {
    crate::install_tls();
    assert!(CHECKS.contains(&name), "there is no check `{name}`");
    let check = async { run(name, Bench::new(platform).await).await };
    let panic = AssertUnwindSafe(impatient(limit, check)).catch_unwind().await.err()?;
    Some(words(&*panic))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}
