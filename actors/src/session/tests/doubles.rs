//! What plays the world: a scripted provider, tools that misbehave, stores that refuse or hang, a sink.

use rookery_messages::exit::ActorError;
use rookery_messages::store::{StoreMsg, StoreReader};

use super::*;
use crate::runtime::{Ctx, Supervised};

pub(super) type Reply = Result<Vec<Result<ModelDelta, ModelError>>, ModelError>;

/// In the place of a number of deltas: it talks for ever.
pub(super) const TRICKLES: usize = usize::MAX;

/// Answers with what was scripted, and keeps every request.
#[derive(Default)]
pub(super) struct Scripted {
    pub(super) replies: Mutex<VecDeque<Reply>>,
    pub(super) requests: Mutex<Vec<ModelRequest>>,
    pub(super) hang_after: Mutex<Option<usize>>,
}

impl ModelProvider for Scripted {
    fn kind(&self) -> &str {
        "scripted"
    }

    fn model(&self) -> &str {
        "scripted-1"
    }

    fn stream(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        self.requests.lock().push(request);
        let reply = self.replies.lock().pop_front();
        let hang = self.hang_after.lock().take();
        Box::pin(async move {
            let deltas = reply.unwrap_or_else(|| says("done"))?;
            match hang {
                Some(TRICKLES) => {
                    let words = stream::unfold((), |()| async {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        Some((Ok(ModelDelta::Text("word ".into())), ()))
                    });
                    Ok(Box::pin(words) as ModelStream)
                }
                Some(n) => {
                    let shown: Vec<_> = deltas.into_iter().take(n).collect();
                    let stuck = stream::pending();
                    let both = futures_util::StreamExt::chain(stream::iter(shown), stuck);
                    Ok(Box::pin(both) as ModelStream)
                }
                None => Ok(Box::pin(stream::iter(deltas)) as ModelStream),
            }
        })
    }
}

pub(super) fn ended(calls: Vec<RawCall>) -> Result<ModelDelta, ModelError> {
    let finish = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    Ok(ModelDelta::Ended { calls, finish })
}

pub(super) fn says(words: &str) -> Reply {
    let usage = Usage { input: 10, output: 2 };
    Ok(vec![Ok(ModelDelta::Text(words.into())), Ok(ModelDelta::Usage(usage)), ended(vec![])])
}

pub(super) fn asks(calls: &[(&str, Value)]) -> Reply {
    let calls = calls
        .iter()
        .enumerate()
        .map(|(n, (name, arguments))| RawCall {
            provider_id: Some(format!("call_{n}")),
            name: (*name).to_owned(),
            arguments: arguments.to_string(),
        })
        .collect();
    Ok(vec![Ok(ModelDelta::Text("let me see".into())), ended(calls)])
}

/// One tool whose behaviour its arguments choose.
pub(super) struct Probe {
    pub(super) name: &'static str,
    pub(super) effects: Effects,
    pub(super) runs: Arc<Mutex<Vec<String>>>,
    pub(super) gate: Arc<Notify>,
    pub(super) began: mpsc::Sender<()>,
}

impl Tool for Probe {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(ToolSpec {
            name: self.name.into(),
            description: "a probe".into(),
            parameters: json!({ "type": "object", "properties": { "do": { "type": "string" } } }),
        })
    }

    fn effects(&self, arguments: &Map<String, Value>) -> CallEffects {
        CallEffects {
            effects: self.effects,
            reach: Reach::Workspace,
            command: arguments.get("command").and_then(Value::as_str).map(str::to_owned),
            brings_in: self.name == "fetch",
            carries_out: self.name == "share",
            ..CallEffects::read_only()
        }
    }

    fn execute<'a>(
        &'a self,
        arguments: &'a Map<String, Value>,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let what = arguments.get("do").and_then(Value::as_str).unwrap_or("say").to_owned();
            self.runs.lock().push(what.clone());
            match what.as_str() {
                "fail" => ToolResult::failed("exit 1"),
                "empty" => ToolResult::ok(""),
                "authority" => ToolResult::ok(format!("{:?}", cx.authority)),
                "panic" => panic!("probe panics"),
                "wait" => {
                    let _ = self.began.send(()).await;
                    self.gate.notified().await;
                    ToolResult::ok("waited")
                }
                "hang" => {
                    let _ = self.began.send(()).await;
                    cx.cancel.cancelled().await;
                    ToolResult::failed("cancelled")
                }
                "deaf" => {
                    std::future::pending::<()>().await;
                    ToolResult::ok("never")
                }
                "slow" => {
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    ToolResult::ok("said slow")
                }
                other => ToolResult::ok(format!("said {other}")),
            }
        })
    }
}

