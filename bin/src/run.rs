//! `rookery run` and `rookery chat`: from the configuration to a running service, and to its end.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;

use rookery_messages::settings::Settings;
use rookery_messages::store::StoreError;
use sd_notify::NotifyState;

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

/// The service, with a chat beside it when somebody sits at standard input.
pub async fn run(named: Option<&Path>, environment: &Environment) -> Result<Exit, Failure> {
    let loaded = config::load(named, environment)?;
    let at_terminal = std::io::stdin().is_terminal();
    let shows = std::io::stdout().is_terminal() || std::io::stderr().is_terminal();
    let logs =
        if shows { Destination::file_in(&loaded.settings.data_dir) } else { Destination::Stderr };
    logging::start(&logs, environment, service::redactor(&loaded.settings, None, environment))?;
    to_stdout(&banner(&loaded, &logs))?;
    let mut signals = Signals::take()?;
    match start(&loaded, &mut signals).await? {
        Started::Stopped => Ok(Exit::Ok),
        Started::Ours(running) => {
            to_stdout(&format!("listening on http://{}\n", running.address()))?;
            let talk = at_terminal.then(ChatArgs::default);
            live(running, &loaded.settings, talk, signals).await
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
    to_stderr(&banner(&loaded, &logs));
    match start(&loaded, &mut signals).await? {
        Started::Stopped => Ok(Exit::Ok),
        Started::Ours(running) => live(running, &loaded.settings, Some(args), signals).await,
        Started::Theirs { address, .. } => {
            attach(&loaded.settings, address, &args, &mut signals).await
        }
    }
}

/// What became of the start.
enum Started {
    /// It runs, in this process.
    Ours(Running),
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
    let starting = service::start(loaded.settings.clone(), loaded.own_files.clone(), Vec::new());
    let started = tokio::select! {
        started = starting => started,
        _ = signals.next() => return Ok(Started::Stopped),
    };
    let error = match started {
        Ok(running) => {
            tracing::info!(address = %running.address(), "listening");
            notify(NotifyState::Ready);
            return Ok(Started::Ours(running));
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
    let talking = async {
        match talk {
            Some(args) => chat::run(&client, &args, &mut signals).await,
            None => {
                let asked = signals.next().await;
                let signal = match asked {
                    Asked::Interrupt => "SIGINT",
                    Asked::Terminate => "SIGTERM",
                };
                tracing::info!(signal, "asked to end");
                Ok(Exit::Ok)
            }
        }
    };
    let (talked, over) = tokio::select! {
        talked = talking => (talked, None),
        cause = running.ended() => (Ok(Exit::Failed), Some(cause)),
    };
    notify(NotifyState::Stopping);
    // A further signal means: don't wait.
    let hurry = Box::pin(async move {
        signals.next().await;
    });
    let report = running.shutdown(hurry).await;
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
