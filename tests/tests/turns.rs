//! Turns as a sender, a client and the provider see them: entry, streaming, caps, order.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_messages::tool::text;
use rookery_tests::api::{fresh_id, message};
use rookery_tests::model::{last_user, paired_results};
use rookery_tests::sse::{kinds, visible};
use rookery_tests::wait::until;
use rookery_tests::{Call, Config, Gate, Reply, World, db, program};
use serde_json::json;

async fn world() -> World {
    World::start(program!(), Config::new()).await
}

// V-A1
#[tokio::test]
async fn a_blank_message_is_refused_and_nothing_is_sent_or_kept() {
    let world = world().await;
    for text in ["", "  ", "\n\t ", "\u{a0}\u{2003}"] {
        let answer = world.api.webhook(&message(&fresh_id(), "c", text), "?wait=10").await;
        assert!((400..500).contains(&answer.status), "{text:?}: {answer:?}");
        assert!(!answer.code().is_empty());
    }
    assert_eq!(world.model.count(), 0);
    assert_eq!(world.api.ledger().await.accepted, 0);
    world.finish().await;
}

// V-A2, V-A3
#[tokio::test]
async fn a_text_turn_adds_one_user_and_one_assistant_message_and_one_system_message_leads_each_request()
 {
    let world = world().await;
    world.model.script("first", [Reply::deltas(["Good ", "morning", "."])]);
    assert_eq!(world.api.say("c", "first").await.text(), "Good morning.");
    assert_eq!(world.api.transcript("c").await, ["user: first", "assistant: Good morning."]);
    world.api.say("c", "second").await;
    let requests = world.model.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        let messages = request["messages"].as_array().unwrap();
        assert_eq!(messages.iter().filter(|m| m["role"] == "system").count(), 1, "{request}");
    }
    let roles: Vec<&str> = requests[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    world.finish().await;
}

// V-A6
#[tokio::test]
async fn a_turn_has_one_start_and_one_end_on_record_whether_it_succeeds_or_fails() {
    let world = World::start(program!(), Config::new().provider("max_attempts = 1")).await;
    world.model.script("well", [Reply::text("fine")]);
    world.model.script("badly", [Reply::error(400, "no such model")]);
    for (text, outcome) in [("well", "answered"), ("badly", "failed")] {
        let turn = world.api.say("c", text).await;
        assert_eq!(turn.result(), outcome);
        let journal = db::journal(world.dir(), &turn.id);
        let record = db::kinds(&journal);
        for kind in ["started", "ended"] {
            assert_eq!(record.iter().filter(|k| **k == kind).count(), 1, "{text}: {record:?}");
        }
        assert_eq!(record.last(), Some(&"ended"));
        for line in ["turn started", "turn ended"] {
            let logged = until(&format!("the log says `{line}`"), || async {
                let log = world.service.log();
                let count =
                    log.lines().filter(|l| l.contains(line) && l.contains(&turn.id)).count();
                if count == 0 { Err("not yet".to_owned()) } else { Ok(count) }
            })
            .await;
            assert_eq!(logged, 1, "{text}: {line}");
        }
    }
    world.finish().await;
}

// V-E25
#[tokio::test]
async fn events_of_a_tool_turn_come_in_order_under_one_turn_and_usage_is_summed_a_call() {
    let world = world().await;
    world.model.script(
        "clock",
        [Reply::calls([Call::new("time", json!({}))]), Reply::deltas(["It is ", "late."])],
    );
    let mut ws = world.api.ws("c").await;
    ws.say("1", "clock").await;
    let events = ws.until("ended").await;
    let order = kinds(&events);
    let at = |kind: &str| order.iter().position(|k| *k == kind).unwrap();
    let last_delta = order.iter().rposition(|kind| *kind == "delta").unwrap();
    assert!(at("accepted") < at("tool_call"), "{order:?}");
    assert!(at("tool_call") < at("tool_result") && at("tool_result") < last_delta, "{order:?}");
    let turn = events[0]["turn"].clone();
    assert!(turn.is_string() && events.iter().all(|event| event["turn"] == turn), "{events:#?}");
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{seqs:?}");
    let ended = events.last().unwrap();
    assert_eq!(ended["reply"], "It is late.");
    assert_eq!(ended["usage"], json!({"input": 20, "output": 10}));
    ws.close().await;
    world.finish().await;
}

