//! What people see of a turn while it runs: the text so far, and one line that says what it is doing.
//!
//! Only visible text gets here: what a model thinks, the arguments and the results of its calls are never
//! part of it (A003). Each model call's text takes the place of the last one's, as the answer will.

use rookery_messages::approval::ApprovalState;
use rookery_messages::channel::Capabilities;
use rookery_messages::event::TurnEventKind;
use rookery_messages::tool::head;

use super::render::{Piece, literal, pieces};
use crate::policy::display::visible;

/// Longest stage line, in bytes.
const MAX_STAGE: usize = 160;
/// Stands before the stage line.
const STAGE_MARK: &str = "⏳ ";
/// Stands where a draft is longer than a message.
const MORE: &str = " …";

/// See the module's documentation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    text: String,
    stage: Option<String>,
    running: Vec<(rookery_messages::ids::CallId, String)>,
    /// The next text begins anew.
    over: bool,
    /// How many texts were begun.
    round: u32,
}

impl View {
    /// Takes an event in; says whether there is something new to see.
    pub fn take(&mut self, event: &TurnEventKind) -> bool {
        let before = (self.text.len(), self.stage.clone(), self.round);
        match event {
            TurnEventKind::Delta { text } => {
                if std::mem::take(&mut self.over) {
                    self.text.clear();
                    self.round += 1;
                }
                self.text.push_str(text);
                self.stage = None;
            }
            TurnEventKind::Thinking { .. } if self.text.is_empty() => self.say("thinking"),
            TurnEventKind::ToolCall { call, tool, .. } => {
                self.over = true;
                self.running.push((*call, tool.clone()));
                self.say_running();
            }
            TurnEventKind::ToolResult { call, .. } => {
                self.running.retain(|(running, _)| running != call);
                self.say_running();
            }
            TurnEventKind::Approval { approval } if approval.state == ApprovalState::Pending => {
                self.over = true;
                self.say("waiting for a decision");
            }
            TurnEventKind::Approval { .. } => self.say_running(),
            TurnEventKind::Notice { text } => self.say(text),
            TurnEventKind::Accepted { .. }
            | TurnEventKind::Thinking { .. }
            | TurnEventKind::Ended { .. } => {}
        }
        before != (self.text.len(), self.stage.clone(), self.round)
    }

    fn say(&mut self, what: &str) {
        self.stage = Some(head(&visible(what), MAX_STAGE).to_owned());
    }

    fn say_running(&mut self) {
        match self.running.as_slice() {
            [] => self.say("thinking"),
            [(_, tool)] => self.say(&format!("running {tool}")),
            [(_, tool), more @ ..] => self.say(&format!("running {tool} and {} more", more.len())),
        }
    }

    /// Which text this is.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text is complete: a call follows it.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// As one message; none while there is nothing to see.
    pub fn draft(&self, capabilities: &Capabilities) -> Option<Piece> {
        let stage = self.stage.as_ref().map(|stage| format!("{STAGE_MARK}{stage}"));
        if self.text.trim().is_empty() {
            return stage.map(|stage| literal(&stage, capabilities));
        }
        let unit = capabilities.unit;
        let below = stage.as_ref().map_or(0, |stage| unit.measure(stage) + 2);
        let limit =
            capabilities.limit.map(|limit| limit.saturating_sub(below + unit.measure(MORE)).max(1));
        let mut shown = pieces(&self.text, &Capabilities { limit, ..capabilities.clone() });
        let more = shown.len() > 1;
        let mut first = shown.swap_remove(0);
        for text in [&mut first.text, &mut first.plain] {
            if more {
                text.push_str(MORE);
            }
        }
        if let Some(stage) = stage {
            let stage = literal(&stage, capabilities);
            first.text = format!("{}\n\n{}", first.text, stage.text);
            first.plain = format!("{}\n\n{}", first.plain, stage.plain);
        }
        Some(first)
    }

    /// For channels that send paragraph by paragraph: the complete ones of what follows `shown`.
    pub fn paragraphs(&self, shown: &str) -> Option<&str> {
        let rest = self.text.strip_prefix(shown)?;
        if self.over {
            return (!rest.trim().is_empty()).then_some(rest);
        }
        // Within a code block a blank line ends nothing.
        let ends = rest.match_indices("\n\n").map(|(at, _)| at + 2);
        let whole = ends.filter(|at| !in_fence(&self.text[..shown.len() + at])).last()?;
        Some(&rest[..whole]).filter(|part| !part.trim().is_empty())
    }
}

