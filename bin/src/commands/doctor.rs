//! `rookery doctor`: configuration, data folder, service.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::{Output, Remote};
use crate::client::{Client, Readiness};
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
    live: bool,
    output: Output,
) -> Result<Exit, Failure> {
    let mut findings: Vec<Finding> = Vec::new();
    if !live {
        // What is alive runs with what it has read, whatever stands in the file now.
        findings.push(match config::load(named, environment) {
            Ok(loaded) if loaded.warnings.is_empty() => ("config", Exit::Ok, "ok".to_owned()),
            Ok(loaded) => ("config", Exit::Ok, loaded.warning_lines().join("; ")),
            Err(errors) => ("config", Exit::Failed, errors.to_string()),
        });
    }
    findings.push(match endpoint::client(named, environment, remote) {
        Ok(client) if live => alive(&client).await,
        Ok(client) => service(&client).await,
        Err(failure) => ("service", failure.exit, failure.message),
    });
    to_stdout(&shown(&findings, output))?;
    Ok(findings.iter().map(|(_, exit, _)| *exit).find(|exit| *exit != Exit::Ok).unwrap_or(Exit::Ok))
}

async fn alive(client: &Client) -> Finding {
    match client.get(&["livez"], &[]).await {
        Ok(_) => ("service", Exit::Ok, format!("alive at {}", client.shown_base())),
        Err(error) => ("service", error.exit(), error.to_string()),
    }
}

async fn service(client: &Client) -> Finding {
    match client.readiness().await {
        Ok(readiness) => judged(&readiness, &client.shown_base()),
        Err(error) => ("service", error.exit(), error.to_string()),
    }
}

/// Ready, or what is missing and why.
fn judged(readiness: &Readiness, url: &str) -> Finding {
    let missing: Vec<String> = readiness
        .components
        .iter()
        .filter(|component| !component.ready)
        .map(|component| {
            let reason = component.reason.as_deref().unwrap_or("not ready");
            format!("{}: {reason}", component.name)
        })
        .collect();
    match (readiness.ready, missing.is_empty()) {
        (true, true) => ("service", Exit::Ok, format!("ready at {url}")),
        (true, false) => {
            ("service", Exit::Ok, format!("ready at {url}, without {}", missing.join("; ")))
        }
        (false, _) => {
            ("service", Exit::NotReady, format!("not ready at {url}: {}", missing.join("; ")))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_is_not_ready_is_told_with_its_components_and_why() {
        let read = |text: &str| judged(&serde_json::from_str(text).unwrap(), "http://h");
        let (_, exit, text) = read(
            r#"{"ready":false,"components":[{"name":"store","ready":false,"reason":"the disk is full"},
                {"name":"gateway","ready":true},{"name":"sessions","ready":false}]}"#,
        );
        assert_eq!(exit, Exit::NotReady);
        assert_eq!(text, "not ready at http://h: store: the disk is full; sessions: not ready");
        assert_eq!(read(r#"{"ready":true,"components":[]}"#).1, Exit::Ok);
        let (_, exit, text) = read(
            r#"{"ready":true,"components":[{"name":"mcp/files","ready":false,"reason":"failed: gone"}]}"#,
        );
        assert_eq!(
            (exit, text.as_str()),
            (Exit::Ok, "ready at http://h, without mcp/files: failed: gone")
        );
    }
}
