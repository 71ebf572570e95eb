//! Closing summaries at the iteration cap.

use rookery_messages::settings::CapBehaviour;

use super::*;

impl Following {
    /// The text that was shown.
    fn shown(&self) -> String {
        let deltas = self.seen.iter().filter_map(|event| match &event.kind {
            TurnEventKind::Delta { text } => Some(text.as_str()),
            _ => None,
        });
        deltas.collect()
    }
}

/// Two rounds of tools, then this is said though no tool is on offer any more.
async fn summed_up(summary: &str) -> (Rig, String) {
    let runtime = RuntimeProfile {
        max_tool_iterations: 2,
        at_cap: CapBehaviour::Summary,
        ..RuntimeProfile::default()
    };
    let rig = Rig::new(RiskProfile::default(), runtime).await;
    let round = |what: &str| asks(&[("read", json!({ "do": what }))]);
    rig.script([round("a"), round("b"), says(summary)]);
    let (_, mut events) = rig.accept("m1", "ws").await;
    let (outcome, reply) = events.end().await;
    assert_eq!(outcome, Outcome::Answered);
    let reply = reply.unwrap();
    assert_eq!(events.shown(), format!("let me seelet me see{reply}"));
    (rig, reply)
}

// V-K4
#[tokio::test]
async fn a_summary_is_shown_without_thoughts_and_calls_and_kept_as_it_was_written() {
    let call = "<tool_call>{\"name\": \"read\", \"arguments\": {\"do\": \"c\"}}</tool_call>";
    let broken = "<tool_call>{\"name\": \"read\", \"arguments\": </tool_call>";
    let notice = "\n\n[Stopped after 2 tool rounds, the limit of this agent.]";
    for (summary, shown) in [
        (format!("<think>what now?</think>It is late.\n{call}"), "It is late."),
        (format!("It is late.\n{broken}"), "It is late."),
        (call.to_owned(), text::SUMMARY_UNSHOWABLE),
        (broken.to_owned(), text::SUMMARY_UNSHOWABLE),
    ] {
        let (rig, reply) = summed_up(&summary).await;
        let said = reply.strip_suffix(notice).unwrap();
        assert_eq!(said.trim_end(), shown, "{summary}");
        // Nothing ran beyond the cap, and nobody was asked again.
        assert_eq!((rig.runs.lock().len(), rig.provider.requests.lock().len()), (2, 3));
        let kept = rig.store.messages(ChannelId::new("ws"), "c1".into(), 50).await.unwrap();
        assert_eq!(kept.unwrap().last().unwrap().message, ChatMessage::assistant(summary.as_str()));
        // The next turn's request has it so, too.
        rig.script([says("well")]);
        let (_, mut events) = rig.accept("m2", "ws").await;
        assert_eq!(events.end().await.0, Outcome::Answered);
        let request = rig.provider.requests.lock().last().cloned().unwrap();
        assert!(request.messages.iter().any(|message| message.text() == summary));
        rig.quiet().await;
    }
}

// V-K6
#[tokio::test]
async fn a_summary_of_nothing_but_thoughts_is_no_summary() {
    let runtime = RuntimeProfile {
        max_tool_iterations: 1,
        at_cap: CapBehaviour::Summary,
        ..RuntimeProfile::default()
    };
    let rig = Rig::new(RiskProfile::default(), runtime).await;
    let thinks = || says("<think>hm</think>");
    rig.script([asks(&[("read", json!({ "do": "a" }))]), thinks(), thinks()]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    assert_eq!(events.end().await.0, Outcome::Failed);
    assert_eq!(rig.record(turn).await.error.unwrap().code, "provider_empty");
    rig.quiet().await;
}
