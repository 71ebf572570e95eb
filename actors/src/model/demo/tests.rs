use std::sync::Arc;

use rookery_messages::chat::{Arguments, ToolCall, UserKind};
use rookery_messages::ids::CallId;
use rookery_messages::tool::{ToolSpec, text};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::*;

fn tools() -> Vec<Arc<ToolSpec>> {
    ["time", "file_list", "glob_search", "file_write", "wait"]
        .into_iter()
        .map(|name| {
            Arc::new(ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                parameters: json!({"type": "object", "properties": {"timezone": {"type": "string"}}}),
            })
        })
        .collect()
}

fn request(messages: &[ChatMessage], tools: Vec<Arc<ToolSpec>>) -> ModelRequest {
    ModelRequest {
        messages: Arc::new(messages.to_vec()),
        tools: Arc::new(tools),
        ..ModelRequest::default()
    }
}

async fn ask(request: ModelRequest) -> (String, Vec<RawCall>, Vec<Usage>) {
    let provider = DemoProvider::new(DEFAULT_PAUSE);
    let mut stream = provider.stream(request).await.unwrap();
    let (mut text, mut calls, mut usage, mut ends) = (String::new(), Vec::new(), Vec::new(), 0);
    while let Some(delta) = stream.next().await {
        assert_eq!(ends, 0, "nothing follows the end");
        match delta.unwrap() {
            ModelDelta::Text(word) => text.push_str(&word),
            ModelDelta::Thinking(_) | ModelDelta::Opaque(_) => {}
            ModelDelta::Usage(tokens) => usage.push(tokens),
            ModelDelta::Ended { calls: asked, finish } => {
                ends += 1;
                let want =
                    if asked.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
                assert_eq!(finish, want);
                calls = asked;
            }
        }
    }
    assert_eq!(ends, 1);
    (text, calls, usage)
}

/// Appends a response with calls and a result for each.
fn play(history: &mut Vec<ChatMessage>, text: String, calls: &[RawCall], output: &str) {
    let start = history.len() as u128 * 100;
    let calls: Vec<ToolCall> = (start..)
        .zip(calls)
        .map(|(id, call)| ToolCall {
            id: CallId(Uuid::from_u128(id)),
            provider_id: call.provider_id.clone(),
            name: call.name.clone(),
            arguments: Arguments::parse(&call.arguments),
        })
        .collect();
    history.push(ChatMessage::Assistant {
        text,
        calls: calls.clone(),
        interrupted: false,
        opaque: Vec::new(),
    });
    history.extend(calls.iter().map(|call| ChatMessage::Tool {
        call: call.id,
        wire_id: call.wire_id(),
        name: call.name.clone(),
        output: output.to_owned(),
        outside: false,
    }));
}

