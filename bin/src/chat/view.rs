//! How a turn's events look on a terminal. Pure: events in, text out.

use crossterm::style::Stylize;
use rookery_messages::approval::Approval;
use rookery_messages::event::TurnEventKind;
use rookery_messages::tool::head;
use rookery_messages::turn::{CallState, Outcome};

use crate::render::{json_text, prose, strict};

/// Longest arguments and output in a tool's line, in bytes. A prompt shows arguments whole.
const LINE: usize = 400;

/// What the screen stands at.
pub(super) struct View {
    /// Dim text may be used.
    styled: bool,
    at_line_start: bool,
    /// Text of the reply so far: what was streamed since the last tool or begin.
    streamed: String,
}

impl View {
    pub(super) fn new(styled: bool) -> Self {
        Self { styled, at_line_start: true, streamed: String::new() }
    }

    /// An event's text.
    pub(super) fn event(&mut self, event: &TurnEventKind) -> String {
        match event {
            TurnEventKind::Accepted { .. } | TurnEventKind::Approval { .. } => String::new(),
            TurnEventKind::Delta { text } => {
                self.streamed.push_str(text);
                self.put(&prose(text))
            }
            TurnEventKind::Thinking { text } => {
                let text = self.dim(&prose(text));
                self.put(&text)
            }
            TurnEventKind::ToolCall { tool, arguments, .. } => {
                self.streamed.clear();
                let arguments = short(&strict(&arguments.to_string()));
                self.line(&format!("· {}({arguments})", strict(tool)))
            }
            TurnEventKind::ToolResult { state, output, .. } => {
                self.streamed.clear();
                self.line(&format!("  {}: {}", state.as_str(), short(&strict(output))))
            }
            TurnEventKind::Notice { text } => {
                self.streamed.clear();
                self.line(&format!("({})", prose(text)))
            }
            TurnEventKind::Ended { outcome, reply, error, .. } => {
                let mut out = self.reply(reply.as_deref());
                match error {
                    Some(error) => {
                        let text = format!("{}: {}", strict(&error.code), prose(&error.message));
                        out.push_str(&self.line(&format!("[{}] {text}", outcome.as_str())));
                    }
                    None if !matches!(outcome, Outcome::Answered) => {
                        out.push_str(&self.line(&format!("[{}]", outcome.as_str())));
                    }
                    None => out.push_str(&self.fresh_line()),
                }
                out
            }
        }
    }

    /// What of the final text is not on the screen yet (I11).
    fn reply(&mut self, reply: Option<&str>) -> String {
        let streamed = std::mem::take(&mut self.streamed);
        let Some(reply) = reply else { return String::new() };
        if streamed.trim() == reply.trim() {
            return String::new();
        }
        match reply.strip_prefix(streamed.as_str()) {
            Some(rest) if !streamed.is_empty() => self.put(&prose(rest)),
            _ => {
                let start = self.fresh_line();
                start + &self.put(&prose(reply))
            }
        }
    }

    /// The request and the question.
    pub(super) fn approval(&mut self, approval: &Approval) -> String {
        let start = self.fresh_line();
        let text = format!(
            "{start}! {} needs approval ({} risk): {}\n{}\n",
            strict(&approval.tool),
            approval.risk.as_str(),
            strict(&approval.reason),
            json_text(&approval.arguments),
        );
        self.put(&text)
    }

    /// A prompt: input follows on the same line.
    pub(super) fn prompt(&mut self, text: &str) -> String {
        let start = self.fresh_line();
        self.at_line_start = false;
        start + text
    }

    /// Somebody pressed return: the cursor is at a line's start.
    pub(super) fn entered(&mut self) {
        self.at_line_start = true;
    }

    /// A whole line of ours.
    pub(super) fn line(&mut self, text: &str) -> String {
        let start = self.fresh_line();
        self.at_line_start = true;
        format!("{start}{text}\n")
    }

