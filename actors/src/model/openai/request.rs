//! The body of a chat completions request (OpenAI API reference, "Create chat completion").

use std::borrow::Cow;

use rookery_messages::chat::{ChatMessage, ToolCall};
use rookery_messages::model::ModelRequest;
use rookery_messages::tool::{ToolSpec, text};
use serde::Serialize;
use serde_json::Value;

use super::offer::Offer;

/// Longest function name the API takes.
const MAX_NAME: usize = 64;

/// The body's bytes. Deterministic: the same request gives the same bytes.
pub(super) fn body(
    model: &str,
    request: &ModelRequest,
    offers: &[Offer],
) -> serde_json::Result<Vec<u8>> {
    let mut body = serde_json::to_vec(&Body {
        model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        messages: request.messages.iter().map(WireMessage::from).collect(),
    })?;
    if !offers.is_empty() {
        // Before the closing brace: the tools are JSON already, the same in every request.
        body.pop();
        body.extend_from_slice(b",\"tools\":[");
        for (index, offer) in offers.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(offer.wire.as_bytes());
        }
        body.extend_from_slice(b"]}");
    }
    Ok(body)
}

/// One tool as the API is told of it.
pub(super) fn wire_tool(spec: &ToolSpec, parameters: &Value) -> String {
    serde_json::json!({
        "type": "function",
        "function": {
            "name": spec.name,
            "description": spec.description,
            "parameters": parameters,
        },
    })
    .to_string()
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    messages: Vec<WireMessage<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: &'a str,
    },
    Assistant {
        /// Null, not blank, beside calls: blank texts are refused by some servers (A048).
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

impl<'a> From<&'a ChatMessage> for WireMessage<'a> {
    fn from(message: &'a ChatMessage) -> Self {
        match message {
            ChatMessage::System { text } => Self::System { content: text },
            ChatMessage::User { text, .. } => Self::User { content: text },
            ChatMessage::Assistant { text, calls, interrupted } => Self::Assistant {
                content: if text.trim().is_empty() && !calls.is_empty() {
                    None
                } else {
                    Some(marked(text, *interrupted))
                },
                tool_calls: calls.iter().map(WireCall::from).collect(),
            },
            ChatMessage::Tool { wire_id, output, .. } => {
                Self::Tool { tool_call_id: wire_id, content: output }
            }
        }
    }
}

/// A partial answer says that it is one.
fn marked(answer: &str, interrupted: bool) -> Cow<'_, str> {
    if interrupted && !answer.trim_end().ends_with(text::INTERRUPTED_MARKER) {
        Cow::Owned(format!("{answer} {}", text::INTERRUPTED_MARKER))
    } else {
        Cow::Borrowed(answer)
    }
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: String,
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: Cow<'a, str>,
    arguments: String,
}

impl<'a> From<&'a ToolCall> for WireCall<'a> {
    fn from(call: &'a ToolCall) -> Self {
        Self {
            id: call.wire_id(),
            r#type: "function",
            function: WireFunction {
                name: wire_name(&call.name),
                arguments: call.arguments.to_wire(),
            },
        }
    }
}

/// A name a model made up may be one the API refuses, and with it every later request of the conversation.
fn wire_name(name: &str) -> Cow<'_, str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(allowed) {
        return Cow::Borrowed(name);
    }
    let name: String =
        name.chars().take(MAX_NAME).map(|c| if allowed(c) { c } else { '_' }).collect();
    Cow::Owned(if name.is_empty() { "unknown".to_owned() } else { name })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rookery_messages::chat::Arguments;
    use rookery_messages::ids::CallId;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::model::openai::offer::Offers;

    fn body(model: &str, request: &ModelRequest) -> serde_json::Result<Vec<u8>> {
        super::body(model, request, &Offers::default().of(&request.tools))
    }

    fn call(id: u128, provider_id: Option<&str>, name: &str, arguments: &str) -> ToolCall {
        ToolCall {
            id: CallId(Uuid::from_u128(id)),
            provider_id: provider_id.map(str::to_owned),
            name: name.to_owned(),
            arguments: Arguments::parse(arguments),
        }
    }

    fn result(call: &ToolCall, output: &str) -> ChatMessage {
        ChatMessage::Tool {
            call: call.id,
            wire_id: call.wire_id(),
            name: call.name.clone(),
            output: output.to_owned(),
            outside: false,
        }
    }

    #[test]
    fn both_halves_of_a_call_go_out_under_the_same_id() {
        let (a, b) =
            (call(1, Some("c1"), "time", r#"{"z":1,"a":2}"#), call(2, None, "a b", "{bad"));
        let request = ModelRequest {
            messages: Arc::new(vec![
                ChatMessage::System { text: "be kind".to_owned() },
                ChatMessage::user("hi"),
                ChatMessage::Assistant {
                    text: " ".to_owned(),
                    calls: vec![a.clone(), b.clone()],
                    interrupted: false,
                },
                result(&a, "noon"),
                result(&b, "refused"),
                ChatMessage::Assistant {
                    text: "It is".to_owned(),
                    calls: Vec::new(),
                    interrupted: true,
                },
            ]),
            tools: Arc::new(vec![Arc::new(ToolSpec {
                name: "time".to_owned(),
                description: "tells it".to_owned(),
                parameters: json!({"type": "object"}),
            })]),
        };
        let sent: Value = serde_json::from_slice(&body("m", &request).unwrap()).unwrap();
        let own = format!("call_{}", b.id.0.simple());
        assert_eq!(
            sent,
            json!({
                "model": "m",
                "stream": true,
                "stream_options": {"include_usage": true},
                "messages": [
                    {"role": "system", "content": "be kind"},
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": null, "tool_calls": [
                        {"id": "c1", "type": "function",
                         "function": {"name": "time", "arguments": "{\"z\":1,\"a\":2}"}},
                        {"id": own, "type": "function",
                         "function": {"name": "a_b", "arguments": "{}"}},
                    ]},
                    {"role": "tool", "tool_call_id": "c1", "content": "noon"},
                    {"role": "tool", "tool_call_id": own, "content": "refused"},
                    {"role": "assistant", "content": "It is [interrupted]"},
                ],
                "tools": [{"type": "function", "function": {
                    "name": "time", "description": "tells it",
                    "parameters": {"type": "object", "properties": {}},
                }}],
            })
        );
    }

    #[test]
    fn without_tools_the_field_is_left_out() {
        let request = ModelRequest {
            messages: Arc::new(vec![ChatMessage::user("hi")]),
            tools: Arc::default(),
        };
        let sent: Value = serde_json::from_slice(&body("m", &request).unwrap()).unwrap();
        assert_eq!(sent.get("tools"), None);
    }

    #[test]
    fn names_the_api_would_refuse_are_made_acceptable() {
        assert_eq!(wire_name("file_read"), "file_read");
        assert_eq!(wire_name(""), "unknown");
        assert_eq!(wire_name("ü.x"), "__x");
        assert_eq!(wire_name(&"n".repeat(100)).len(), MAX_NAME);
    }
}
