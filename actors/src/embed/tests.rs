//! The engine as another program uses it.

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::BoxFuture;
use rookery_messages::approval::Decision;
use rookery_messages::chat::Usage;
use rookery_messages::event::TurnEventKind;
use rookery_messages::model::{
    FinishReason, ModelDelta, ModelError, ModelErrorClass, ModelProvider, ModelRequest,
    ModelStream, RawCall,
};
use rookery_messages::settings::{AutonomyLevel, Durability, RiskProfile, Secret};
use rookery_messages::tool::{
    CallEffects, Effects, Reach, Tool, ToolContext, ToolResult, ToolSpec,
};
use rookery_messages::turn::Outcome;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::*;

/// Calls `write` when told to, hangs when told to, and echoes all else.
struct Echo(mpsc::Sender<()>);

impl ModelProvider for Echo {
    fn kind(&self) -> &str {
        "echo"
    }

    fn model(&self) -> &str {
        "echo-1"
    }

    fn stream(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        let last = request.messages.last().map(|m| m.text().to_owned()).unwrap_or_default();
        let users = request.messages.iter().filter(|m| m.starts_turn()).count();
        Box::pin(async move {
            let ended = |calls: Vec<RawCall>| {
                let finish =
                    if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
                Ok(ModelDelta::Ended { calls, finish })
            };
            let usage = ModelDelta::Usage(Usage { input: 3, output: 1 });
            let deltas = match last.as_str() {
                "write" => {
                    let (name, arguments) = ("write".to_owned(), "{}".to_owned());
                    vec![ended(vec![RawCall { provider_id: None, name, arguments }])]
                }
                "hang" => {
                    let _ = self.0.try_send(());
                    return Ok(Box::pin(futures_util::stream::pending()) as ModelStream);
                }
                _ => {
                    vec![Ok(ModelDelta::Text(format!("{users}: {last}"))), Ok(usage), ended(vec![])]
                }
            };
            Ok(Box::pin(futures_util::stream::iter(deltas)) as ModelStream)
        })
    }
}

struct Write;

impl Tool for Write {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(ToolSpec {
            name: "write".into(),
            description: "writes".into(),
            parameters: json!({ "type": "object" }),
        })
    }

    fn effects(&self, _: &Map<String, Value>) -> CallEffects {
        CallEffects { effects: Effects::Once, reach: Reach::Workspace, ..CallEffects::read_only() }
    }

    fn execute<'a>(
        &'a self,
        _: &'a Map<String, Value>,
        _: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("written") })
    }
}

fn echo() -> (Arc<Echo>, mpsc::Receiver<()>) {
    let (hangs, hung) = mpsc::channel(16);
    (Arc::new(Echo(hangs)), hung)
}

// R15
#[tokio::test]
async fn conversations_are_kept_apart_and_each_has_its_history() {
    let (provider, _) = echo();
    let agent = Agent::builder(provider).build().await.unwrap();
    let said = |conversation: &'static str, text: &'static str| {
        let agent = &agent;
        async move { agent.send(conversation, text).await.unwrap().finish().await.unwrap() }
    };
    assert_eq!(said("a", "one").await.reply.as_deref(), Some("1: one"));
    assert_eq!(said("a", "two").await.reply.as_deref(), Some("2: two"));
    let other = said("b", "three").await;
    assert_eq!(other.reply.as_deref(), Some("1: three"));
    assert_eq!((other.outcome, other.usage), (Outcome::Answered, Usage { input: 3, output: 1 }));
    assert_eq!(agent.history("a", 10).await.unwrap().unwrap().len(), 4);
    assert_eq!(agent.history("c", 10).await.unwrap(), None);
    // V-A1
    assert!(matches!(agent.send("a", "  ").await, Err(EmbedError::Text(_))));
    agent.close().await;
}

// R3, B2: what was said under an id is one message, also for the next agent on the same store
#[tokio::test]
async fn a_store_outlives_its_agent() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.db");
    let mut turns = Vec::new();
    for _ in 0..2 {
        let (provider, _) = echo();
        let builder = Agent::builder(provider).workspace(dir.path().join("work"));
        let agent = builder.store(&file, Durability::Power).build().await.unwrap();
        let run = agent.send_once("a", "m1", "one").await.unwrap();
        turns.push(run.id());
        assert_eq!(run.finish().await.unwrap().reply.as_deref(), Some("1: one"));
        agent.close().await;
    }
    assert_eq!(turns[0], turns[1]);
}

// R19, I6: by hand, and by dropping it
#[tokio::test]
async fn a_turn_is_cancelled_by_its_handle_or_by_letting_go_of_it() {
    let (provider, mut hung) = echo();
    let agent = Agent::builder(provider).build().await.unwrap();
    let run = agent.send("a", "hang").await.unwrap();
    hung.recv().await.unwrap();
    run.cancel();
    assert_eq!(run.finish().await.unwrap().outcome, Outcome::Cancelled);
    let run = agent.send("a", "hang").await.unwrap();
    let turn = run.id();
    hung.recv().await.unwrap();
    // This one has not begun: it is cancelled by its row.
    let waiting = agent.send("a", "write").await.unwrap();
    let waits = waiting.id();
    drop(waiting);
    drop(run);
    assert_eq!(
        agent.send("a", "on").await.unwrap().finish().await.unwrap().outcome,
        Outcome::Answered
    );
    for turn in [turn, waits] {
        let record = agent.record(turn).await;
        assert_eq!(record.outcome, Some(Outcome::Cancelled));
    }
    agent.close().await;
}