// V-E1
#[tokio::test]
async fn text_before_and_after_a_call_is_forwarded_and_the_call_waits_for_the_end_of_the_stream() {
    let world = world().await;
    let gate = Gate::new();
    let stream = Reply::stream()
        .delta("Let me ")
        .ask([Call::shell("echo ran > ran")])
        .delta("look.")
        .gate(&gate)
        .complete("tool_calls");
    world.model.script("go", [stream, Reply::text("Done.")]);
    let mut ws = world.api.ws("c").await;
    ws.say("1", "go").await;
    let mut events = ws.until("delta").await;
    while visible(&events) != "Let me look." {
        events.extend(ws.until("delta").await);
    }
    gate.reached().await;
    assert!(!kinds(&events).contains(&"tool_call") && world.read("ran").is_empty());
    gate.open();
    events.extend(ws.until("ended").await);
    assert_eq!(world.read("ran"), "ran\n");
    assert_eq!(events.last().unwrap()["reply"], "Done.");
    ws.close().await;
    world.finish().await;
}

// V-E2
#[tokio::test]
async fn narration_before_a_call_is_shown_once() {
    let world = world().await;
    let first = Reply::stream()
        .delta("I will ")
        .delta("check.")
        .ask([Call::new("time", json!({}))])
        .complete("tool_calls");
    world.model.script("go", [first, Reply::text("All good.")]);
    let mut ws = world.api.ws("c").await;
    ws.say("1", "go").await;
    let shown = visible(&ws.until("ended").await);
    assert_eq!(shown.matches("I will check.").count(), 1, "{shown}");
    assert_eq!(shown.matches("All good.").count(), 1, "{shown}");
    ws.close().await;
    world.finish().await;
}

// V-E14
#[tokio::test]
async fn a_stream_that_breaks_after_visible_text_fails_the_turn_and_keeps_what_was_shown() {
    let world = World::start(program!(), Config::new().provider("max_attempts = 1")).await;
    world.model.script("go", [Reply::stream().delta("The answer is").cut()]);
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.result(), "failed");
    assert!(turn.fault().starts_with("provider_"), "{turn:?}");
    let partial = format!("assistant: The answer is\n{}", text::INTERRUPTED_MARKER);
    assert_eq!(world.api.transcript("c").await, ["user: go".to_owned(), partial]);
    assert_eq!(world.model.count(), 1, "visible text is not streamed a second time");
    world.finish().await;
}

// V-E15, A111
#[tokio::test]
async fn a_cancel_after_visible_text_keeps_it_with_the_marker_and_closes_the_stream() {
    let world = world().await;
    let gate = Gate::new();
    world.model.script("go", [Reply::stream().delta("Half of it").gate(&gate).complete("stop")]);
    let id = world.api.tell("c", "go").await;
    // Not the gate: what the provider has sent is not yet what a client has seen.
    world.api.events(&id).await.until("delta").await;
    world.api.cancel(&id).await;
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.result(), turn.fault()), ("cancelled", "cancelled"));
    assert_eq!(turn.error.unwrap().message, "cancelled by user");
    world.model.dropped(0).await;
    let partial = format!("assistant: Half of it\n{}", text::INTERRUPTED_MARKER);
    assert_eq!(world.api.transcript("c").await, ["user: go".to_owned(), partial]);
    world.api.cancel(&id).await;
    world.api.say("c", "and now").await;
    world.finish().await;
}

// V-E16
#[tokio::test]
async fn a_cancel_before_any_output_leaves_the_bare_marker() {
    let world = world().await;
    world.model.script("go", [Reply::silence()]);
    let id = world.api.tell("c", "go").await;
    world.model.counted(1).await;
    world.api.cancel(&id).await;
    assert_eq!(world.api.ended(&id).await.result(), "cancelled");
    world.model.dropped(0).await;
    let expected = ["user: go".to_owned(), format!("assistant: {}", text::INTERRUPTED_MARKER)];
    assert_eq!(world.api.transcript("c").await, expected);
    world.api.say("c", "and now").await;
    world.finish().await;
}

// V-E17
#[tokio::test]
async fn a_cancel_while_a_retry_waits_ends_the_turn_at_once() {
    let world = world().await;
    world.model.script("go", [Reply::error(429, "slow down").header("retry-after", "60")]);
    let id = world.api.tell("c", "go").await;
    world.model.counted(1).await;
    world.api.cancel(&id).await;
    let began = tokio::time::Instant::now();
    assert_eq!(world.api.ended(&id).await.result(), "cancelled");
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    assert_eq!(world.model.count(), 1);
    world.finish().await;
}

