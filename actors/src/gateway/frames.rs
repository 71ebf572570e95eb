//! The objects of the WebSocket and of SSE.

use rookery_messages::approval::{Approval, GrantScope};
use rookery_messages::event::{TurnEvent, TurnEventKind};
use rookery_messages::ids::{ApprovalId, TurnId};
use rookery_messages::turn::TurnRecord;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::approvals::Word;
use super::error::ApiError;
use crate::channel::text::is_object;

/// What a client sends.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ClientFrame {
    /// A message for a turn of its own.
    Message {
        /// The client's own id of it: sent twice, it is one message.
        id: String,
        text: String,
    },
    /// Words for the running turn. If none takes them in, they are a message like any other.
    Steer {
        text: String,
        /// The client's own id of it: sent twice, it is said once.
        #[serde(default)]
        id: Option<String>,
    },
    /// The turn shall stop.
    Cancel { turn: TurnId },
    /// A decision.
    Approval {
        id: ApprovalId,
        decision: Word,
        #[serde(default)]
        replacement: Option<String>,
        #[serde(default)]
        reason: Option<String>,
        #[serde(default)]
        scope: Option<GrantScope>,
    },
    /// What came after `seq`, again.
    Resume { seq: u64 },
}

/// Reads a client's frame; the error names the field or the position.
pub(super) fn parse(text: &str) -> Result<ClientFrame, ApiError> {
    if !is_object(text) {
        return Err(ApiError::bad_request("invalid_field", "the frame is not a JSON object"));
    }
    serde_json::from_str(text).map_err(|error| {
        let code = match error.classify() {
            serde_json::error::Category::Data => "invalid_field",
            _ => "invalid_json",
        };
        ApiError::bad_request(code, format!("the frame can't be used: {error}"))
    })
}

/// An event as clients read it: `{type, seq, turn, …}`.
pub(super) fn event(event: &TurnEvent) -> Value {
    if let TurnEventKind::Approval { approval } = &event.kind {
        return self::approval(approval, event.seq);
    }
    object("event", serde_json::to_value(event))
}

/// A pending approval: the fields of the admin API's object, and the same below `approval`.
pub(super) fn approval(approval: &Approval, seq: u64) -> Value {
    let fields = object("approval", serde_json::to_value(approval));
    let mut frame = Map::new();
    frame.insert("type".to_owned(), json!("approval"));
    frame.insert("seq".to_owned(), json!(seq));
    if let Value::Object(fields) = &fields {
        frame.extend(fields.clone());
    }
    frame.insert("approval".to_owned(), fields);
    Value::Object(frame)
}

/// Our own types have only string keys, so this does not fail.
fn object(what: &str, value: Result<Value, serde_json::Error>) -> Value {
    value.unwrap_or_else(|error| {
        json!({ "type": "error", "code": "internal", "message": format!("{what}: {error}") })
    })
}

/// A turn's end, made from its record.
pub(super) fn ended(record: &TurnRecord, seq: u64) -> Value {
    let mut frame = json!({
        "type": "ended", "seq": seq, "turn": record.id,
        "outcome": record.outcome, "reply": record.reply, "usage": record.usage,
    });
    if let Some(into) = &record.into {
        frame["into"] = json!(into);
    }
    if let Some(error) = &record.error {
        frame["error"] = json!(error);
    }
    frame
}

/// Events were lost; this is where things stand.
pub(super) fn gap(snapshot: Value, next_seq: u64) -> Value {
    let turn = snapshot["turn"]["id"].clone();
    json!({ "type": "gap", "seq": next_seq.saturating_sub(1), "turn": turn, "snapshot": snapshot })
}

/// Something a client sent could not be done. Its `seq` is set when it is sent.
pub(super) fn error(error: &ApiError) -> Value {
    let mut frame = json!({ "type": "error", "code": error.code, "message": error.message });
    if let Some(hint) = &error.hint {
        frame["hint"] = json!(hint);
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The objects of the code block below a heading.
    fn documented(heading: &str) -> Vec<&'static str> {
        const WIRE: &str = include_str!("../../../messages/WIRE.md");
        let section = WIRE.split(&format!("## {heading}")).nth(1).unwrap();
        let block = section.split("```").nth(1).unwrap();
        block.lines().filter(|line| line.starts_with('{')).collect()
    }

    #[test]
    fn what_is_documented_is_what_is_read_and_sent() {
        let frames = documented("Client frames");
        assert!(frames.len() >= 9, "{frames:?}");
        for frame in frames {
            assert!(parse(frame).is_ok(), "{frame}");
        }
        let events = documented("Events");
        assert!(events.len() >= 7, "{events:?}");
        for line in events {
            let read: TurnEvent = serde_json::from_str(line).unwrap();
            let same: Value = serde_json::from_str(line).unwrap();
            assert_eq!(event(&read), same, "{line}");
        }
    }

    #[test]
    fn a_frame_that_cannot_be_used_is_refused_by_name() {
        let turn = "0190a000-0000-7000-8000-000000000000";
        let good = [
            r#"{"type":"message","id":"1","text":"hi"}"#.to_owned(),
            r#"{"type":"steer","text":"left"}"#.to_owned(),
            format!(r#"{{"type":"cancel","turn":"{turn}"}}"#),
            format!(
                r#"{{"type":"approval","id":"{turn}","decision":"replace","replacement":"x"}}"#
            ),
            r#"{"type":"resume","seq":0}"#.to_owned(),
        ];
        for text in good {
            assert!(parse(&text).is_ok(), "{text}");
        }
        let bad = [
            ("{", "invalid_json", "line 1"),
            ("[]", "invalid_field", ""),
            (r#"{"id":"1","text":"hi"}"#, "invalid_field", "`type`"),
            (r#"{"type":"shout","text":"hi"}"#, "invalid_field", "`shout`"),
            (r#"{"type":"message","text":"hi"}"#, "invalid_field", "`id`"),
            (r#"{"type":"message","id":"1","text":"hi","to":"x"}"#, "invalid_field", "`to`"),
            (r#"{"type":"cancel","turn":"7"}"#, "invalid_field", "UUID"),
            (r#"{"type":"resume","seq":-1}"#, "invalid_field", "-1"),
        ];
        for (text, code, names) in bad {
            let error = parse(text).map(|_| ()).unwrap_err();
            assert!(error.code == code && error.message.contains(names), "{text}: {error:?}");
        }
    }
}