// V-H3, I7
#[tokio::test]
async fn the_program_answers_approvals_if_it_said_so() {
    for asks in [true, false] {
        let (provider, _) = echo();
        let mut builder = Agent::builder(provider).tool(Arc::new(Write));
        if asks {
            builder = builder.asks(Duration::from_secs(60));
        }
        let agent = builder.build().await.unwrap();
        let mut run = agent.send("a", "write").await.unwrap();
        let mut ran = false;
        let mut asked = 0;
        while let Some(event) = run.next().await {
            match event {
                TurnEventKind::Approval { approval } if approval.decision.is_none() => {
                    asked += 1;
                    agent.decide(&approval, Decision::Approve).await.unwrap();
                }
                TurnEventKind::ToolResult { output, .. } => ran = output == "written",
                _ => {}
            }
        }
        assert_eq!((asked, ran), (usize::from(asks), asks));
        agent.close().await;
    }
}

/// Remembers what it is told to, and echoes all else with what it was told before it.
struct Remembering;

impl ModelProvider for Remembering {
    fn kind(&self) -> &str {
        "remembering"
    }

    fn model(&self) -> &str {
        "remembering-1"
    }

    fn stream(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        let last = request.messages.last().map(|m| m.text().to_owned()).unwrap_or_default();
        let deltas = match last.strip_prefix("remember ") {
            Some(content) => {
                let arguments = json!({ "key": "note", "content": content }).to_string();
                let name = "memory_store".to_owned();
                let calls = vec![RawCall { provider_id: None, name, arguments }];
                vec![Ok(ModelDelta::Ended { calls, finish: FinishReason::ToolCalls })]
            }
            None => vec![
                Ok(ModelDelta::Text(last)),
                Ok(ModelDelta::Ended { calls: Vec::new(), finish: FinishReason::Stop }),
            ],
        };
        Box::pin(async { Ok(Box::pin(futures_util::stream::iter(deltas)) as ModelStream) })
    }
}

fn trusting() -> RiskProfile {
    RiskProfile { level: AutonomyLevel::Full, ..RiskProfile::default() }
}

// R15, R5, R11
#[tokio::test]
async fn an_agent_that_remembers_tells_its_next_conversation_also_after_it_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("memory.db");
    let builder = || {
        let builder = Agent::builder(Arc::new(Remembering)).risk(trusting());
        builder.secret(Secret::new("hunter2-hunter2"))
    };
    let agent = builder().remembers_in(&file).build().await.unwrap();
    let said = async |agent: &Agent, conversation: &str, text: &str| {
        agent.send(conversation, text).await.unwrap().finish().await.unwrap().reply.unwrap()
    };
    let note = "remember the boat is green, its code hunter2-hunter2";
    assert!(said(&agent, "a", note).await.contains("note"));
    let told = "- note: the boat is green, its code [redacted]";
    let asked = "which colour has the boat";
    assert!(said(&agent, "b", asked).await.contains(told));
    agent.close().await;
    let agent = builder().remembers_in(&file).build().await.unwrap();
    assert!(said(&agent, "c", asked).await.contains(told));
    agent.close().await;
    // A memory that goes with the agent begins empty, and without one there is nothing to be told.
    for builder in [builder().remembers(), builder()] {
        let agent = builder.build().await.unwrap();
        assert_eq!(said(&agent, "d", asked).await, asked);
        agent.close().await;
    }
}

// R17
#[tokio::test]
async fn a_fallback_answers_when_the_provider_before_it_can_not() {
    struct Closed;
    impl ModelProvider for Closed {
        fn kind(&self) -> &str {
            "closed"
        }
        fn model(&self) -> &str {
            "closed-1"
        }
        fn stream(&self, _: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
            Box::pin(async { Err(ModelError::new(ModelErrorClass::Auth, "no such key")) })
        }
    }
    let (provider, _) = echo();
    let agent = Agent::builder(Arc::new(Closed)).fallback(provider).build().await.unwrap();
    let finished = agent.send("a", "one").await.unwrap().finish().await.unwrap();
    assert_eq!(finished.reply.as_deref(), Some("1: one"));
    agent.close().await;
}

#[tokio::test]
async fn what_cannot_be_built_is_said_at_once() {
    let (provider, _) = echo();
    let twice = Agent::builder(provider).tool(Arc::new(Write)).tool(Arc::new(Write));
    assert!(matches!(twice.build().await, Err(EmbedError::Tool(_))));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let (provider, _) = echo();
    let error = Agent::builder(provider).workspace(file.join("below")).build().await.err().unwrap();
    assert!(error.to_string().contains("the workspace can't be made"), "{error}");
    let (provider, _) = echo();
    let broken = Agent::builder(provider).store(file.join("x.db"), Durability::Process);
    assert!(matches!(broken.build().await, Err(EmbedError::Start(_))));
    let (provider, _) = echo();
    let broken = Agent::builder(provider).remembers_in(file.join("x.db"));
    assert!(matches!(broken.build().await, Err(EmbedError::Start(_))));
}
