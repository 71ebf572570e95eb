//! What the model does with one request.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::gate::Gate;

/// One step of a reply's body.
#[derive(Clone)]
pub(super) enum Step {
    /// These bytes.
    Bytes(Bytes),
    /// Waits until the test opens the gate.
    Gate(Gate),
    /// Says nothing more and keeps the connection.
    Hang,
    /// Breaks the connection.
    Cut,
}

/// A reply: status, headers, and a body in steps. An SSE stream unless a status says otherwise.
#[derive(Clone)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) steps: VecDeque<Step>,
}

/// A tool call the model asks for.
#[derive(Clone)]
pub struct Call {
    /// The provider's id; none for providers that give none.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments' text, which may be malformed on purpose.
    pub arguments: String,
}

impl Call {
    /// With an id nobody else has.
    pub fn new(name: &str, arguments: Value) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = format!("call_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self { id: Some(id), name: name.to_owned(), arguments: arguments.to_string() }
    }

    /// A shell command.
    pub fn shell(command: &str) -> Self {
        Self::new("shell", json!({ "command": command }))
    }

    /// A shell command that says `<name>.started` by a file, waits for the file `<name>.go`, and prints
    /// `<name> done`.
    pub fn hold(name: &str) -> Self {
        Self::shell(&format!(
            "touch {name}.started; while [ ! -e {name}.go ]; do sleep 0.02; done; echo {name} done"
        ))
    }

    /// The id.
    pub fn wire_id(&self) -> String {
        self.id.clone().unwrap_or_default()
    }

    /// The same without an id.
    pub fn without_id(mut self) -> Self {
        self.id = None;
        self
    }
}

impl Reply {
    /// An empty event stream, to be filled step by step.
    pub fn stream() -> Self {
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        Self { status: 200, headers, steps: VecDeque::new() }
    }

    /// A whole answer in one delta.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::stream().delta(text.as_ref()).complete("stop")
    }

    /// A whole answer in several deltas.
    pub fn deltas<'a>(deltas: impl IntoIterator<Item = &'a str>) -> Self {
        deltas.into_iter().fold(Self::stream(), |reply, delta| reply.delta(delta)).complete("stop")
    }

    /// Asks for tools.
    pub fn calls(calls: impl IntoIterator<Item = Call>) -> Self {
        Self::stream().ask(calls).complete("tool_calls")
    }

    /// A refusal with an error object.
    pub fn error(status: u16, message: &str) -> Self {
        let body = json!({"error": {"message": message, "type": "error", "code": status}});
        Self {
            status,
            headers: vec![("content-type", "application/json".to_owned())],
            steps: [Step::Bytes(body.to_string().into())].into(),
        }
    }

    /// A page instead of a stream, with status 200.
    pub fn html() -> Self {
        let page = "<!doctype html><html><body><h1>Sign in to continue</h1></body></html>";
        Self {
            status: 200,
            headers: vec![("content-type", "text/html".to_owned())],
            steps: [Step::Bytes(page.into())].into(),
        }
    }

    /// Status 200, and an error object as its JSON body.
    pub fn error_in_200(message: &str) -> Self {
        Self { status: 200, ..Self::error(502, message) }
    }

    /// Takes the request and never answers.
    pub fn silence() -> Self {
        Self { steps: [Step::Hang].into(), ..Self::stream() }
    }

    /// Adds a header.
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Visible text.
    pub fn delta(self, text: &str) -> Self {
        self.chunk(json!({ "content": text }), None)
    }

    /// Tool calls: the id and name first, then the arguments in two pieces.
    pub fn ask(mut self, calls: impl IntoIterator<Item = Call>) -> Self {
        for (index, call) in calls.into_iter().enumerate() {
            let mut opening = json!({
                "index": index, "type": "function", "function": {"name": call.name, "arguments": ""}
            });
            if let Some(id) = call.id {
                opening["id"] = Value::String(id);
            }
            self = self.chunk(json!({ "tool_calls": [opening] }), None);
            let mut middle = call.arguments.len() / 2;
            while !call.arguments.is_char_boundary(middle) {
                middle += 1;
            }
            let (first, second) = call.arguments.split_at(middle);
            for piece in [first, second] {
                let piece = json!({"index": index, "function": {"arguments": piece}});
                self = self.chunk(json!({ "tool_calls": [piece] }), None);
            }
        }
        self
    }

    /// The terminal reason, usage and `[DONE]`.
    pub fn complete(self, reason: &str) -> Self {
        self.finish(reason).usage(10, 5).done()
    }

    /// The terminal reason alone.
    pub fn finish(self, reason: &str) -> Self {
        self.chunk(json!({}), Some(reason))
    }

    /// A usage chunk, without choices.
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.event(&json!({
            "choices": [],
            "usage": {"prompt_tokens": input, "completion_tokens": output}
        }))
    }

    /// The closing mark.
    pub fn done(self) -> Self {
        self.raw("data: [DONE]\n\n")
    }

    /// One event with this JSON.
    pub fn event(self, data: &Value) -> Self {
        self.raw(format!("data: {data}\n\n"))
    }

    /// These very bytes.
    pub fn raw(mut self, bytes: impl Into<Bytes>) -> Self {
        self.steps.push_back(Step::Bytes(bytes.into()));
        self
    }

    /// Waits at a gate.
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.steps.push_back(Step::Gate(gate.clone()));
        self
    }

    /// Nothing more comes; the connection stays.
    pub fn hang(mut self) -> Self {
        self.steps.push_back(Step::Hang);
        self
    }

    /// The connection breaks.
    pub fn cut(mut self) -> Self {
        self.steps.push_back(Step::Cut);
        self
    }

    /// Everything another reply's body does, after this one's.
    pub fn then(mut self, other: Reply) -> Self {
        self.steps.extend(other.steps);
        self
    }

    fn chunk(self, delta: Value, finish: Option<&str>) -> Self {
        self.event(&json!({
            "id": "chatcmpl-mock",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "mock",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]
        }))
    }
}
