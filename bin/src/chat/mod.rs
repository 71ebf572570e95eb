//! `rookery chat`: a WebSocket client for a terminal, a pipe or a single message.
//!
//! `state` decides, purely; here is the loop that connects, reads and writes. A lost connection is opened
//! again a bounded number of times; messages carry ids of ours, so sending one again is harmless (I2).

mod connection;
mod frames;
mod input;
mod link;
mod state;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::time::Duration;

use connection::Incoming;
use frames::ServerFrame;
use input::Lines;
use link::Link;
use state::{Chat, Mode, Step};

use crate::cli::ChatArgs;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{to_stderr, to_stdout};
use crate::signals::{Asked, Signals};

/// How often a sign of life is asked for; without any in between the connection counts as lost.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Chats until the person leaves, the input ends, or the one message is answered.
pub async fn run(client: &Client, args: &ChatArgs, signals: &mut Signals) -> Result<Exit, Failure> {
    let at_terminal = std::io::stdin().is_terminal();
    let mode = match (&args.message, at_terminal) {
        (Some(_), _) => Mode::Once,
        (None, true) => Mode::Interactive,
        (None, false) => Mode::Lines,
    };
    let styled = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut chat = Chat::new(mode, at_terminal, styled, nonce()?);
    let mut query = vec![("conversation", args.conversation.as_str()), ("channel", "cli")];
    query.extend(args.agent.as_deref().map(|agent| ("agent", agent)));

    let mut link = Link::open(client, query).await?;
    // A pipe that is not asked for lines is left alone: it may be somebody else's input.
    let reads = mode != Mode::Once || at_terminal;
    let mut lines = Lines::of(if reads { Some(input::lines()?) } else { None });
    let mut steps = match &args.message {
        Some(text) => chat.submit(text),
        None => chat.started(),
    };
    let mut keepalive =
        tokio::time::interval_at(tokio::time::Instant::now() + KEEPALIVE, KEEPALIVE);
    keepalive.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut alive = true;
    loop {
        if let Some(exit) = link.perform(&mut chat, steps).await? {
            // Where the terminal is gone, nobody reads it.
            let _ = to_stdout(&chat.leave_line());
            link.close().await;
            return Ok(exit);
        }
        steps = tokio::select! {
            incoming = link.next() => match incoming {
                Incoming::Text(text) => {
                    alive = true;
                    let frame = ServerFrame::parse(&text);
                    chat.frame(frame.map_err(|error| Failure::failed(error.to_string()))?)
                }
                Incoming::Alive => {
                    alive = true;
                    Vec::new()
                }
                Incoming::Lost => match link.reconnect(&mut chat, signals, &mut lines).await {
                    Ok(Some(steps)) => steps,
                    Ok(None) if tell_unsent(&mut lines) => return Ok(Exit::Unreachable),
                    Ok(None) => return Ok(left(mode)),
                    Err(failure) => {
                        tell_unsent(&mut lines);
                        return Err(failure);
                    }
                },
            },
            line = lines.next(), if chat.wants_input() => chat.input(&line),
            asked = signals.next() => match asked {
                Asked::Interrupt => chat.interrupt(),
                Asked::Terminate | Asked::HangUp => vec![Step::Leave(left(mode))],
            },
            _ = keepalive.tick() => {
                if !std::mem::take(&mut alive) || !link.ping().await {
                    link.drop_connection();
                }
                chat.oldest_turn().map(Step::Fetch).into_iter().collect()
            }
        };
    }
}

/// Leaving before the end: fine for a person, a failure for a script that waits for a reply.
fn left(mode: Mode) -> Exit {
    if mode == Mode::Interactive { Exit::Ok } else { Exit::Failed }
}

/// Says what was typed and reached nobody; whether there was any.
fn tell_unsent(lines: &mut Lines) -> bool {
    let unsent = lines.unsent();
    for line in &unsent {
        to_stderr(&format!("not sent: {line}\n"));
    }
    !unsent.is_empty()
}

/// Tells this program's message ids from every other's.
pub(crate) fn nonce() -> Result<String, Failure> {
    let mut bytes = [0_u8; 12];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::failed(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
