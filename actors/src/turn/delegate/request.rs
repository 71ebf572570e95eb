//! A call's arguments: what is handed on, to whom, with what.

use std::path::PathBuf;

use rookery_messages::settings::AutonomyLevel;
use rookery_messages::tool::text;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Longest task, in bytes.
const MAX_TASK_BYTES: usize = 64 * 1_024;

/// What a model may say.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// What is to be done.
    pub(super) task: String,
    /// Who is to do it; none: the same agent.
    #[serde(default)]
    pub(super) agent: Option<String>,
    /// Only these tools; none: those of the parent that its agent has.
    #[serde(default)]
    pub(super) tools: Option<Vec<String>>,
    #[serde(default)]
    pub(super) level: Option<AutonomyLevel>,
    #[serde(default)]
    pub(super) allowed_commands: Option<Vec<String>>,
    #[serde(default)]
    pub(super) forbidden_paths: Vec<PathBuf>,
    #[serde(default)]
    pub(super) max_iterations: Option<u32>,
}

impl Request {
    /// From the arguments; an error is what the model reads.
    pub(super) fn read(arguments: &Map<String, Value>) -> Result<Self, String> {
        let fail = |why: String| format!("{}{why}", text::INVALID_ARGUMENTS_PREFIX);
        // `null` counts as absent.
        let given: Map<String, Value> = arguments
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let request: Self = serde_json::from_value(Value::Object(given))
            .map_err(|error| fail(error.to_string()))?;
        if request.task.trim().is_empty() {
            return Err(fail("`task` is empty; say what is to be done".to_owned()));
        }
        if request.task.len() > MAX_TASK_BYTES {
            return Err(fail(format!("`task` is longer than {MAX_TASK_BYTES} bytes")));
        }
        if request.max_iterations == Some(0) {
            return Err(fail("`max_iterations` is 0; it must be 1 or more".to_owned()));
        }
        Ok(request)
    }
}
