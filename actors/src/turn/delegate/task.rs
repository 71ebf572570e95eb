//! Background tasks: begun, looked at, cancelled. What became of one stands in its turn's record (T24).

use std::time::Duration;

use rookery_messages::approval::Decider;
use rookery_messages::delegation::{ChildMode, TaskState};
use rookery_messages::ids::{CallId, TurnId};
use rookery_messages::session::RouterMsg;
use rookery_messages::store::{CancelOutcome, StoreError};
use rookery_messages::tool::{ToolResult, head, text};
use rookery_messages::turn::TurnRecord;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::Delegator;
use super::actor::result_of;
use super::begin::Begun;
use crate::policy::display::visible;

/// Longest wait for a result, in seconds.
pub(super) const MAX_WAIT_SECS: u64 = 90;
/// Tasks in a list.
const LISTED: u32 = 50;
/// How much of a task's or a result's text a line shows, in bytes.
const LINE: usize = 120;
/// How long the router may take to have room.
const HINT_LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Status,
    Result,
    Cancel,
}

#[derive(Debug, Deserialize)]
struct Wanted {
    action: Action,
    #[serde(default)]
    task: Option<String>,
    #[serde(default)]
    wait_secs: Option<u64>,
}

impl Delegator {
    /// Begins a task. A session runs it; the id is that of its turn.
    pub(super) async fn spawn_task(
        &self,
        call: CallId,
        arguments: &Map<String, Value>,
    ) -> ToolResult {
        match self.begin(call, arguments, ChildMode::Task).await {
            Ok(Begun { turn, conversation_id }) => {
                let hint = RouterMsg::hint(conversation_id);
                // A lost hint costs time only: the router looks for rows that nobody runs.
                let _ = self.deps.router.try_send(hint);
                ToolResult::ok(format!(
                    "Task {turn} is begun in the background. Its state says what became of it: `tasks` with \
                     `status` or `result`."
                ))
            }
            Err(why) => ToolResult::failed(why),
        }
    }

    /// `tasks`.
    pub(super) async fn look_after(
        &self,
        arguments: &Map<String, Value>,
        cancel: &CancellationToken,
    ) -> ToolResult {
        let wanted: Wanted = match serde_json::from_value(Value::Object(arguments.clone())) {
            Ok(wanted) => wanted,
            Err(error) => {
                return ToolResult::failed(format!("{}{error}", text::INVALID_ARGUMENTS_PREFIX));
            }
        };
        let done = match wanted.action {
            Action::List => self.list().await,
            action => self.one(action, &wanted, cancel).await,
        };
        done.unwrap_or_else(ToolResult::failed)
    }

    async fn list(&self) -> Result<ToolResult, String> {
        let tasks = self.deps.store.tasks(self.root(), LISTED).await.map_err(unreadable)?;
        if tasks.is_empty() {
            return Ok(ToolResult::ok("no background tasks in this conversation"));
        }
        let lines: Vec<String> = tasks.iter().map(line).collect();
        Ok(ToolResult::ok(lines.join("\n")))
    }

    async fn one(
        &self,
        action: Action,
        wanted: &Wanted,
        cancel: &CancellationToken,
    ) -> Result<ToolResult, String> {
        let id: TurnId =
            wanted.task.as_deref().and_then(|id| id.parse().ok()).ok_or_else(|| {
                format!("{}`task` must be a task's id", text::INVALID_ARGUMENTS_PREFIX)
            })?;
        let wait = wanted.wait_secs.unwrap_or(0).min(MAX_WAIT_SECS);
        let task = self.task(id).await?;
        match action {
            Action::List | Action::Status => Ok(ToolResult::ok(line(&task))),
            Action::Cancel => self.cancel(&task).await,
            Action::Result => {
                let task = self.waited(task, Duration::from_secs(wait), cancel).await?;
                Ok(match task.task {
                    Some(TaskState::Running) | None => ToolResult::ok(line(&task)),
                    Some(TaskState::Done) => result_of(&task),
                    Some(TaskState::Failed | TaskState::Lost | TaskState::Cancelled) => {
                        ToolResult::failed(line(&task))
                    }
                })
            }
        }
    }

    /// A task of this conversation. One of another does not exist here.
    async fn task(&self, id: TurnId) -> Result<TurnRecord, String> {
        let found = self.deps.store.turn(id).await.map_err(unreadable)?;
        found
            .filter(|turn| {
                turn.task.is_some() && turn.parent.as_ref().is_some_and(|of| of.root == self.root())
            })
            .ok_or_else(|| format!("there is no task {id} in this conversation"))
    }

    async fn waited(
        &self,
        task: TurnRecord,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<TurnRecord, String> {
        if task.task != Some(TaskState::Running) || limit.is_zero() {
            return Ok(task);
        }
        let mut events = self.deps.hub.subscribe(task.conversation_id, None);
        // It may have ended before there was anybody to hear of it.
        let again = self.task(task.id).await?;
        if again.task != Some(TaskState::Running) {
            return Ok(again);
        }
        let end = tokio::time::timeout(limit, events.end_of(task.id));
        let _told_or_not = cancel.run_until_cancelled(end).await;
        self.task(task.id).await
    }

    async fn cancel(&self, task: &TurnRecord) -> Result<ToolResult, String> {
        let by = Decider {
            who: format!("agent {}", self.bundle.name.as_str()),
            via: format!("turn {}", self.turn),
        };
        let outcome = self.deps.store.cancel_turn(task.id, self.world.now(), by).await;
        match outcome.map_err(unreadable)? {
            CancelOutcome::Marked => {
                let hint = RouterMsg::Cancel { conversation: task.conversation_id, turn: task.id };
                let sent = tokio::time::timeout(HINT_LIMIT, self.deps.router.send(hint)).await;
                if !matches!(sent, Ok(Ok(()))) {
                    tracing::warn!(task = %task.id, "a task's session could not be told of its cancel");
                }
                Ok(ToolResult::ok(format!("task {} is being stopped", task.id)))
            }
            CancelOutcome::Ended => Ok(ToolResult::ok(format!("task {} is cancelled", task.id))),
            CancelOutcome::AlreadyEnded => Ok(ToolResult::ok(line(&self.task(task.id).await?))),
            CancelOutcome::NotFound => Err(format!("there is no task {}", task.id)),
        }
    }
}

/// What is said of a task that has ended, to the people of its conversation.
pub(crate) fn notice(turn: TurnId, state: TaskState, said: &str) -> String {
    let said = visible(head(said, LINE));
    format!("background task {turn} is {}: {said}", state.as_str())
}

fn line(task: &TurnRecord) -> String {
    let state = task.task.map_or("running", TaskState::as_str);
    let more = match (&task.reply, &task.error) {
        (Some(reply), _) => format!(": {}", visible(head(reply, LINE))),
        (None, Some(error)) => format!(": {}: {}", error.code, visible(&error.message)),
        (None, None) => String::new(),
    };
    format!("{} {state}{more}", task.id)
}

fn unreadable(error: StoreError) -> String {
    format!("the tasks can't be read now: {error}; try again")
}
