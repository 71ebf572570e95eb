//! The history window: whole turns within a token budget.
//!
//! Only the request is trimmed; the stored history stays whole (V-C14). Cost: linear in the messages
//! that are sent, and nothing is kept between two requests, so trims can't stack (V-C5).

use std::collections::HashSet;

use rookery_messages::chat::{ChatMessage, UserKind};
use rookery_messages::tool::{head, tail, text};

use crate::model::gallery::TOKENS as IMAGE;

/// Tokens a message costs beside its text.
const PER_MESSAGE: u64 = 4;
/// Shortest form of a tool result that is shortened to fit, in bytes.
const SHORTENED: usize = 400;

/// What is sent of a history.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// System message, breadcrumb if anything was left out, then whole turns.
    pub messages: Vec<ChatMessage>,
    /// Messages left out.
    pub dropped: u32,
    /// Tool results shortened.
    pub shortened: u32,
    /// What the messages are estimated at, in tokens.
    pub total: u64,
}

/// Rough count of tokens: four ASCII characters, or one other character, a token.
pub fn estimate(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let other = text.chars().filter(|c| !c.is_ascii()).count() as u64;
    ascii.div_ceil(4) + other
}

/// `shown`: the paths of the images that go along.
fn cost(message: &ChatMessage, shown: &HashSet<&str>) -> u64 {
    let calls = match message {
        ChatMessage::Assistant { calls, opaque, .. } => {
            let asked = calls.iter().map(|call| {
                estimate(&call.name) + estimate(&call.arguments.to_wire()) + PER_MESSAGE
            });
            let kept = opaque.iter().map(|block| estimate(&block.block.to_string()));
            asked.chain(kept).sum()
        }
        _ => 0,
    };
    let attached = message.attachments().iter();
    let images = attached.filter(|one| shown.contains(one.path.as_str())).count() as u64;
    estimate(message.text()) + calls + images * IMAGE + PER_MESSAGE
}

/// Fits a history into `budget` tokens (0: no limit). `cut`: older messages were left out already. `shown`:
/// the paths of the images that go along.
pub fn window(
    system: &str,
    history: &[ChatMessage],
    budget: u64,
    cut: bool,
    shown: &HashSet<&str>,
) -> Window {
    let fixed = estimate(system) + PER_MESSAGE;
    let costs: Vec<u64> = history.iter().map(|message| cost(message, shown)).collect();
    let mut total: u64 = fixed + costs.iter().sum::<u64>();
    let mut first = 0;
    if budget > 0 {
        let starts: Vec<usize> =
            (0..history.len()).filter(|&i| i > 0 && history[i].starts_turn()).collect();
        for start in starts {
            if total <= budget {
                break;
            }
            total -= costs[first..start].iter().sum::<u64>();
            first = start;
        }
    }
    let mut messages = Vec::with_capacity(history.len() - first + 2);
    messages.push(ChatMessage::System { text: system.to_owned() });
    if first > 0 || cut {
        messages.push(ChatMessage::of_kind(UserKind::Breadcrumb, text::BREADCRUMB));
        total += estimate(text::BREADCRUMB) + PER_MESSAGE;
    }
    messages.extend_from_slice(&history[first..]);
    let shortened = if budget > 0 { shorten(&mut messages, &mut total, budget) } else { 0 };
    Window { messages, dropped: u32::try_from(first).unwrap_or(u32::MAX), shortened, total }
}

