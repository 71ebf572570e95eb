//! Commands that ask a running service.

use std::io::IsTerminal;
use std::time::Duration;

use rookery_actors::runtime::system_world;
use rookery_messages::approval::Approval;
use rookery_messages::pairing::PairCode;
use rookery_messages::receipt::{ReceiptAnswer, ReceiptQuestion};
use rookery_messages::store::OutboxStatus;
use rookery_messages::tree::{TreeNode, TreeSnapshot};
use rookery_messages::turn::TurnRecord;
use serde_json::{Value, json};

use crate::chat::nonce;
use crate::cli::{
    ActorCommand, ApprovalsCommand, AuditArgs, ChannelsCommand, Command, DeadLettersCommand,
    Output, PairCommand, ReceiptsCommand, TurnsCommand, Which,
};
use crate::client::{Client, ClientError};
use crate::exit::{Exit, Failure};
use crate::output::to_stdout;
use crate::render::{json_text, lists, strict, tree};
use crate::signals::Signals;

/// Runs a command that needs nothing but the service.
pub async fn run(client: &Client, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Tree { watch: false, output } => show_tree(client, output).await?,
        Command::Tree { watch: true, output } => watch_tree(client, output).await?,
        Command::Actor(command) => actor(client, command).await?,
        Command::Turns(command) => turns(client, command).await?,
        Command::Approvals(command) => approvals(client, command).await?,
        Command::Deadletters(command) => dead_letters(client, command).await?,
        Command::Receipts(command) => return receipts(client, command).await,
        Command::Top(args) => super::top::run(client, args).await?,
        Command::Sessions(command) => super::sessions::run(client, command).await?,
        Command::Channels(command) => return channels(client, command).await,
        Command::Pair(command) => pair(client, command).await?,
        Command::Memory(command) => super::memory::run(client, command).await?,
        Command::Crashes(output) => {
            let value = client.get(&["admin", "v1", "crashes"], &[]).await?;
            print(output, value, |value| Ok(lists::crashes(&client.read_list(value)?)))?;
        }
        Command::Audit(AuditArgs { limit, since, output }) => {
            let limit = limit.map(|limit| limit.to_string());
            let since = since.map(|since| since.moment(system_world().now()).to_string());
            let query: Vec<(&str, &str)> = [("limit", &limit), ("since", &since)]
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.as_deref()?)))
                .collect();
            let value = client.get(&["admin", "v1", "audit"], &query).await?;
            print(output, value, |value| Ok(lists::audit(&client.read_list(value)?)))?;
        }
        // These never ask a service this way; `dispatch` runs them itself.
        Command::Run
        | Command::Chat(_)
        | Command::Doctor { .. }
        | Command::Backup { .. }
        | Command::Policy(_)
        | Command::Tools(_)
        | Command::Mcp(_)
        | Command::Config(_) => {
            return Err(Failure::new(Exit::Usage, "this command asks no service"));
        }
    }
    Ok(Exit::Ok)
}

/// The answer as it came, or as people read it.
pub(super) fn print(
    output: Output,
    value: Value,
    show: impl FnOnce(Value) -> Result<String, ClientError>,
) -> Result<(), Failure> {
    let text = if output.json { format!("{}\n", json_text(&value)) } else { show(value)? };
    to_stdout(&text)
}

async fn show_tree(client: &Client, output: Output) -> Result<(), Failure> {
    let value = client.get(&["admin", "v1", "tree"], &[]).await?;
    print(output, value, |value| Ok(tree::tree(&client.read::<TreeSnapshot>(value)?)))
}

/// A terminal whose size can't be had.
pub(super) const USUAL_SIZE: (u16, u16) = (80, 24);

/// Until Ctrl-C, or until the service can't be asked any more.
async fn watch_tree(client: &Client, output: Output) -> Result<(), Failure> {
    let mut signals = Signals::take()?;
    if std::io::stdout().is_terminal() && !output.json {
        return on_screen(watch(client, output, true, &mut signals)).await;
    }
    watch(client, output, false, &mut signals).await
}

