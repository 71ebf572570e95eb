//! What a model is told of handing work on: `delegate`, `spawn_subagent`, `tasks`.

use std::sync::{Arc, LazyLock};

use rookery_messages::BoxFuture;
use rookery_messages::tool::{CallEffects, Tool, ToolContext, ToolResult, ToolSpec};
use serde_json::{Map, Value, json};

use super::Delegator;
use super::task;

/// Hands a task on and waits for its result.
pub const DELEGATE: &str = "delegate";
/// Hands a task on and does not wait.
pub const SPAWN: &str = "spawn_subagent";
/// Looks after what was handed on in the background.
pub const TASKS: &str = "tasks";
/// All of them.
pub const NAMES: [&str; 3] = [DELEGATE, SPAWN, TASKS];

/// A turn's own tools for it.
pub(super) fn all(by: &Arc<Delegator>) -> [Arc<dyn Tool>; 3] {
    [
        Arc::new(Delegate),
        Arc::new(Spawn { by: Arc::downgrade(by) }),
        Arc::new(Tasks { by: Arc::downgrade(by) }),
    ]
}

fn handing_on(name: &str, description: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "task": {
                    "type": "string",
                    "description": "What is to be done, with all that has to be known: the sub-agent does not see this conversation.",
                },
                "agent": {"type": "string", "description": "Which agent does it. Default: the same."},
                "tools": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Only these of your tools. Default: all of them.",
                },
                "level": {
                    "type": "string",
                    "enum": ["readonly", "supervised", "full"],
                    "description": "Its autonomy; not more than yours.",
                },
                "allowed_commands": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Only these of your shell commands.",
                },
                "forbidden_paths": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Paths it may not touch.",
                },
                "max_iterations": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Most rounds of tool calls; not more than yours.",
                },
            },
            "required": ["task"],
            "additionalProperties": false,
        }),
    })
}

static DELEGATE_SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
    handing_on(
        DELEGATE,
        "Hands a task on to a sub-agent, waits for it, and gives its answer. Several of one response run at \
         the same time. It can't do more than you can.",
    )
});

static SPAWN_SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
    handing_on(
        SPAWN,
        "Hands a task on to a sub-agent in the background and gives the task's id at once. It goes on after \
         your answer. Use `tasks` to see where it stands. It can't do more than you can.",
    )
});

static TASKS_SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
    Arc::new(ToolSpec {
        name: TASKS.to_owned(),
        description:
            "Looks after background tasks of this conversation: lists them, tells one's state \
                      (running, done, failed, lost, cancelled), gives its result, or cancels it."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["list", "status", "result", "cancel"]},
                "task": {"type": "string", "description": "The task's id; not for `list`."},
                "wait_secs": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": task::MAX_WAIT_SECS,
                    "description": "With `result`: how long to wait for its end.",
                },
            },
            "required": ["action"],
            "additionalProperties": false,
        }),
    })
});

/// Handing on changes nothing by itself: what the child does is judged when it does it. So it is of low
/// risk, runs under every level, and of two that are the same both run (V-G11).
fn effects() -> CallEffects {
    CallEffects::read_only()
}

/// What a child says may hold what it read elsewhere.
fn answer() -> CallEffects {
    CallEffects { brings_in: true, ..effects() }
}

const NO_TURN: &str = "the turn that this call belongs to has ended";

/// `delegate`. Its calls run as actors of their own ([`super::DelegateActor`]), which own the child.
struct Delegate;

impl Tool for Delegate {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&DELEGATE_SPEC)
    }

    fn effects(&self, _: &Map<String, Value>) -> CallEffects {
        answer()
    }

    fn execute<'a>(
        &'a self,
        _: &'a Map<String, Value>,
        _: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async {
            ToolResult::failed("this call needs a turn that waits for it; use spawn_subagent here")
        })
    }
}

/// `spawn_subagent`.
struct Spawn {
    by: std::sync::Weak<Delegator>,
}

impl Tool for Spawn {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&SPAWN_SPEC)
    }

    fn effects(&self, _: &Map<String, Value>) -> CallEffects {
        effects()
    }

    fn execute<'a>(
        &'a self,
        arguments: &'a Map<String, Value>,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            match self.by.upgrade() {
                Some(by) => by.spawn_task(cx.call, arguments).await,
                None => ToolResult::failed(NO_TURN),
            }
        })
    }
}

/// `tasks`.
struct Tasks {
    by: std::sync::Weak<Delegator>,
}

impl Tool for Tasks {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&TASKS_SPEC)
    }

    /// It reaches what this conversation began itself, and nothing else.
    fn effects(&self, _: &Map<String, Value>) -> CallEffects {
        answer()
    }

    fn execute<'a>(
        &'a self,
        arguments: &'a Map<String, Value>,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            match self.by.upgrade() {
                Some(by) => by.look_after(arguments, &cx.cancel).await,
                None => ToolResult::failed(NO_TURN),
            }
        })
    }
}
