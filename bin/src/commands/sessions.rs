//! `rookery sessions`: conversations, what was said in one, and its end.

use rookery_messages::store::ConversationRow;
use serde_json::{Value, json};

use super::remote::print;
use crate::cli::SessionsCommand;
use crate::client::Client;
use crate::exit::Failure;
use crate::output::to_stdout;
use crate::render::{lists, strict};

/// Most conversations that are looked through for an id.
const MOST: &str = "1000";

pub(super) async fn run(client: &Client, command: SessionsCommand) -> Result<(), Failure> {
    match command {
        SessionsCommand::List(output) => {
            let value = client.get(&["v1", "conversations"], &[]).await?;
            print(output, value, |value| Ok(lists::sessions(&client.read_list(value)?)))
        }
        SessionsCommand::Show { id, limit, output } => {
            let row = find(client, &id).await?;
            let limit = limit.map(|limit| limit.to_string());
            let query: Vec<(&str, &str)> =
                limit.as_deref().map(|limit| ("limit", limit)).into_iter().collect();
            let route = [
                "v1",
                "conversations",
                row.channel.as_str(),
                row.conversation.as_str(),
                "messages",
            ];
            let found = client.get(&route, &query).await?;
            let messages: Vec<Value> = client.read_list(found["messages"].clone())?;
            let value = json!({ "session": row, "messages": messages });
            print(output, value, |_| Ok(lists::session(&row, &messages)))
        }
        SessionsCommand::Delete { id } => {
            let row = find(client, &id).await?;
            let id = row.id.to_string();
            client.delete(&["admin", "v1", "conversations", id.as_str()], &[]).await?;
            to_stdout(&format!("deleted {id}\n"))
        }
    }
}

/// The conversation somebody means by an id or the end of one.
async fn find(client: &Client, wanted: &str) -> Result<ConversationRow, Failure> {
    let value = client.get(&["v1", "conversations"], &[("limit", MOST)]).await?;
    let all: Vec<ConversationRow> = client.read_list(value)?;
    let wanted = wanted.trim_start_matches('…').to_lowercase();
    let mut found: Vec<ConversationRow> = all
        .into_iter()
        .filter(|row| !wanted.is_empty() && row.id.to_string().ends_with(&wanted))
        .collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failure::failed(format!(
            "no session's id ends in `{}`; `rookery sessions list` has them",
            strict(&wanted)
        ))),
        _ => Err(Failure::failed(format!(
            "`{}` is the end of several sessions' ids; give more of it",
            strict(&wanted)
        ))),
    }
}