/// Does something on the other screen: what was on this one is there again afterwards.
pub(super) async fn on_screen(
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    to_stdout("\u{1b}[?1049h\u{1b}[?25l")?;
    let ended = work.await;
    to_stdout("\u{1b}[?25h\u{1b}[?1049l")?;
    ended
}

/// Line over line, in one piece: the screen does not flicker.
pub(super) fn draw(text: &str) -> Result<(), Failure> {
    let text = text.replace('\n', "\u{1b}[K\r\n");
    to_stdout(&format!("\u{1b}[H{text}\u{1b}[K\u{1b}[J"))
}

async fn watch(
    client: &Client,
    output: Output,
    on_screen: bool,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = signals.next() => return Ok(()),
            _ = tick.tick() => {}
        }
        let value = client.get(&["admin", "v1", "tree"], &[]).await?;
        if on_screen {
            let (width, height) = crossterm::terminal::size().unwrap_or(USUAL_SIZE);
            let snapshot = client.read::<TreeSnapshot>(value)?;
            draw(&tree::fitted(&snapshot, width.into(), height.into()))?;
        } else {
            print(output, value, |value| Ok(tree::tree(&client.read::<TreeSnapshot>(value)?)))?;
        }
    }
}

/// The whole path of what somebody named by the end of a path or of an id.
async fn whole_path(client: &Client, named: String) -> Result<String, Failure> {
    if named == "root" || named.starts_with("root/") {
        return Ok(named);
    }
    let value = client.get(&["admin", "v1", "tree"], &[]).await?;
    let snapshot = client.read::<TreeSnapshot>(value)?;
    match tree::meant(&snapshot.root, &named).as_slice() {
        [path] => Ok((*path).to_owned()),
        [] => Err(Failure::failed(format!(
            "no actor's path ends in `{}`; look at `rookery tree` for those that live",
            strict(&named)
        ))),
        several => Err(Failure::failed(format!(
            "`{}` may be any of these; name one by more of its path:\n  {}",
            strict(&named),
            several.iter().map(|path| strict(path)).collect::<Vec<_>>().join("\n  ")
        ))),
    }
}

async fn actor(client: &Client, command: ActorCommand) -> Result<(), Failure> {
    let (path, verb, because) = match command {
        ActorCommand::Show { path, output } => {
            let path = whole_path(client, path).await?;
            let value = client.get(&actor_route(&path, None), &[]).await?;
            let now = system_world().now();
            return print(output, value, |value| {
                Ok(tree::actor(&client.read::<TreeNode>(value)?, now))
            });
        }
        ActorCommand::Stop { path, because } => (path, "stop", because),
        ActorCommand::Kill { path, because } => (path, "kill", because),
        ActorCommand::Restart { path, because } => (path, "restart", because),
        ActorCommand::Pause { path, because } => (path, "pause", because),
        ActorCommand::Resume { path, because } => (path, "resume", because),
    };
    let path = whole_path(client, path).await?;
    let reason = because.reason.unwrap_or_else(|| "asked on the command line".to_owned());
    client.post(&actor_route(&path, Some(verb)), &json!({ "reason": reason })).await?;
    to_stdout(&format!("ok\n{}", what_follows(&path, verb)))
}

/// What somebody should know who does this.
fn what_follows(path: &str, verb: &str) -> &'static str {
    match (path, verb) {
        ("root/store", "stop") => {
            "nothing is accepted or written until `rookery actor restart root/store`\n"
        }
        (_, "pause") => "it takes no new work until `rookery actor resume` of the same path\n",
        _ => "",
    }
}

/// `admin/v1/actors/<path>[/<verb>]`; the path's own segments are the route's.
fn actor_route<'a>(path: &'a str, verb: Option<&'a str>) -> Vec<&'a str> {
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    ["admin", "v1", "actors"].into_iter().chain(segments).chain(verb).collect()
}

