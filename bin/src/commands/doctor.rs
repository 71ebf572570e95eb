//! `rookery doctor`: configuration, data folder, service.

use std::path::Path;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::cli::{Output, Remote};
use crate::client::{Client, ClientError};
use crate::config::{self, Environment};
use crate::endpoint;
use crate::exit::{Exit, Failure};
use crate::output::to_stdout;
use crate::render::{json_text, prose};

/// One check: its name, its exit code, what was found.
type Finding = (&'static str, Exit, String);

/// Checks in order; the exit code is that of the first that fails.
pub async fn run(
    named: Option<&Path>,
    environment: &Environment,
    remote: &Remote,
    output: Output,
) -> Result<Exit, Failure> {
    let mut findings: Vec<Finding> = vec![match config::load(named, environment) {
        Ok(_) => ("config", Exit::Ok, "ok".to_owned()),
        Err(errors) => ("config", Exit::Failed, errors.to_string()),
    }];
    findings.push(match endpoint::client(named, environment, remote) {
        Ok(client) => service(&client).await,
        Err(failure) => ("service", failure.exit, failure.message),
    });
    to_stdout(&shown(&findings, output))?;
    Ok(findings.iter().map(|(_, exit, _)| *exit).find(|exit| *exit != Exit::Ok).unwrap_or(Exit::Ok))
}

async fn service(client: &Client) -> Finding {
    match client.get(&["readyz"], &[]).await {
        Ok(_) => ("service", Exit::Ok, format!("ready at {}", client.shown_base())),
        Err(ClientError::Refused { status: StatusCode::SERVICE_UNAVAILABLE, .. }) => (
            "service",
            Exit::NotReady,
            format!("not ready; GET {}/readyz names the component", client.shown_base()),
        ),
        Err(error) => ("service", error.exit(), error.to_string()),
    }
}

fn shown(findings: &[Finding], output: Output) -> String {
    if output.json {
        let checks: Vec<Value> = findings
            .iter()
            .map(|(name, exit, text)| json!({ "check": name, "ok": *exit == Exit::Ok, "text": text }))
            .collect();
        return format!("{}\n", json_text(&json!({ "checks": checks })));
    }
    findings
        .iter()
        .map(|(name, exit, text)| {
            let mark = if *exit == Exit::Ok { "ok  " } else { "FAIL" };
            format!("{mark}  {name}: {}\n", prose(text))
        })
        .collect()
}