fn names(calls: &[RawCall]) -> Vec<&str> {
    calls.iter().map(|call| call.name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn help_names_every_phrase_and_every_phrase_is_known() {
    let (text, calls, _) = ask(request(&[ChatMessage::user(" Help! ")], tools())).await;
    assert!(calls.is_empty());
    let (echo, _, _) = ask(request(&[ChatMessage::user("good morning")], tools())).await;
    assert!(echo.contains("good morning") && echo.contains("help"), "{echo}");
    for (phrase, what) in PHRASES {
        assert!(text.contains(phrase) && text.contains(what), "{phrase}");
        let (answer, _, _) = ask(request(&[ChatMessage::user(*phrase)], tools())).await;
        assert!(!answer.starts_with("You said"), "{phrase} is not known");
    }
}

#[tokio::test(start_paused = true)]
async fn words_come_one_by_one_with_a_pause_before_each_and_are_counted() {
    let provider = DemoProvider::new(Duration::from_millis(50));
    let begun = Instant::now();
    let mut stream =
        provider.stream(request(&[ChatMessage::user("stream")], vec![])).await.unwrap();
    let mut count = 0_u32;
    let mut usage = None;
    while let Some(delta) = stream.next().await {
        match delta.unwrap() {
            ModelDelta::Text(word) => {
                count += 1;
                assert_eq!(word.split_whitespace().count(), 1);
                assert!(begun.elapsed() >= Duration::from_millis(50) * count);
            }
            ModelDelta::Usage(tokens) => usage = Some(tokens),
            _ => {}
        }
    }
    assert!(count > 50);
    assert_eq!(usage, Some(Usage { input: 1, output: u64::from(count) }));
}

#[tokio::test(start_paused = true)]
async fn time_calls_one_tool_and_answers_with_its_result() {
    let mut history = vec![ChatMessage::user("old"), ChatMessage::user("TIME")];
    let (text, calls, _) = ask(request(&history, tools())).await;
    assert_eq!(names(&calls), ["time"]);
    play(&mut history, text, &calls, "12:00");
    history.push(ChatMessage::of_kind(UserKind::Steering, "faster"));
    let (text, calls, _) = ask(request(&history, tools())).await;
    assert!(text.contains("12:00") && calls.is_empty(), "{text}");
}

#[tokio::test(start_paused = true)]
async fn four_calls_four_tools_at_once_and_sums_up() {
    let mut history = vec![ChatMessage::user("four")];
    let (text, calls, _) = ask(request(&history, tools())).await;
    assert_eq!(names(&calls), ["time", "file_list", "glob_search", "time"]);
    assert_eq!(calls[3].arguments, r#"{"timezone":"Asia/Tokyo"}"#);
    assert_ne!(calls[0].arguments, calls[3].arguments);
    play(&mut history, text, &calls, "result");
    let (text, calls, _) = ask(request(&history, tools())).await;
    assert_eq!((text.matches("result").count(), calls.len()), (4, 0), "{text}");
}

#[tokio::test(start_paused = true)]
async fn write_says_what_became_of_it() {
    for (output, want) in [
        ("wrote 20 bytes to hello.txt", "wrote 20 bytes"),
        (text::DENIED_BY_USER, "You denied it"),
        (text::DENIED_NO_ANSWER, "Nobody answered"),
        (text::DENIED_NOBODY_ASKED, "nobody to ask"),
        ("blocked by policy: read-only", "Policy"),
    ] {
        let mut history = vec![ChatMessage::user("write")];
        let (text, calls, _) = ask(request(&history, tools())).await;
        let arguments: Value = serde_json::from_str(&calls[0].arguments).unwrap();
        assert_eq!((names(&calls), &arguments["path"]), (vec!["file_write"], &json!("hello.txt")));
        play(&mut history, text, &calls, output);
        let (text, calls, _) = ask(request(&history, tools())).await;
        assert!(text.contains(want) && calls.is_empty(), "{output}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_waits_by_a_tool() {
    let (_, calls, _) = ask(request(&[ChatMessage::user("slow")], tools())).await;
    assert_eq!(names(&calls), ["wait"]);
    assert_eq!(calls[0].arguments, r#"{"seconds":30}"#);
}

#[tokio::test(start_paused = true)]
async fn loop_never_ends_by_itself_and_never_repeats_itself() {
    let mut history = vec![ChatMessage::user("loop")];
    let mut seen: Vec<RawCall> = Vec::new();
    for _ in 0..25 {
        let (text, calls, _) = ask(request(&history, tools())).await;
        assert_eq!(names(&calls), ["time"]);
        if let Some(last) = seen.last() {
            assert_ne!(last.arguments, calls[0].arguments);
        }
        assert!(seen.iter().all(|call| call.provider_id != calls[0].provider_id));
        play(&mut history, text, &calls, "noon");
        seen.extend(calls);
    }
    let (text, calls, _) = ask(request(&history, vec![])).await;
    assert_eq!((text.as_str(), calls.len()), ("I was stopped after 25 rounds.", 0));
}

#[tokio::test(start_paused = true)]
async fn without_tools_on_offer_it_answers_in_text() {
    for (phrase, _) in PHRASES {
        let (text, calls, _) = ask(request(&[ChatMessage::user(*phrase)], vec![])).await;
        assert!(!text.is_empty() && calls.is_empty(), "{phrase}");
    }
}