async fn turns(client: &Client, command: TurnsCommand) -> Result<(), Failure> {
    match command {
        TurnsCommand::List { conversation, state, limit, output } => {
            let limit = limit.map(|limit| limit.to_string());
            let query: Vec<(&str, &str)> =
                [("conversation", &conversation), ("state", &state), ("limit", &limit)]
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value.as_deref()?)))
                    .collect();
            let value = client.get(&["v1", "turns"], &query).await?;
            print(output, value, |value| Ok(lists::turns(&client.read_list(value)?)))
        }
        TurnsCommand::Show { id, output } => {
            let value = client.get(&["v1", "turns", &id], &[]).await?;
            print(output, value, |value| Ok(lists::turn(&client.read::<TurnRecord>(value)?)))
        }
        TurnsCommand::Cancel { id } => {
            client.post(&["v1", "turns", &id, "cancel"], &json!({})).await?;
            to_stdout("ok\n")
        }
    }
}

async fn approvals(client: &Client, command: ApprovalsCommand) -> Result<(), Failure> {
    let route = ["admin", "v1", "approvals"];
    match command {
        ApprovalsCommand::List { all, output } => {
            let query = if all { &[][..] } else { &[("pending", "true")] };
            let value = client.get(&route, query).await?;
            print(output, value, |value| Ok(lists::approvals(&client.read_list(value)?)))
        }
        ApprovalsCommand::Grants { all, output } => {
            let query = if all { &[("all", "true")][..] } else { &[] };
            let value = client.get(&["admin", "v1", "grants"], query).await?;
            print(output, value, |value| Ok(lists::grants(&client.read_list(value)?)))
        }
        ApprovalsCommand::Revoke { id, output } => {
            let value = client.delete(&["admin", "v1", "grants", &id], &[]).await?;
            print(output, value, |value| Ok(lists::grants(&[client.read(value)?])))
        }
        ApprovalsCommand::Approve { which } => {
            decide(client, which, &json!({ "decision": "approve" })).await
        }
        ApprovalsCommand::Always { which, scope } => {
            decide(client, which, &json!({ "decision": "always", "scope": scope })).await
        }
        ApprovalsCommand::Deny { which, because } => {
            let mut decision = json!({ "decision": "deny" });
            if let Some(reason) = because.reason {
                decision["reason"] = Value::String(reason);
            }
            decide(client, which, &decision).await
        }
        ApprovalsCommand::Replace { id, replacement } => {
            let which = Which { ids: vec![id], turn: None };
            decide(client, which, &json!({ "decision": "replace", "replacement": replacement }))
                .await
        }
    }
}

/// Decides one after the other. One that can't be decided keeps none of the others from it.
async fn decide(client: &Client, which: Which, decision: &Value) -> Result<(), Failure> {
    let route = ["admin", "v1", "approvals"];
    let ids = match &which.turn {
        None => which.ids,
        Some(turn) => {
            let pending: Vec<Approval> =
                client.read_list(client.get(&route, &[("pending", "true")]).await?)?;
            let of_turn = pending.iter().filter(|one| one.turn.to_string() == turn.to_lowercase());
            of_turn.map(|one| one.id.to_string()).collect()
        }
    };
    if ids.is_empty() {
        return Err(Failure::failed(
            "the turn waits for no approval; `rookery approvals list` has all",
        ));
    }
    let mut failed: Option<Failure> = None;
    for id in &ids {
        // A084: what is said comes from what is stored.
        let line = match client.post(&[&route[..], &[id.as_str()]].concat(), decision).await {
            Ok(stored) => {
                let stored: Approval = client.read(stored)?;
                format!("{} {}: {}\n", stored.id, strict(&stored.tool), stored.verdict())
            }
            Err(error) if ids.len() == 1 => return Err(error.into()),
            Err(error) => {
                let line = format!("{} {}\n", strict(id), strict(&error.to_string()));
                failed.get_or_insert(error.into());
                line
            }
        };
        to_stdout(&line)?;
    }
    failed.map_or(Ok(()), Err)
}

async fn receipts(client: &Client, command: ReceiptsCommand) -> Result<Exit, Failure> {
    let ReceiptsCommand::Verify { receipt, turn, call, output } = command;
    let asked = ReceiptQuestion { receipt, turn, call };
    let value = client.post(&["admin", "v1", "receipts", "verify"], &json!(asked)).await?;
    let answer: ReceiptAnswer = client.read(value.clone())?;
    print(output, value, |_| Ok(lists::receipt(&answer)))?;
    Ok(if answer.valid == Some(true) { Exit::Ok } else { Exit::Failed })
}

