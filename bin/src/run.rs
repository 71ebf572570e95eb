//! `rookery run` and `rookery chat`: from the configuration to a running service, and to its end.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rookery_actors::tool::process::adopt_orphans;
use rookery_messages::settings::Settings;
use rookery_messages::store::StoreError;
use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;

use crate::banner::banner;
use crate::chat;
use crate::cli::{ChatArgs, Remote};
use crate::config::{self, Environment, Loaded};
use crate::endpoint;
use crate::exit::{Exit, Failure};
use crate::logging::{self, Destination};
use crate::output::{to_stderr, to_stdout};
use crate::probe::{Listener, probe};
use crate::service::{self, Running, StartError};
use crate::signals::{Asked, Signals};

/// Shortest time between two signs of life to the service manager.
const SHORTEST_WATCH: Duration = Duration::from_millis(10);

/// The service, with a chat beside it when somebody sits at standard input.
pub async fn run(named: Option<&Path>, environment: &Environment) -> Result<Exit, Failure> {
    let loaded = config::load(named, environment)?;
    let at_terminal = std::io::stdin().is_terminal();
    if at_terminal {
        // Of the one that runs already our own configuration says nothing: no banner of ours.
        let address = endpoint::listen_address(&loaded.settings)?;
        if let Listener::Rookery(version) = probe(address).await {
            to_stdout(&format!("rookery {version} runs at {address} already: attaching to it\n"))?;
            let mut signals = Signals::take()?;
            return attach(&loaded.settings, address, &ChatArgs::default(), &mut signals).await;
        }
    }
    let shows = std::io::stdout().is_terminal() || std::io::stderr().is_terminal();
    let logs =
        if shows { Destination::file_in(&loaded.settings.data_dir) } else { Destination::Stderr };
    logging::start(&logs, environment, service::redactor(&loaded.settings, None, environment))?;
    warn_of(&loaded);
    to_stdout(&banner(&loaded, &logs))?;
    let mut signals = Signals::take()?;
    match start(&loaded, &mut signals).await? {
        Started::Stopped => Ok(Exit::Ok),
        Started::Ours(running) => {
            to_stdout(&format!("listening on http://{}\n", running.address()))?;
            let talk = at_terminal.then(ChatArgs::default);
            live(*running, &loaded.settings, talk, signals).await
        }
        Started::Theirs { address, version } if at_terminal => {
            to_stdout(&format!("rookery {version} runs there already: attaching to it\n"))?;
            attach(&loaded.settings, address, &ChatArgs::default(), &mut signals).await
        }
        Started::Theirs { address, version } => Err(Failure::failed(format!(
            "rookery {version} runs at {address} already; stop it, or change gateway.listen and data_dir for a second one"
        ))),
    }
}

/// A chat: with the service somebody named, with the one that runs here, or with one started for it.
pub async fn chat(
    named: Option<&Path>,
    environment: &Environment,
    remote: &Remote,
    args: ChatArgs,
) -> Result<Exit, Failure> {
    let mut signals = Signals::take()?;
    if remote.url.as_ref().is_some_and(|url| !url.is_empty()) {
        let client = endpoint::client(named, environment, remote)?;
        return chat::run(&client, &args, &mut signals).await;
    }
    let loaded = config::load(named, environment)?;
    let address = endpoint::listen_address(&loaded.settings)?;
    match probe(address).await {
        Listener::Rookery(_) => {
            let client = match &remote.token {
                Some(_) => endpoint::client(named, environment, remote)?,
                None => endpoint::local_client(&loaded.settings, address)?,
            };
            return chat::run(&client, &args, &mut signals).await;
        }
        Listener::Other => return Err(taken_by_other(address)),
        Listener::Nobody => {}
    }
    // A reply is what standard output is for; logs never mix with it.
    let logs = Destination::file_in(&loaded.settings.data_dir);
    logging::start(&logs, environment, service::redactor(&loaded.settings, None, environment))?;
    warn_of(&loaded);
    to_stderr(&banner(&loaded, &logs));
    match start(&loaded, &mut signals).await? {
        Started::Stopped => Ok(Exit::Ok),
        Started::Ours(running) => live(*running, &loaded.settings, Some(args), signals).await,
        Started::Theirs { address, .. } => {
            attach(&loaded.settings, address, &args, &mut signals).await
        }
    }
}

/// What `config check` warns of stands in the log of a service that starts all the same.
fn warn_of(loaded: &Loaded) {
    for warning in loaded.warning_lines() {
        tracing::warn!(warning, "the configuration deserves a look");
    }
}

/// What became of the start.
enum Started {
    /// It runs, in this process.
    Ours(Box<Running>),
    /// One runs already.
    Theirs {
        /// Where.
        address: SocketAddr,
        /// Its version.
        version: String,
    },
    /// A signal came first.
    Stopped,
}