/// Keeps the answers of claims back while it is closed.
#[derive(Clone, Default)]
pub(super) struct Hold(pub(super) Arc<(Mutex<bool>, parking_lot::Condvar)>);

impl Hold {
    pub(super) fn set(&self, held: bool) {
        *self.0.0.lock() = held;
        self.0.1.notify_all();
    }

    pub(super) fn wait(&self) {
        let mut held = self.0.0.lock();
        while *held {
            self.0.1.wait(&mut held);
        }
    }
}

pub(super) struct HeldStore(pub(super) Moody, pub(super) Hold);

impl Store for HeldStore {
    fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>> {
        let answers = self.0.apply(writes);
        if writes.iter().any(|write| matches!(write, Write::Claim(_))) {
            self.1.wait();
        }
        answers
    }

    fn begin_life(&mut self, at: jiff::Timestamp) -> Result<(), StoreError> {
        self.0.begin_life(at)
    }
}

pub(super) type Refusal = Box<dyn Fn(&Write) -> bool + Send>;

/// Refuses the first write that fits, for a passing reason.
pub(super) struct Moody {
    pub(super) inner: Box<dyn Store>,
    pub(super) refuse: Arc<Mutex<Option<Refusal>>>,
}

impl Store for Moody {
    fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>> {
        let mut refuse = self.refuse.lock();
        let fits = |write: &Write| refuse.as_ref().is_some_and(|refuse| refuse(write));
        let Some(at) = writes.iter().position(fits) else { return self.inner.apply(writes) };
        *refuse = None;
        let mut answers = self.inner.apply(&writes[..at]);
        answers.push(Err(StoreError::Busy));
        answers.extend(self.inner.apply(&writes[at + 1..]));
        answers
    }

    fn begin_life(&mut self, at: jiff::Timestamp) -> Result<(), StoreError> {
        self.inner.begin_life(at)
    }
}

/// Keeps what an observer is told.
#[derive(Default)]
pub(super) struct Sink(pub(super) Mutex<Vec<Observation>>);

impl Observer for Sink {
    fn observe(&self, observation: &Observation) {
        self.0.lock().push(observation.clone());
    }
}

/// The store without its threads: each request is answered in the handler.
pub(super) struct InlineStore;

pub(super) struct Inline {
    writer: Box<dyn Store>,
    reader: Box<dyn StoreReader>,
}

impl Supervised for InlineStore {
    const KIND: &'static str = "store";
    type Msg = StoreMsg;
    type Args = OpenStore;
    type State = Inline;

    fn start(_: &mut Ctx<Self>, open: OpenStore) -> Result<Inline, ActorError> {
        let OpenedStore { writer, mut readers } = open().unwrap();
        Ok(Inline { writer, reader: readers.remove(0) })
    }

    async fn handle(
        _: &mut Ctx<Self>,
        state: &mut Inline,
        message: StoreMsg,
    ) -> Result<(), ActorError> {
        // An asker that is gone needs no answer.
        match message {
            StoreMsg::Write { write, reply } => {
                let _ = reply.send(state.writer.apply(&[write]).remove(0));
            }
            StoreMsg::Read { read, reply } => {
                let _ = reply.send(state.reader.read(&read));
            }
            StoreMsg::WriterEnded { .. } => {}
        }
        Ok(())
    }
}