/// All of them, and for `check` whether they are up.
async fn channels(client: &Client, command: ChannelsCommand) -> Result<Exit, Failure> {
    let (output, checks) = match command {
        ChannelsCommand::List(output) => (output, false),
        ChannelsCommand::Check(output) => (output, true),
        ChannelsCommand::Send { channel, conversation, text, id, wait, output } => {
            let id = id.map_or_else(nonce, Ok)?;
            let wanted = json!({ "conversation": conversation, "text": text, "id": id });
            let (route, wait) =
                (["admin", "v1", "channels", channel.as_str(), "send"], wait.to_string());
            let answer = client.post_with(&route, &[("wait", &wait)], &wanted).await;
            let value = answer.map_err(|error| match error {
                ClientError::Unreachable { .. } => Failure::new(
                    error.exit(),
                    format!("{error}; if it was reached, it is not sent twice with --id {id}"),
                ),
                error => error.into(),
            })?;
            let status: OutboxStatus = client.read(value.clone())?;
            print(output, value, |_| Ok(lists::sent(&status)))?;
            return Ok(if status.state == "dead" { Exit::Failed } else { Exit::Ok });
        }
    };
    let value = client.get(&["admin", "v1", "channels"], &[]).await?;
    let rows: Vec<Value> = client.read_list(value.clone())?;
    print(output, value, |_| Ok(lists::channels(&rows)))?;
    let up = rows.iter().all(|row| row["state"] == "up");
    Ok(if up || !checks { Exit::Ok } else { Exit::Failed })
}

async fn pair(client: &Client, command: PairCommand) -> Result<(), Failure> {
    let route = ["admin", "v1", "pairings"];
    match command {
        PairCommand::New { channel, minutes, output } => {
            let mut wanted = json!({ "channel": channel });
            if let Some(minutes) = minutes {
                wanted["minutes"] = json!(minutes);
            }
            let value = client.post(&route, &wanted).await?;
            print(output, value, |value| Ok(lists::code(&client.read::<PairCode>(value)?)))
        }
        PairCommand::List(output) => {
            let value = client.get(&route, &[]).await?;
            print(output, value, |value| Ok(lists::pairings(&client.read_list(value)?)))
        }
        PairCommand::Revoke { channel, sender } => {
            client
                .delete(&[&route[..], &[channel.as_str(), sender.as_str()]].concat(), &[])
                .await?;
            to_stdout("ok\n")
        }
    }
}

async fn dead_letters(client: &Client, command: DeadLettersCommand) -> Result<(), Failure> {
    let route = ["admin", "v1", "deadletters"];
    let (id, verb) = match command {
        DeadLettersCommand::List(output) => {
            let value = client.get(&route, &[]).await?;
            return print(output, value, |value| {
                Ok(lists::dead_letters(&client.read_list(value)?))
            });
        }
        DeadLettersCommand::Show { id, output } => {
            // The API lists them; one is picked here.
            let letters: Vec<Value> = client.read_list(client.get(&route, &[]).await?)?;
            let letter = letters
                .into_iter()
                .find(|letter| letter["id"] == Value::String(id.to_lowercase()))
                .ok_or_else(|| {
                    Failure::failed(
                        "there is no such dead letter; `rookery deadletters list` has them",
                    )
                })?;
            return print(output, letter, |value| Ok(lists::dead_letter(&client.read(value)?)));
        }
        DeadLettersCommand::Retry { id } => (id, "retry"),
        DeadLettersCommand::Purge { id } => (id, "purge"),
    };
    client.post(&[&route[..], &[id.as_str(), verb]].concat(), &json!({})).await?;
    to_stdout("ok\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actors_path_becomes_the_routes_segments() {
        assert_eq!(
            actor_route("/service/observer", Some("stop")),
            ["admin", "v1", "actors", "service", "observer", "stop"]
        );
        assert_eq!(actor_route("root", None), ["admin", "v1", "actors", "root"]);
    }
}
