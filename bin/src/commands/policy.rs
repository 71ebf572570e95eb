//! `rookery policy check`.

use serde_json::{Map, Value, json};

use crate::cli::Output;
use crate::config::Loaded;
use crate::exit::{Exit, Failure};
use crate::output::to_stdout;
use crate::policy_check::{PolicyAnswer, Verdict, policy_check};
use crate::render::{json_text, strict, table};
use crate::service::builtins;

/// Judges one call and prints the answer as JSON.
pub fn check(loaded: &Loaded, agent: &str, tool: &str, arguments: &str) -> Result<Exit, Failure> {
    let arguments = parse_arguments(arguments)?;
    let answer = policy_check(&loaded.settings, &loaded.own_files, agent, tool, &arguments)
        .map_err(|error| Failure::failed(error.to_string()))?;
    let value = serde_json::to_value(&answer)
        .map_err(|error| Failure::failed(format!("can't print the answer: {error}")))?;
    to_stdout(&format!("{}\n", json_text(&value)))?;
    Ok(exit_of(&answer))
}

/// Lists the built-in tools. Those of MCP servers are called `<server>__<tool>`; only their servers know them.
pub fn tools(output: Output) -> Result<Exit, Failure> {
    let all = builtins();
    let text = if output.json {
        let all = all.iter().map(|(name, about)| json!({ "name": name, "description": about }));
        format!("{}\n", json_text(&Value::Array(all.collect())))
    } else {
        let short = |about: &str| about.split(". ").next().unwrap_or_default().to_owned();
        let rows: Vec<Vec<String>> =
            all.iter().map(|(name, about)| vec![strict(name), strict(&short(about))]).collect();
        table(&["TOOL", "WHAT IT DOES"], &rows)
    };
    to_stdout(&text)?;
    Ok(Exit::Ok)
}

fn parse_arguments(text: &str) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::new(
            Exit::Usage,
            format!("--args is not a JSON object: {error}; write it like '{{}}'"),
        )
    })
}

/// Blocked is refused by policy; a call that would ask is not refused.
fn exit_of(answer: &PolicyAnswer) -> Exit {
    match answer.decision {
        Verdict::Allowed | Verdict::NeedsApproval => Exit::Ok,
        Verdict::Blocked => Exit::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rookery_messages::approval::Risk;

    #[test]
    fn arguments_that_are_no_object_are_a_usage_error() {
        assert!(parse_arguments("{\"a\":1}").is_ok());
        for text in ["", "[]", "{", "1"] {
            assert_eq!(parse_arguments(text).unwrap_err().exit, Exit::Usage, "{text}");
        }
    }

    #[test]
    fn the_answer_has_the_words_of_the_contract() {
        let answer = PolicyAnswer {
            decision: Verdict::NeedsApproval,
            risk: Risk::Medium,
            reason: "r".to_owned(),
        };
        assert_eq!(
            serde_json::to_string(&answer).unwrap(),
            r#"{"decision":"needs_approval","risk":"medium","reason":"r"}"#
        );
        assert_eq!(exit_of(&answer), Exit::Ok);
        assert_eq!(exit_of(&PolicyAnswer { decision: Verdict::Blocked, ..answer }), Exit::Refused);
    }
}