// V-E24
#[tokio::test]
async fn a_client_that_stops_reading_does_not_keep_a_cancel_from_its_turn() {
    let world = world().await;
    let gate = Gate::new();
    let block = "x".repeat(16 * 1024);
    let flood = (0..600).fold(Reply::stream(), |reply, _| reply.delta(&block));
    world.model.script("flood", [flood.gate(&gate).complete("stop")]);
    let mut ws = world.api.ws("c").await;
    ws.say("1", "flood").await;
    let accepted = ws.until("accepted").await;
    let id = accepted.last().unwrap()["turn"].as_str().unwrap().to_owned();
    // Nobody reads from here on: more is on its way than sockets hold, and the stream goes on all the same.
    gate.reached().await;
    world.api.cancel(&id).await;
    assert_eq!(world.api.ended(&id).await.result(), "cancelled");
    drop(ws);
    world.finish().await;
}

// V-K1
#[tokio::test]
async fn at_the_cap_a_turn_fails_and_the_error_names_the_cap() {
    let world = World::start(program!(), Config::new().runtime("max_tool_iterations = 3")).await;
    world.model.rule("again", |_| Reply::calls([Call::new("time", json!({}))]));
    let turn = world.api.say("c", "again").await;
    assert_eq!((turn.result(), turn.fault()), ("failed", "iteration_cap"));
    let error = turn.error.as_ref().unwrap();
    assert!(
        error.message.contains('3') && error.message.contains("max_tool_iterations"),
        "{error:?}"
    );
    assert_eq!(turn.calls.len(), 3, "{turn:?}");
    world.api.say("c", "something else").await;
    world.finish().await;
}

// V-K2, V-K3
#[tokio::test]
async fn at_the_cap_a_summary_is_asked_for_without_tools_and_shown_with_a_notice() {
    let config = Config::new().runtime("max_tool_iterations = 2").runtime("at_cap = \"summary\"");
    let world = World::start(program!(), config).await;
    world.model.script(
        "again",
        [
            Reply::calls([Call::new("time", json!({"timezone": "UTC"}))]),
            Reply::calls([Call::new("time", json!({"timezone": "Asia/Tokyo"}))]),
        ],
    );
    world.model.rule("", |body| match body.get("tools") {
        Some(_) => Reply::calls([Call::new("time", json!({}))]),
        None => Reply::text("So far it is late."),
    });
    let mut ws = world.api.ws("c").await;
    ws.say("1", "again").await;
    let events = ws.until("ended").await;
    let ended = events.last().unwrap();
    assert_eq!(ended["outcome"], "answered");
    let reply = ended["reply"].as_str().unwrap();
    assert!(reply.contains("So far it is late.") && reply.contains('2'), "{reply}");
    // What was streamed is not sent again: the last chunk holds the notice alone.
    let chunks: Vec<_> = events.iter().filter(|event| event["type"] == "delta").collect();
    assert_eq!(visible(&events), reply);
    let notice = reply.strip_prefix("So far it is late.").unwrap();
    assert_eq!(chunks.last().unwrap()["text"], notice);
    let requests = world.model.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests[..2].iter().all(|request| request["tools"].is_array()));
    ws.close().await;
    world.finish().await;
}

// V-N8, I3
#[tokio::test]
async fn two_messages_that_arrive_together_are_answered_one_after_the_other() {
    let world = world().await;
    let gate = Gate::new();
    world.model.script("one", [Reply::stream().delta("first").gate(&gate).complete("stop")]);
    let first = world.api.tell("c", "one").await;
    gate.reached().await;
    let second = world.api.tell("c", "two").await;
    assert_eq!(world.api.turn(&second).await.state, "queued");
    assert_eq!(world.model.count(), 1);
    gate.open();
    let (first, second) = (world.api.ended(&first).await, world.api.ended(&second).await);
    assert!(first.ended_at <= second.started_at, "{first:?} {second:?}");
    let expected = ["user: one", "assistant: first", "user: two", "assistant: you said: two"];
    assert_eq!(world.api.transcript("c").await, expected);
    world.finish().await;
}

#[tokio::test]
async fn conversations_do_not_wait_for_each_other() {
    let world = world().await;
    let gate = Gate::new();
    world.model.script("slow", [Reply::stream().gate(&gate).delta("at last").complete("stop")]);
    let slow = world.api.tell("a", "slow").await;
    gate.reached().await;
    assert_eq!(world.api.say("b", "quick").await.text(), "you said: quick");
    gate.open();
    assert_eq!(world.api.ended(&slow).await.text(), "at last");
    world.finish().await;
}