    /// A line break, unless the cursor is at a line's start.
    pub(super) fn fresh_line(&mut self) -> String {
        if std::mem::replace(&mut self.at_line_start, true) {
            String::new()
        } else {
            "\n".to_owned()
        }
    }

    fn put(&mut self, text: &str) -> String {
        if !text.is_empty() {
            self.at_line_start = text.ends_with('\n');
        }
        text.to_owned()
    }

    fn dim(&self, text: &str) -> String {
        if self.styled && !text.is_empty() { text.dim().to_string() } else { text.to_owned() }
    }
}

/// Whether a call ended because an approval was refused or could not be had.
pub(super) fn is_denied(event: &TurnEventKind) -> bool {
    matches!(event, TurnEventKind::ToolResult { state: CallState::Denied, .. })
}

/// Cut visibly: how much is missing is said, so that a cut can't hide anything unseen (A078).
fn short(text: &str) -> String {
    let cut = head(text, LINE);
    match text.len() - cut.len() {
        0 => text.to_owned(),
        more => format!("{cut}… ({more} more bytes)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rookery_messages::chat::Usage;
    use serde_json::json;

    fn delta(text: &str) -> TurnEventKind {
        TurnEventKind::Delta { text: text.to_owned() }
    }

    fn ended(reply: Option<&str>) -> TurnEventKind {
        TurnEventKind::Ended {
            outcome: Outcome::Answered,
            reply: reply.map(str::to_owned),
            usage: Usage::default(),
            error: None,
        }
    }

    fn all(events: &[TurnEventKind]) -> String {
        let mut view = View::new(false);
        events.iter().map(|event| view.event(event)).collect()
    }

    #[test]
    fn a_streamed_reply_is_not_printed_twice() {
        assert_eq!(all(&[delta("Hel"), delta("lo"), ended(Some("Hello"))]), "Hello\n");
    }

    // I11
    #[test]
    fn what_the_stream_lacks_of_the_final_text_is_added() {
        assert_eq!(all(&[ended(Some("Hello"))]), "Hello\n");
        assert_eq!(all(&[delta("Hel"), ended(Some("Hello"))]), "Hello\n");
        assert_eq!(all(&[delta("lo"), ended(Some("Hello"))]), "lo\nHello\n");
    }

    // A078
    #[test]
    fn tools_have_lines_of_their_own_and_obey_nothing() {
        let call = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        let events = [
            delta("Looking"),
            TurnEventKind::ToolCall {
                call,
                tool: "shell".to_owned(),
                arguments: json!({ "command": "ls\u{1b}[2K\u{202e}" }),
            },
            TurnEventKind::ToolResult {
                call,
                state: CallState::Succeeded,
                output: "a\nb\u{7}".to_owned(),
            },
            delta("done"),
            ended(Some("done")),
        ];
        assert_eq!(
            all(&events),
            "Looking\n· shell({\"command\":\"ls\\u001b[2K\\u{202e}\"})\n  succeeded: a\\nb\\u{7}\ndone\n"
        );
    }

    // A078
    #[test]
    fn a_long_argument_is_cut_with_its_missing_length() {
        let text = short(&"x".repeat(LINE + 7));
        assert!(text.ends_with("x… (7 more bytes)"), "{text}");
    }

    #[test]
    fn thinking_is_dim_only_where_style_is_allowed() {
        let thinking = TurnEventKind::Thinking { text: "hm".to_owned() };
        assert_eq!(View::new(false).event(&thinking), "hm");
        assert_eq!(View::new(true).event(&thinking), "\u{1b}[2mhm\u{1b}[0m");
    }

    #[test]
    fn a_turn_that_failed_says_why() {
        let event = TurnEventKind::Ended {
            outcome: Outcome::Failed,
            reply: None,
            usage: Usage::default(),
            error: Some(rookery_messages::turn::TurnError::new("provider_auth", "bad key")),
        };
        assert_eq!(all(&[delta("par"), event]), "par\n[failed] provider_auth: bad key\n");
    }
}
