//! How a turn's events look on a terminal. Pure: events in, text out.

use std::collections::HashMap;

use crossterm::style::Stylize;
use rookery_messages::approval::Approval;
use rookery_messages::event::TurnEventKind;
use rookery_messages::ids::CallId;
use rookery_messages::progress;
use rookery_messages::tool::{head, text};
use rookery_messages::turn::{CallState, Outcome, TurnError};

use crate::render::{json_text, prose, strict};

/// Longest output in a tool's line, in bytes. A prompt shows arguments whole.
const LINE: usize = 400;

/// What the screen stands at.
pub(super) struct View {
    /// Dim text may be used.
    styled: bool,
    at_line_start: bool,
    /// Text of the reply so far: what was streamed since the last tool or begin.
    streamed: String,
    /// Calls whose results are not there yet, by their tools: results come in any order.
    running: HashMap<CallId, String>,
}

impl View {
    pub(super) fn new(styled: bool) -> Self {
        Self { styled, at_line_start: true, streamed: String::new(), running: HashMap::new() }
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
            TurnEventKind::ToolCall { call, tool, arguments } => {
                self.streamed.clear();
                self.running.insert(*call, tool.clone());
                self.line(&format!("· {}", strict(&progress::started(tool, arguments))))
            }
            TurnEventKind::ToolResult { call, state, output } => {
                self.streamed.clear();
                let tool = self.running.remove(call);
                let tool = tool.map(|tool| format!("{} ", strict(&tool))).unwrap_or_default();
                // The model reads the state in the text itself.
                let (state_of, state) = (*state, state.as_str());
                let marker = format!("[{state}] ");
                let output = output.strip_prefix(&marker).unwrap_or(output);
                let output = match state_of {
                    CallState::Succeeded | CallState::Replaced => short(&strict(said(output))),
                    _ => strict(said(&progress::failure(output))),
                };
                self.line(&format!("  {tool}{state}: {output}"))
            }
            TurnEventKind::Notice { text } => {
                self.streamed.clear();
                self.line(&format!("({})", prose(text)))
            }
            TurnEventKind::Ended { outcome, reply, error, .. } => {
                let mut out = self.reply(reply.as_deref());
                self.running.clear();
                out.push_str(&match (outcome, error) {
                    (Outcome::Answered, None) => self.fresh_line(),
                    _ => self.line(&ending(*outcome, error.as_ref())),
                });
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

    /// A question, and what it offers.
    pub(super) fn question(&mut self, question: &Approval) -> String {
        let start = self.fresh_line();
        let asked = question.arguments["question"].as_str().unwrap_or_default();
        let choices = question.arguments["choices"].as_array().into_iter().flatten();
        let choices: String = choices
            .filter_map(|choice| choice.as_str())
            .map(|choice| format!("  - {}\n", strict(choice)))
            .collect();
        let text = format!("{start}? {}\n{choices}", prose(asked));
        self.put(&text)
    }

    /// The request and the question.
    pub(super) fn approval(&mut self, approval: &Approval) -> String {
        let start = self.fresh_line();
        let place = match &approval.batch {
            Some(batch) => format!("[{} of {}] ", batch.position, batch.of),
            None => String::new(),
        };
        let offer = match &approval.offer {
            Some(offer) => {
                let pattern = strict(&offer.pattern);
                // What is a command is shown whole: it is not what stands in the arguments. Those are above.
                let command = offer.pattern.starts_with(&format!("{}: ", approval.tool));
                let pattern = if command { pattern } else { short(&pattern) };
                let wider = if offer.narrow { "" } else { " (or say agent: in all of its)" };
                format!("  always covers, in this conversation{wider}: {pattern}\n")
            }
            None => String::new(),
        };
        let text = format!(
            "{start}! {place}{} needs approval ({} risk): {}\n{}\n{offer}",
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

/// How a turn ended that was not simply answered. A cause that names the outcome says it all.
pub(super) fn ending(outcome: Outcome, error: Option<&TurnError>) -> String {
    let outcome = outcome.as_str();
    match error {
        None => format!("[{outcome}]"),
        Some(error) if error.message.starts_with(outcome) => format!("[{}]", prose(&error.message)),
        Some(error) => format!("[{outcome}] {}: {}", strict(&error.code), prose(&error.message)),
    }
}

/// An output without the words for the model that only repeat the state.
fn said(output: &str) -> &str {
    let repeats = [text::REPLACED_PREFIX, text::BLOCKED_PREFIX, "denied by user: "];
    repeats.iter().find_map(|words| output.strip_prefix(words)).unwrap_or(output)
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
            into: None,
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
            "Looking\n· shell: ls\\u{1b}[2K\\u{202e}\n  shell succeeded: a\\nb\\u{7}\ndone\n"
        );
    }

    #[test]
    fn results_that_come_in_any_order_name_their_tools() {
        let call = |tool: &str, id: &str| TurnEventKind::ToolCall {
            call: id.parse().unwrap(),
            tool: tool.to_owned(),
            arguments: json!({}),
        };
        let result = |id: &str, state, output: &str| TurnEventKind::ToolResult {
            call: id.parse().unwrap(),
            state,
            output: output.to_owned(),
        };
        let (one, two) =
            ("01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8058");
        let events = [
            call("time", one),
            call("wait", two),
            result(two, CallState::Interrupted, "[interrupted] it was stopped"),
            result(one, CallState::Succeeded, "noon"),
            // Of a call nobody saw begin: of a turn that another process began.
            result(two, CallState::Succeeded, "done"),
        ];
        assert_eq!(
            all(&events),
            "· time\n· wait\n  wait interrupted: it was stopped\n  time succeeded: noon\n  succeeded: done\n"
        );
    }

    #[test]
    fn a_call_s_state_is_said_once() {
        for (state, output, shown) in [
            (CallState::Blocked, "blocked by policy: not listed", "blocked: not listed"),
            (CallState::Denied, text::DENIED_BY_USER, "denied: the call was not run"),
            (
                CallState::Replaced,
                &format!("{}pretend it is done", text::REPLACED_PREFIX),
                "replaced: pretend it is done",
            ),
        ] {
            let call = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
            let event = TurnEventKind::ToolResult { call, state, output: output.to_owned() };
            assert_eq!(all(&[event]), format!("  {shown}\n"));
        }
    }

    #[test]
    fn an_end_is_said_once() {
        let error = |message: &str| Some(TurnError::new("code", message));
        let by_user = error("cancelled by user");
        assert_eq!(ending(Outcome::Cancelled, by_user.as_ref()), "[cancelled by user]");
        let newer = error("a newer message took its place");
        assert_eq!(
            ending(Outcome::Cancelled, newer.as_ref()),
            "[cancelled] code: a newer message took its place"
        );
        assert_eq!(ending(Outcome::Silent, None), "[silent]");
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
            into: None,
        };
        assert_eq!(all(&[delta("par"), event]), "par\n[failed] provider_auth: bad key\n");
    }
}