// A110
#[tokio::test]
async fn a_cancel_stops_the_running_turn_and_the_waiting_one_takes_its_place() {
    let world = world().await;
    world.model.script("one", [Reply::silence()]);
    let first = world.api.tell("c", "one").await;
    world.model.counted(1).await;
    let second = world.api.tell("c", "two").await;
    world.api.cancel(&first).await;
    assert_eq!(world.api.ended(&first).await.result(), "cancelled");
    assert_eq!(world.api.ended(&second).await.text(), "you said: two");
    world.finish().await;
}

#[tokio::test]
async fn a_waiting_turn_can_be_cancelled_and_the_running_one_goes_on() {
    let world = world().await;
    let gate = Gate::new();
    world.model.script("one", [Reply::stream().gate(&gate).delta("first").complete("stop")]);
    let first = world.api.tell("c", "one").await;
    gate.reached().await;
    let second = world.api.tell("c", "two").await;
    world.api.cancel(&second).await;
    gate.open();
    assert_eq!(world.api.ended(&first).await.text(), "first");
    assert_eq!(world.api.ended(&second).await.result(), "cancelled");
    assert_eq!(world.model.count(), 1);
    world.finish().await;
}

#[tokio::test]
async fn a_new_message_interrupts_the_running_turn_where_the_channel_says_so() {
    let world = World::start(program!(), Config::new().webhook("queue = \"interrupt\"")).await;
    world.model.script("one", [Reply::silence()]);
    let first = world.api.tell("c", "one").await;
    world.model.counted(1).await;
    let second = world.api.say("c", "two").await;
    assert_eq!(second.text(), "you said: two");
    assert_eq!(world.api.ended(&first).await.result(), "cancelled");
    world.finish().await;
}

#[tokio::test]
async fn a_message_beyond_the_queue_limit_is_rejected_and_its_sender_is_told() {
    let world = World::start(program!(), Config::new().webhook("queue_limit = 1")).await;
    let gate = Gate::new();
    world.model.script("one", [Reply::stream().gate(&gate).delta("first").complete("stop")]);
    let first = world.api.tell("c", "one").await;
    gate.reached().await;
    let second = world.api.tell("c", "two").await;
    let third = world.api.webhook(&message(&fresh_id(), "c", "three"), "?wait=10").await;
    assert_eq!((third.status, &third.body["outcome"]), (200, &json!("rejected")), "{third:?}");
    gate.open();
    world.api.ended(&first).await;
    assert_eq!(world.api.ended(&second).await.result(), "answered");
    assert_eq!(world.api.ledger().await.rejected, 1);
    world.finish().await;
}

// I2
#[tokio::test]
async fn a_message_sent_again_gets_the_turn_it_has() {
    let world = world().await;
    let body = message("same-id", "c", "hello");
    let first = world.api.webhook(&body, "?wait=30").await;
    let second = world.api.webhook(&body, "?wait=30").await;
    assert_eq!((second.status, &second.body["duplicate"]), (200, &json!(true)), "{second:?}");
    assert_eq!(second.body["turn"], first.body["turn"]);
    assert_eq!(second.body["envelope"], first.body["envelope"]);
    assert_eq!(world.model.count(), 1);
    assert_eq!(world.api.ledger().await.accepted, 1);
    world.finish().await;
}

#[tokio::test]
async fn turns_can_be_listed_by_conversation_and_state() {
    let world = world().await;
    world.api.say("a", "one").await;
    world.api.say("b", "two").await;
    let list = world.api.get("/v1/turns?conversation=a&state=ended&limit=5").await;
    let list = list.as_array().or_else(|| list["turns"].as_array()).unwrap().clone();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0]["conversation"], "a");
    assert_eq!(last_user(&world.model.last_request()), "two");
    let none = world.api.get("/v1/turns?conversation=a&state=running").await;
    assert_eq!(none.as_array().or_else(|| none["turns"].as_array()).unwrap().len(), 0);
    world.finish().await;
}

// A036: what a provider's filter took away is no whole answer
#[tokio::test]
async fn an_answer_that_a_filter_ended_says_so_and_one_that_it_took_away_fails_at_once() {
    let world = world().await;
    world.model.script("half", [Reply::stream().delta("Once upon").complete("content_filter")]);
    let turn = world.api.say("c", "half").await;
    assert_eq!((turn.result(), turn.fault()), ("answered", "content_filter"), "{turn:?}");
    assert!(turn.text().starts_with("Once upon"), "{turn:?}");
    assert!(turn.text().contains("content filter ended the answer here"), "{turn:?}");
    world.model.script("none", [Reply::stream().complete("content_filter")]);
    let turn = world.api.say("c", "none").await;
    assert_eq!((turn.result(), turn.fault()), ("failed", "content_filter"), "{turn:?}");
    // Nobody asks the same again, which would be refused again.
    assert_eq!(world.model.requests_for("none").len(), 1);
    world.finish().await;
}