/// The newest turn is kept whole; its oldest tool results are shortened, visibly (V-C3).
fn shorten(messages: &mut [ChatMessage], total: &mut u64, budget: u64) -> u32 {
    let mut count = 0;
    for message in messages {
        if *total <= budget {
            break;
        }
        let ChatMessage::Tool { output, .. } = message else { continue };
        if output.len() <= SHORTENED + 100 {
            continue;
        }
        let kept_head = head(output, SHORTENED * 2 / 3);
        let kept_tail = tail(output, SHORTENED / 3);
        let removed = output.len() - kept_head.len() - kept_tail.len();
        let short = format!(
            "{kept_head}\n[… {removed} bytes left out to fit the model's window …]\n{kept_tail}"
        );
        *total = total.saturating_sub(estimate(output)).saturating_add(estimate(&short));
        *output = short;
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rookery_messages::attachment::Attachment;
    use rookery_messages::chat::{Arguments, ToolCall};
    use rookery_messages::ids::CallId;
    use uuid::Uuid;

    use super::*;

    fn turn(n: usize, result_len: usize) -> Vec<ChatMessage> {
        let calls: Vec<ToolCall> = (0..2)
            .map(|k| ToolCall {
                id: CallId(Uuid::from_u128((n * 2 + k) as u128)),
                provider_id: None,
                name: "read".into(),
                arguments: Arguments::Object(serde_json::Map::new()),
            })
            .collect();
        let mut messages = vec![ChatMessage::user(format!("question {n}"))];
        messages.push(ChatMessage::Assistant {
            text: String::new(),
            calls: calls.clone(),
            interrupted: false,
            opaque: Vec::new(),
        });
        for call in calls {
            messages.push(ChatMessage::Tool {
                call: call.id,
                wire_id: call.wire_id(),
                name: call.name,
                output: "r".repeat(result_len),
                outside: false,
            });
        }
        messages.push(ChatMessage::assistant(format!("answer {n}")));
        messages
    }

    // V-C1
    #[test]
    fn within_budget_or_without_one_nothing_is_touched() {
        let history: Vec<_> = (0..3).flat_map(|n| turn(n, 100)).collect();
        for budget in [0, 1_000_000] {
            let window = window("system", &history, budget, false, &HashSet::new());
            assert_eq!((window.dropped, window.shortened), (0, 0));
            assert_eq!(window.messages[1..], history[..]);
        }
    }

    // V-C2
    #[test]
    fn an_image_that_goes_along_counts_and_one_that_does_not_costs_nothing() {
        let photo = |path: &str| Attachment {
            name: "photo".into(),
            path: path.into(),
            media_type: "image/jpeg".into(),
            size: 7,
        };
        let said = |attachments| ChatMessage::User {
            text: "look".into(),
            kind: UserKind::Message,
            attachments,
        };
        let history = [said(vec![photo("a")]), said(vec![photo("b"), photo("c")])];
        let total = |shown: &[&str], budget| {
            window("s", &history, budget, false, &shown.iter().copied().collect())
        };
        let words = total(&[], 0).total;
        assert_eq!(total(&["b", "c"], 0).total, words + 2 * IMAGE);
        // The older turn has to make room for them.
        assert_eq!(total(&["a", "b", "c"], 3 * IMAGE).dropped, 1);
        assert_eq!(total(&["b", "c"], 3 * IMAGE).dropped, 0);
    }

    // V-C2, V-C4, V-C5, A113
    #[test]
    fn oldest_whole_turns_go_and_one_breadcrumb_follows_the_system_message() {
        let history: Vec<_> = (0..4).flat_map(|n| turn(n, 4_000)).collect();
        let window = window("system", &history, 5_000, false, &HashSet::new());
        assert_eq!(window.messages[0], ChatMessage::System { text: "system".into() });
        assert!(matches!(
            &window.messages[1],
            ChatMessage::User { kind: UserKind::Breadcrumb, .. }
        ));
        assert!(window.messages[2].starts_turn());
        assert_eq!(window.dropped, 10);
        assert_eq!(window.messages[2..], history[10..]);
        let crumbs = window.messages.iter().filter(|m| m.text() == text::BREADCRUMB).count();
        assert_eq!(crumbs, 1);
    }

    // V-C3, A113
    #[test]
    fn a_single_turn_over_budget_keeps_its_pairs_and_its_oldest_results_are_shortened() {
        let history = turn(0, 20_000);
        let window = window("system", &history, 6_000, false, &HashSet::new());
        assert_eq!((window.dropped, window.shortened), (0, 1));
        assert_eq!(window.messages.len(), history.len() + 1);
        assert!(window.messages[3].text().contains("left out to fit the model's window"));
        assert_eq!(window.messages[4].text().len(), 20_000);
    }

    // V-C17
    #[test]
    fn steering_and_feedback_inside_a_turn_do_not_start_one() {
        let mut history = turn(0, 3_000);
        history.insert(4, ChatMessage::of_kind(UserKind::Steering, "steer"));
        history.extend(turn(1, 3_000));
        let window = window("s", &history, 2_000, false, &HashSet::new());
        assert_eq!(window.dropped, 6);
    }

    proptest! {
        // A113, A136, I4: no cut ever separates a call from its result, nor a character.
        #[test]
        fn no_budget_separates_a_call_from_its_result(
            lens in prop::collection::vec(0usize..3_000, 1..6), budget in 1u64..4_000,
        ) {
            let history: Vec<_> =
                lens.iter().enumerate().flat_map(|(n, len)| turn(n, *len)).collect();
            let window = window("système", &history, budget, false, &HashSet::new());
            let mut open = Vec::new();
            for message in &window.messages {
                match message {
                    ChatMessage::Assistant { calls, .. } => {
                        prop_assert!(open.is_empty());
                        open.extend(calls.iter().map(|c| c.id));
                    }
                    ChatMessage::Tool { call, .. } => {
                        prop_assert_eq!(open.remove(0), *call);
                    }
                    _ => prop_assert!(open.is_empty()),
                }
            }
            prop_assert!(open.is_empty());
        }
    }
}
