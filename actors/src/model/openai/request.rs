//! The body of a chat completions request (OpenAI API reference, "Create chat completion").

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};

use rookery_messages::chat::{ChatMessage, ToolCall};
use rookery_messages::ids::CallId;
use rookery_messages::settings::CallIdForm;
use rookery_messages::tool::ToolSpec;
use serde::Serialize;
use serde_json::Value;

use super::OpenAi;
use super::content::Content;
use crate::model::http::{Ask, Unsendable};
use crate::model::wire::{marked, wire_id, wire_name};
use crate::model::wire_check::MAX_WIRE_ID;

/// How many letters and digits an id of [`CallIdForm::Short`] has.
const SHORT_ID: usize = 9;

/// The body's bytes, checked. Deterministic: the same request gives the same bytes.
pub(super) fn body(dialect: &OpenAi, ask: &Ask<'_>) -> Result<Vec<u8>, Unsendable> {
    let form = dialect.call_ids;
    let messages: Vec<WireMessage<'_>> =
        ask.messages.iter().map(|message| WireMessage::of(ask, message, form)).collect();
    check(&messages, form).map_err(Unsendable::Malformed)?;
    let cap = ask.ease.output_cap.or(dialect.max_output_tokens);
    let (max_completion_tokens, max_tokens) =
        if dialect.is_openai { (cap, None) } else { (None, cap) };
    let mut body = serde_json::to_vec(&Body {
        model: &ask.origin.model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        reasoning_effort: match ask.ease.no_reasoning {
            true => Some("none"),
            false => dialect.effort.map(|effort| effort.as_str()),
        },
        max_completion_tokens,
        max_tokens,
        messages,
    })?;
    if !ask.offers.is_empty() {
        // Before the closing brace: the tools are JSON already, the same in every request.
        body.pop();
        body.extend_from_slice(b",\"tools\":[");
        for (index, offer) in ask.offers.iter().enumerate() {
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
pub(in crate::model) fn wire_tool(spec: &ToolSpec, parameters: &Value) -> String {
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

/// The last look before the wire (I4): who may speak when, and that each call is followed by its result.
fn check(messages: &[WireMessage<'_>], form: CallIdForm) -> Result<(), String> {
    let mut ids = HashSet::new();
    let mut waiting: VecDeque<&str> = VecDeque::new();
    let mut asked = false;
    for (at, message) in messages.iter().enumerate() {
        if let WireMessage::Tool { tool_call_id, content } = message {
            if waiting.pop_front() != Some(tool_call_id.as_str()) || content.trim().is_empty() {
                return Err(format!("messages[{at}] is a result that nothing asked for, or blank"));
            }
            continue;
        }
        if let Some(id) = waiting.front() {
            return Err(format!("messages[{at}] stands where the result of {id} should"));
        }
        match message {
            WireMessage::System { content } if at > 0 || content.trim().is_empty() => {
                return Err(format!(
                    "messages[{at}] is a system message that is blank or not first"
                ));
            }
            WireMessage::User { content } if !content.is_sound() => {
                return Err(format!("messages[{at}] is blank, or holds an image that is none"));
            }
            WireMessage::User { .. } => asked = true,
            WireMessage::Assistant { content, tool_calls } => {
                let blank = content.as_deref().is_none_or(|text| text.trim().is_empty());
                if !asked || blank && tool_calls.is_empty() {
                    return Err(format!("messages[{at}] is blank, or answers nobody"));
                }
                for call in tool_calls {
                    if !takes(form, &call.id) || !ids.insert(call.id.as_str()) {
                        return Err(format!("messages[{at}] has the unusable call id {}", call.id));
                    }
                    waiting.push_back(&call.id);
                }
            }
            WireMessage::System { .. } | WireMessage::Tool { .. } => {}
        }
    }
    match waiting.front() {
        Some(id) => Err(format!("the result of {id} is missing")),
        None if !asked => Err("nobody asks anything".to_owned()),
        None => Ok(()),
    }
}

fn takes(form: CallIdForm, id: &str) -> bool {
    match form {
        CallIdForm::Any => {
            !id.is_empty() && id.len() <= MAX_WIRE_ID && id.chars().all(|c| c.is_ascii_graphic())
        }
        CallIdForm::Short => is_short(id),
    }
}

fn is_short(id: &str) -> bool {
    id.len() == SHORT_ID && id.chars().all(|c| c.is_ascii_alphanumeric())
}

/// The id of a call, or of the call a result belongs to (A047).
fn id_of(form: CallIdForm, call: CallId, known: &str) -> String {
    match form {
        CallIdForm::Short if !is_short(known) => short_id(call),
        CallIdForm::Any | CallIdForm::Short => {
            wire_id(call, known, |id| takes(CallIdForm::Any, id))
        }
    }
}

/// Nine letters and digits of our own id's random part.
fn short_id(call: CallId) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut rest = call.0.as_u128();
    let mut id = String::with_capacity(SHORT_ID);
    for _ in 0..SHORT_ID {
        let digit = usize::try_from(rest % 62).unwrap_or_default();
        id.push(char::from(DIGITS[digit]));
        rest /= 62;
    }
    id
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    /// What compatible servers call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
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
        content: Content<'a>,
    },
    Assistant {
        /// Null, not blank, beside calls: blank texts are refused by some servers (A048).
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: String,
        content: &'a str,
    },
}

impl<'a> WireMessage<'a> {
    fn of(ask: &Ask<'_>, message: &'a ChatMessage, form: CallIdForm) -> Self {
        match message {
            ChatMessage::System { text } => Self::System { content: text },
            ChatMessage::User { text, attachments, .. } => {
                Self::User { content: Content::of(ask, text, attachments) }
            }
            ChatMessage::Assistant { text, calls, interrupted, .. } => Self::Assistant {
                content: if text.trim().is_empty() && !calls.is_empty() {
                    None
                } else {
                    Some(marked(text, *interrupted))
                },
                tool_calls: calls.iter().map(|call| WireCall::of(call, form)).collect(),
            },
            ChatMessage::Tool { call, wire_id, output, .. } => {
                Self::Tool { tool_call_id: id_of(form, *call, wire_id), content: output }
            }
        }
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

impl<'a> WireCall<'a> {
    fn of(call: &'a ToolCall, form: CallIdForm) -> Self {
        Self {
            id: id_of(form, call.id, &call.wire_id()),
            r#type: "function",
            function: WireFunction {
                name: wire_name(&call.name),
                arguments: call.arguments.to_wire(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rookery_messages::chat::{Arguments, Origin};
    use rookery_messages::ids::CallId;
    use rookery_messages::model::ModelRequest;
    use rookery_messages::settings::{ProviderKind, ProviderSettings, ReasoningEffort};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::model::http::{Dialect as _, Ease};
    use crate::model::offer::Offers;

    fn body_of(request: &ModelRequest, settings: &ProviderSettings, ease: Ease) -> Value {
        let origin = Origin { profile: "main".into(), kind: "openai".into(), model: "m".into() };
        let offers = Offers::default().of(&request.tools);
        let ask = Ask {
            origin: &origin,
            messages: &request.messages,
            images: &request.images,
            offers: &offers,
            ease: &ease,
        };
        serde_json::from_slice(&super::body(&OpenAi::new(settings), &ask).unwrap()).unwrap()
    }

    fn body(request: &ModelRequest) -> Value {
        body_of(request, &ProviderSettings::new(ProviderKind::Openai, "m"), Ease::default())
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
                    opaque: Vec::new(),
                },
                result(&a, "noon"),
                result(&b, "refused"),
                ChatMessage::Assistant {
                    text: "It is".to_owned(),
                    calls: Vec::new(),
                    interrupted: true,
                    opaque: Vec::new(),
                },
            ]),
            tools: Arc::new(vec![Arc::new(ToolSpec {
                name: "time".to_owned(),
                description: "tells it".to_owned(),
                parameters: json!({"type": "object"}),
            })]),
            ..ModelRequest::default()
        };
        let sent = body(&request);
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
            ..ModelRequest::default()
        };
        let sent = body(&request);
        assert_eq!(sent.get("tools"), None);
    }

    // A047
    #[test]
    fn ids_of_another_provider_become_the_short_ones_that_this_one_takes() {
        let ids = ["call_PTLP8xhu3uwZk4l3nlnrrJha", "turn1_0", "Abc123xyZ"];
        let calls: Vec<ToolCall> = (0x0193_0000_0000_7000_8000_0000_0000_0001..)
            .zip(ids)
            .map(|(n, id)| call(n, Some(id), "time", ""))
            .collect();
        let mut messages = vec![ChatMessage::user("hi")];
        messages.push(ChatMessage::Assistant {
            text: String::new(),
            calls: calls.clone(),
            interrupted: false,
            opaque: Vec::new(),
        });
        messages.extend(calls.iter().map(|call| result(call, "noon")));
        let request = ModelRequest { messages: Arc::new(messages), ..ModelRequest::default() };
        let settings = ProviderSettings {
            call_ids: CallIdForm::Short,
            ..ProviderSettings::new(ProviderKind::Openai, "m")
        };
        let sent = body_of(&request, &settings, Ease::default());
        let asked: Vec<&str> = sent["messages"][1]["tool_calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| call["id"].as_str().unwrap())
            .collect();
        assert!(asked.iter().all(|id| is_short(id)), "{asked:?}");
        assert_eq!(asked[2], "Abc123xyZ");
        assert_ne!(asked[0], asked[1]);
        let answered: Vec<&str> =
            (2..5).map(|at| sent["messages"][at]["tool_call_id"].as_str().unwrap()).collect();
        assert_eq!(asked, answered);
        // The mapping has no memory: the next request says the same.
        assert_eq!(body_of(&request, &settings, Ease::default()), sent);
    }

    // V-L25, A052
    #[test]
    fn effort_and_cap_are_sent_as_they_are_set_unless_they_were_refused() {
        let request = ModelRequest {
            messages: Arc::new(vec![ChatMessage::user("hi")]),
            ..ModelRequest::default()
        };
        let plain = body(&request);
        assert_eq!(plain.get("reasoning_effort").or(plain.get("max_tokens")), None);
        let mut settings = ProviderSettings {
            reasoning_effort: Some(ReasoningEffort::High),
            max_output_tokens: Some(900),
            ..ProviderSettings::new(ProviderKind::Openai, "m")
        };
        let own = body_of(&request, &settings, Ease::default());
        assert_eq!(
            (&own["reasoning_effort"], &own["max_completion_tokens"]),
            (&json!("high"), &json!(900))
        );
        settings.base_url = Some("http://127.0.0.1:1/v1".to_owned());
        let ease = Ease { no_reasoning: true, output_cap: Some(300), ..Ease::default() };
        let eased = body_of(&request, &settings, ease);
        assert_eq!(
            (&eased["reasoning_effort"], &eased["max_tokens"]),
            (&json!("none"), &json!(300))
        );
    }

    // I4
    #[test]
    fn a_malformed_conversation_is_not_sent() {
        let asked = call(1, Some("c1"), "time", "");
        let asks = ChatMessage::Assistant {
            text: String::new(),
            calls: vec![asked.clone()],
            interrupted: false,
            opaque: Vec::new(),
        };
        let origin = Origin { profile: "p".into(), kind: "openai".into(), model: "m".into() };
        let hi = || ChatMessage::user("hi");
        for messages in [
            vec![],
            vec![ChatMessage::System { text: "be kind".into() }],
            vec![hi(), ChatMessage::System { text: "late".into() }],
            vec![hi(), asks.clone()],
            vec![hi(), asks.clone(), hi()],
            vec![hi(), result(&asked, "noon")],
            vec![hi(), asks.clone(), result(&asked, " ")],
            vec![asks.clone(), result(&asked, "noon"), hi()],
            vec![hi(), asks.clone(), result(&asked, "a"), asks.clone(), result(&asked, "b")],
            vec![ChatMessage::user(" \n")],
        ] {
            let ask = Ask {
                origin: &origin,
                messages: &messages,
                images: &Default::default(),
                offers: &[],
                ease: &Ease::default(),
            };
            let dialect = OpenAi::new(&ProviderSettings::new(ProviderKind::Openai, "m"));
            let refused = super::body(&dialect, &ask);
            assert!(matches!(refused, Err(Unsendable::Malformed(_))), "{messages:?}");
        }
    }
}