// R19, I1: a turn whose agent is gone from the configuration can still be ended
#[tokio::test]
async fn a_turn_whose_agent_is_not_configured_any_more_can_be_cancelled() {
    let extra = "[agents.other]\nprovider = \"main\"\nworkspace = \"{dir}/other\"\n\
                 channels = [\"webhook.other\"]\n[channels.webhook.other]\n";
    let mut world = World::start(program!(), Config::new().extra(extra)).await;
    world.model.script("go", [Reply::silence()]);
    let body = message(&fresh_id(), "c", "go");
    let answer = world.api.post("/v1/channels/webhook/other", &body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let id = answer.body["turn"].as_str().unwrap().to_owned();
    world.model.counted(1).await;
    world.service.kill_9().await;
    world.reconfigure(Config::new());
    world.service.restart().await;
    assert_ne!(world.api.turn(&id).await.state, "ended");
    world.api.cancel(&id).await;
    let turn = world.api.ended(&id).await;
    assert_eq!(turn.result(), "cancelled", "{turn:?}");
    assert_eq!(world.api.say("c", "hello").await.result(), "answered");
    world.finish().await;
}

// R16: what each step leaves for the next, seen from outside
#[tokio::test]
async fn one_turn_goes_through_its_steps_from_the_window_to_the_iteration_cap() {
    let config = Config::new()
        .level("supervised")
        .agent("approval_route = \"admin\"")
        .runtime("max_tool_iterations = 1")
        .runtime("at_cap = \"summary\"")
        .extra("[agents.home.tool_receipts]\nenabled = true");
    let world = World::start(program!(), config).await;
    world.put("note.txt", "the key is key-for-the-mock-model\n");
    let mut ws = world.api.ws("c").await;
    ws.say("1", &format!("earlier {}", "lorem ipsum ".repeat(300))).await;
    ws.until("ended").await;
    let command = "cp note.txt copy.txt && cat copy.txt";
    let call = json!({"name": "shell", "arguments": {"command": command}});
    let asked = format!("look.\n<tool_call>{call}</tool_call>");
    world.model.script("go", [Reply::deltas(["Let me ", &asked])]);
    let too_long = Reply::error(400, "This model's maximum context length is 900 tokens");
    world.model.script("Without calling any tool", [too_long, Reply::text("It is read.")]);
    ws.say("2", "go").await;
    // Prepared, judged, shown to somebody; nothing has run.
    let mut events = ws.until("approval").await;
    let turn = events.last().unwrap()["turn"].as_str().unwrap().to_owned();
    let approval = world.api.approval_of(&turn).await;
    assert_eq!(approval["arguments"]["command"], command);
    assert!(!world.work("copy.txt").exists());
    assert_eq!(world.api.decide(&approval, &json!({"decision": "approve"})).await.status, 200);
    events.extend(ws.until("ended").await);
    let requests = world.model.requests().split_off(1);
    assert_eq!(requests.len(), 3, "{events:#?}");
    // Window and tools: all of the conversation, and what may be called.
    assert!(requests[0].to_string().contains("lorem ipsum") && requests[0]["tools"].is_array());
    // Results, in the history: paired, cleaned of the secret, with a receipt. At the cap: no tools.
    assert!(requests[1].get("tools").is_none(), "{}", requests[1]);
    let [(_, result)] = &paired_results(&requests[1])[..] else { panic!("{}", requests[1]) };
    assert!(
        result.contains("the key is [redacted]") && !result.contains("for-the-mock"),
        "{result}"
    );
    assert!(result.contains("receipt"), "{result}");
    // Recovery: the oldest turn is left out, the pair is not.
    assert!(!requests[2].to_string().contains("lorem ipsum"), "{}", requests[2]);
    assert_eq!(paired_results(&requests[2]), paired_results(&requests[1]));
    // What was shown, in its order: text, question, call, result, what was left out, the end.
    let order = ["delta", "approval", "tool_call", "tool_result", "notice", "ended"];
    let seen = kinds(&events);
    let first = order.map(|kind| seen.iter().position(|it| *it == kind).unwrap());
    assert!(first.is_sorted(), "{seen:?}");
    assert!(!visible(&events).contains("tool_call"), "{}", visible(&events));
    let reply = events.last().unwrap()["reply"].as_str().unwrap();
    assert_eq!(reply, "It is read.\n\n[Stopped after 1 tool rounds, the limit of this agent.]");
    assert_eq!(world.api.turn(&turn).await.call_states(), ["succeeded"]);
    ws.close().await;
    world.finish().await;
}