fn in_fence(text: &str) -> bool {
    let fences = text.lines().filter(|line| line.trim_start().starts_with("```")).count();
    fences % 2 == 1
}

#[cfg(test)]
mod tests {
    use rookery_messages::channel::{Markup, Unit};
    use rookery_messages::ids::CallId;
    use rookery_messages::turn::CallState;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn delta(text: &str) -> TurnEventKind {
        TurnEventKind::Delta { text: text.into() }
    }

    fn call(n: u128, tool: &str) -> TurnEventKind {
        let arguments = json!({"path": "secret-argument"});
        TurnEventKind::ToolCall { call: CallId(Uuid::from_u128(n)), tool: tool.into(), arguments }
    }

    fn result(n: u128) -> TurnEventKind {
        TurnEventKind::ToolResult {
            call: CallId(Uuid::from_u128(n)),
            state: CallState::Succeeded,
            output: "secret-output".into(),
        }
    }

    fn caps(limit: usize) -> Capabilities {
        Capabilities {
            limit: Some(limit),
            unit: Unit::Utf16,
            markup: Markup::TelegramHtml,
            ..Capabilities::default()
        }
    }

    // A003
    #[test]
    fn people_see_text_and_a_stage_line_and_never_thoughts_arguments_or_results() {
        let (mut view, caps) = (View::default(), caps(4_096));
        assert_eq!(view.draft(&caps), None);
        assert!(view.take(&TurnEventKind::Thinking { text: "secret-thought".into() }));
        assert_eq!(view.draft(&caps).unwrap().text, "⏳ thinking");
        assert!(!view.take(&TurnEventKind::Thinking { text: "more".into() }));
        view.take(&delta("I **look"));
        assert_eq!(view.draft(&caps).unwrap().text, "I **look");
        view.take(&delta("** & see."));
        view.take(&call(1, "file_read"));
        view.take(&call(2, "shell"));
        let shown = view.draft(&caps).unwrap();
        assert_eq!(shown.text, "I <b>look</b> &amp; see.\n\n⏳ running file_read and 1 more");
        assert_eq!(shown.plain, "I look & see.\n\n⏳ running file_read and 1 more");
        view.take(&result(1));
        view.take(&result(2));
        assert!(view.draft(&caps).unwrap().text.ends_with("⏳ thinking"));
        view.take(&delta("Done."));
        assert_eq!(view.draft(&caps).unwrap().text, "Done.");
    }

    #[test]
    fn a_draft_that_is_longer_than_a_message_shows_its_first_part() {
        let (mut view, caps) = (View::default(), caps(60));
        view.take(&delta(&"word ".repeat(40)));
        view.take(&TurnEventKind::Notice { text: "a <notice>\nof two lines".into() });
        let shown = view.draft(&caps).unwrap();
        assert!(Unit::Utf16.measure(&shown.plain) <= 60, "{shown:?}");
        assert!(shown.text.ends_with("…\n\n⏳ a &lt;notice&gt;\\nof two lines"), "{shown:?}");
    }

    // R13
    #[test]
    fn paragraphs_are_complete_at_a_blank_line_outside_code_or_when_a_call_follows() {
        let mut view = View::default();
        view.take(&delta("One.\n\nTwo\nmore"));
        assert_eq!(view.paragraphs(""), Some("One.\n\n"));
        assert_eq!(view.paragraphs("One.\n\n"), None);
        view.take(&delta(".\n\n```\na\n\nb"));
        assert_eq!(view.paragraphs("One.\n\n"), Some("Two\nmore.\n\n"));
        view.take(&delta("\n```\n\nend"));
        assert_eq!(view.paragraphs("One.\n\nTwo\nmore.\n\n"), Some("```\na\n\nb\n```\n\n"));
        view.take(&call(1, "shell"));
        assert!(view.is_over());
        assert_eq!(view.paragraphs("One.\n\nTwo\nmore.\n\n```\na\n\nb\n```\n\n"), Some("end"));
        assert_eq!(view.paragraphs("another text"), None);
        view.take(&delta("Next"));
        assert_eq!((view.round(), view.text()), (1, "Next"));
    }
}
