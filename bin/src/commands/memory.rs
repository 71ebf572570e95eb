//! `rookery memory …`: what the running service remembers.

use rookery_messages::memory::{MAX_ANSWER, MemoryEntry};
use serde_json::Value;

use super::remote::print;
use crate::cli::{MemoryCommand, MemoryWhich};
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::to_stdout;
use crate::render::memory;

const ROUTE: [&str; 3] = ["admin", "v1", "memory"];

pub(super) async fn run(client: &Client, command: MemoryCommand) -> Result<(), Failure> {
    match command {
        MemoryCommand::List { which, all, limit, output } => {
            let limit = limit.map(|limit| limit.to_string());
            let mut query = which.query();
            query.extend(all.then_some(("all", "true")));
            query.extend(limit.as_deref().map(|limit| ("limit", limit)));
            let value = client.get(&ROUTE, &query).await?;
            print(output, value, |value| Ok(memory::entries(&client.read_list(value)?)))
        }
        MemoryCommand::Coverage(output) => {
            let value = client.get(&[&ROUTE[..], &["coverage"]].concat(), &[]).await?;
            print(output, value, |value| Ok(memory::coverage(client.read(value)?)))
        }
        MemoryCommand::Search { text, which, limit, output } => {
            let limit = limit.map(|limit| limit.to_string());
            let mut query = which.query();
            query.push(("query", text.as_str()));
            query.extend(limit.as_deref().map(|limit| ("limit", limit)));
            let value = client.get(&ROUTE, &query).await?;
            print(output, value, |value| Ok(memory::found(&client.read_list(value)?)))
        }
        MemoryCommand::Show { id, output } => {
            let value = client.get(&[&ROUTE[..], &[id.as_str()]].concat(), &[]).await?;
            print(output, value, |value| Ok(memory::entry(&client.read(value)?)))
        }
        MemoryCommand::Forget { id: Some(id), output, .. } => {
            let value = client.delete(&[&ROUTE[..], &[id.as_str()]].concat(), &[]).await?;
            print(output, value, |value| Ok(memory::forgotten(&value)))
        }
        MemoryCommand::Forget { id: None, which, output } => {
            let query = which.query();
            if query.is_empty() {
                let text = "name what is to be forgotten: an id, or --agent, --key, --source, --category, --conversation-id";
                return Err(Failure::new(Exit::Usage, text));
            }
            let value = client.delete(&ROUTE, &query).await?;
            print(output, value, |value| Ok(memory::forgotten(&value)))
        }
        MemoryCommand::Export { which, all } => export(client, &which, all).await,
    }
}

/// Page by page, so that neither side holds all of it.
async fn export(client: &Client, which: &MemoryWhich, all: bool) -> Result<(), Failure> {
    let limit = MAX_ANSWER.to_string();
    let mut before: Option<String> = None;
    loop {
        let mut query = which.query();
        query.extend(all.then_some(("all", "true")));
        query.push(("limit", limit.as_str()));
        query.extend(before.as_deref().map(|before| ("before", before)));
        let page: Vec<Value> = client.read_list(client.get(&ROUTE, &query).await?)?;
        for value in &page {
            to_stdout(&format!("{value}\n"))?;
        }
        match page.last() {
            Some(last) if page.len() >= MAX_ANSWER as usize => {
                let last: MemoryEntry = client.read(last.clone())?;
                before = Some(last.id.to_string());
            }
            _ => return Ok(()),
        }
    }
}
