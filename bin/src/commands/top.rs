//! `rookery top`: the busiest actors, live at a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use rookery_messages::time::rfc3339_millis;
use rookery_messages::tree::TreeSnapshot;
use serde_json::json;

use super::remote::{USUAL_SIZE, draw, on_screen};
use crate::cli::TopArgs;
use crate::client::Client;
use crate::exit::Failure;
use crate::output::to_stdout;
use crate::render::{json_text, top};
use crate::signals::Signals;

/// Lines of the screen that are no actor: a title, the header.
const HEAD: u16 = 2;

pub(super) async fn run(client: &Client, args: TopArgs) -> Result<(), Failure> {
    if std::io::stdout().is_terminal() && !args.output.json {
        let mut signals = Signals::take()?;
        return on_screen(watch(client, args, &mut signals)).await;
    }
    let now = snapshot(client).await?;
    let busy = top::busiest(&now, None, args.by, args.limit);
    to_stdout(&match args.output.json {
        true => {
            let at = rfc3339_millis(now.captured_at);
            format!("{}\n", json_text(&json!({ "captured_at": at, "actors": busy })))
        }
        false => top::top(&busy),
    })
}

async fn snapshot(client: &Client) -> Result<TreeSnapshot, Failure> {
    let value = client.get(&["admin", "v1", "tree"], &[]).await?;
    Ok(client.read(value)?)
}

/// Until Ctrl-C, or until the service can't be asked any more.
async fn watch(client: &Client, args: TopArgs, signals: &mut Signals) -> Result<(), Failure> {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut before: Option<TreeSnapshot> = None;
    loop {
        tokio::select! {
            _ = signals.next() => return Ok(()),
            _ = tick.tick() => {}
        }
        let now = snapshot(client).await?;
        let (width, height) = crossterm::terminal::size().unwrap_or(USUAL_SIZE);
        let room = usize::from(height.saturating_sub(HEAD).max(1));
        let busy = top::busiest(&now, before.as_ref(), args.by, args.limit.min(room));
        let title = format!("{}   Ctrl-C ends", rfc3339_millis(now.captured_at));
        draw(&top::fitted(&busy, &title, width.into()))?;
        before = Some(now);
    }
}