async fn start(loaded: &Loaded, signals: &mut Signals) -> Result<Started, Failure> {
    let address = endpoint::listen_address(&loaded.settings)?;
    // What a command leaves behind is ours to end, however it tries to get away (I6).
    if let Err(error) = adopt_orphans() {
        tracing::warn!(%error, "a command that sets out to get away from its call can't be followed");
    }
    let starting = service::start(loaded.settings.clone(), loaded.own_files.clone(), Vec::new());
    let started = tokio::select! {
        started = starting => started,
        _ = signals.next() => return Ok(Started::Stopped),
    };
    let error = match started {
        Ok(running) => {
            let config = loaded.file.as_ref().map(|file| file.display().to_string());
            let version = env!("CARGO_PKG_VERSION");
            tracing::info!(address = %running.address(), version, config, "listening");
            notify(NotifyState::Ready);
            return Ok(Started::Ours(Box::new(running)));
        }
        Err(error) => error,
    };
    tracing::error!(%error, "the service did not start");
    match error {
        StartError::PortTaken { .. } => match probe(address).await {
            Listener::Rookery(version) => Ok(Started::Theirs { address, version }),
            Listener::Other | Listener::Nobody => Err(taken_by_other(address)),
        },
        // One that runs here holds the same database too, and may be found by it first.
        StartError::Store(StoreError::InUse { .. }) => match probe(address).await {
            Listener::Rookery(version) => Ok(Started::Theirs { address, version }),
            Listener::Other | Listener::Nobody => Err(Failure::failed(error.to_string())),
        },
        StartError::Store(StoreError::Unavailable(_)) => Err(Failure::failed(format!(
            "{error}; check data_dir (or store.path), its permissions and its disk"
        ))),
        StartError::Store(_) | StartError::Failed(_) => Err(Failure::failed(error.to_string())),
    }
}

fn taken_by_other(address: SocketAddr) -> Failure {
    Failure::failed(format!(
        "gateway.listen: another program listens on {address}; stop it, or set gateway.listen to another port"
    ))
}

/// A chat with the service that runs here already.
async fn attach(
    settings: &Settings,
    address: SocketAddr,
    args: &ChatArgs,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let client = endpoint::local_client(settings, address)?;
    chat::run(&client, args, signals).await
}

/// Until the chat ends, a signal comes, or the service ends by itself; then the shutdown.
async fn live(
    mut running: Running,
    settings: &Settings,
    talk: Option<ChatArgs>,
    mut signals: Signals,
) -> Result<Exit, Failure> {
    let client = endpoint::local_client(settings, running.address())?;
    let holds_a_chat = talk.is_some();
    let watched = watchdog(sd_notify::watchdog_enabled(), running.liveness(), notify);
    tokio::pin!(watched);
    let talking = async {
        match talk {
            Some(args) => chat::run(&client, &args, &mut signals).await,
            None => {
                let signal = signals.next().await.name();
                tracing::info!(signal, "asked to end");
                Ok(Exit::Ok)
            }
        }
    };
    let (talked, over) = tokio::select! {
        talked = talking => (talked, None),
        cause = running.ended() => (Ok(Exit::Failed), Some(cause)),
        () = &mut watched => (Ok(Exit::Failed), None),
    };
    notify(NotifyState::Stopping);
    let open = running.directory().of_kind("turn").len();
    if holds_a_chat && open > 0 {
        let turns = if open == 1 { "1 turn runs".to_owned() } else { format!("{open} turns run") };
        to_stderr(&format!(
            "the service ends with this chat: {turns}, and may take {} s more; Ctrl-C skips the waiting\n",
            settings.shutdown.drain_secs
        ));
    }
    // A further signal means: don't wait.
    let hurry = Box::pin(async move {
        // A terminal that goes may say so more than once.
        while signals.next().await == Asked::HangUp {}
    });
    // The tree lives until the last phase; after that there is little left to watch.
    let ending = running.shutdown(hurry);
    tokio::pin!(ending);
    let report = loop {
        tokio::select! {
            report = &mut ending => break report,
            () = &mut watched => {}
        }
    };
    tracing::info!(killed = report.killed, "shutdown is done");
    if let Some(cause) = over {
        return Err(Failure::failed(format!("the service ended by itself: {cause}")));
    }
    let exit = talked?;
    if exit == Exit::Ok && report.killed > 0 {
        return Err(Failure::failed(format!(
            "{} actors had to be killed at shutdown; the log names them",
            report.killed
        )));
    }
    Ok(exit)
}

/// To systemd, if it started us; elsewhere this does nothing.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "can't tell systemd");
    }
}

/// Tells the service manager that the tree is alive, twice in each of the spans it gives us. While the tree
/// is not, nothing is told, and the manager restarts us. Never ends.
async fn watchdog(
    span: Option<Duration>,
    live: Arc<dyn Fn() -> bool + Send + Sync>,
    tell: impl Fn(NotifyState<'static>),
) {
    let Some(span) = span else { return std::future::pending().await };
    let mut tick = tokio::time::interval((span / 2).max(SHORTEST_WATCH));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut was_live = true;
    loop {
        tick.tick().await;
        let is_live = live();
        if is_live {
            tell(NotifyState::Watchdog);
        } else if was_live {
            tracing::error!(
                "the tree is stuck: the service manager is no longer told that it lives"
            );
        }
        was_live = is_live;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_service_manager_is_told_of_life_in_time_and_only_of_life() {
        let (told, alive) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
        let (counts, looks) = (Arc::clone(&told), Arc::clone(&alive));
        let tell = move |state: NotifyState<'static>| {
            assert!(matches!(state, NotifyState::Watchdog));
            counts.fetch_add(1, Ordering::Relaxed);
        };
        let live = Arc::new(move || looks.load(Ordering::Relaxed));
        let watched = watchdog(Some(Duration::from_secs(4)), live, tell);
        tokio::pin!(watched);
        let _never_ends = tokio::time::timeout(Duration::from_secs(9), &mut watched).await;
        assert_eq!(told.load(Ordering::Relaxed), 5);
        alive.store(false, Ordering::Relaxed);
        let _never_ends = tokio::time::timeout(Duration::from_secs(20), &mut watched).await;
        assert_eq!(told.load(Ordering::Relaxed), 5);
    }
}
