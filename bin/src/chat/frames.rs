//! The frames of `/v1/ws` (DESIGN.md, section 7).

use rookery_messages::event::TurnEvent;
use rookery_messages::ids::{ApprovalId, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a client sends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ClientFrame {
    /// A message; the id is the client's, and makes a repeat harmless.
    Message { id: String, text: String },
    /// Stops a turn.
    Cancel { turn: TurnId },
    /// Decides an approval.
    Approval {
        id: ApprovalId,
        decision: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        replacement: Option<String>,
        /// How far an *always* holds.
        #[serde(skip_serializing_if = "Option::is_none")]
        scope: Option<&'static str>,
    },
    /// Asks for what was missed.
    Resume { seq: u64 },
}

/// What a server sends.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ServerFrame {
    /// An event of a turn.
    Event(Box<TurnEvent>),
    /// Events were lost; the state is asked for again.
    Gap { seq: Option<u64> },
    /// A frame of ours was refused.
    Error(Refusal),
    /// A type of a newer server.
    Unknown,
}

/// Why a frame was refused.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct Refusal {
    pub(super) code: String,
    pub(super) message: String,
    /// The message it is about, where that is known.
    #[serde(default)]
    pub(super) id: Option<String>,
}

/// A frame that is not what the contract says.
#[derive(Debug, thiserror::Error)]
#[error(
    "the service sent a frame this client can't read: {0}; is it a Rookery of the same version?"
)]
pub(super) struct BadFrame(#[from] serde_json::Error);

impl ServerFrame {
    pub(super) fn parse(text: &str) -> Result<Self, BadFrame> {
        let value: Value = serde_json::from_str(text)?;
        match value.get("type").and_then(Value::as_str) {
            Some("gap") => Ok(Self::Gap { seq: value.get("seq").and_then(Value::as_u64) }),
            Some("error") => Ok(Self::Error(serde_json::from_value(value)?)),
            Some(
                "accepted" | "delta" | "thinking" | "tool_call" | "tool_result" | "approval"
                | "notice" | "ended",
            ) => Ok(Self::Event(Box::new(serde_json::from_value(value)?))),
            _ => Ok(Self::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rookery_messages::event::TurnEventKind;

    #[test]
    fn client_frames_are_as_the_contract_says() {
        let id: ApprovalId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        let frame = |frame: ClientFrame| serde_json::to_string(&frame).unwrap();
        assert_eq!(
            frame(ClientFrame::Message { id: "a".to_owned(), text: "b".to_owned() }),
            r#"{"type":"message","id":"a","text":"b"}"#
        );
        assert_eq!(
            frame(ClientFrame::Approval {
                id,
                decision: "approve",
                replacement: None,
                scope: None
            }),
            r#"{"type":"approval","id":"01890a5d-ac96-774b-bcce-b302099a8057","decision":"approve"}"#
        );
        assert_eq!(frame(ClientFrame::Resume { seq: 7 }), r#"{"type":"resume","seq":7}"#);
    }

    #[test]
    fn server_frames_are_told_apart() {
        let event =
            r#"{"type":"delta","seq":3,"turn":"01890a5d-ac96-774b-bcce-b302099a8057","text":"x"}"#;
        let ServerFrame::Event(event) = ServerFrame::parse(event).unwrap() else {
            panic!("not an event");
        };
        assert_eq!(event.seq, 3);
        assert_eq!(event.kind, TurnEventKind::Delta { text: "x".to_owned() });
        assert_eq!(
            ServerFrame::parse(r#"{"type":"gap","seq":9,"snapshot":{}}"#).unwrap(),
            ServerFrame::Gap { seq: Some(9) }
        );
        assert_eq!(ServerFrame::parse(r#"{"type":"later"}"#).unwrap(), ServerFrame::Unknown);
        assert!(ServerFrame::parse(r#"{"type":"error"}"#).is_err());
        assert!(ServerFrame::parse("{").is_err());
    }
}
