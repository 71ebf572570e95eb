//! Calls on their way to the gate: hooks, guards, circles.

use rookery_messages::approval::ApprovalState;
use rookery_messages::hook::{
    CallDecision, ExecutedCall, Hook, HookError, HookEvent, HookedCall, ModelDecision,
};
use rookery_messages::observe::TurnScope;

use super::*;

type Judge = fn(&HookedCall) -> Result<CallDecision, HookError>;
type Edit = fn(&mut Vec<ChatMessage>) -> ModelDecision;

/// Calls that a hook was shown after they ran.
type Log = Arc<Mutex<Vec<(String, CallState)>>>;

/// A hook of the process: each part does something, or isn't there.
#[derive(Default)]
struct Own {
    name: &'static str,
    before: Option<Judge>,
    model: Option<Edit>,
    after: Option<Log>,
}

impl Hook for Own {
    fn name(&self) -> &str {
        self.name
    }

    fn listens_to(&self, event: HookEvent) -> bool {
        match event {
            HookEvent::BeforeToolCall => self.before.is_some(),
            HookEvent::AfterToolCall => self.after.is_some(),
            HookEvent::BeforeModelCall => self.model.is_some(),
        }
    }

    fn before_tool_call<'a>(
        &'a self,
        _: &'a TurnScope,
        call: &'a HookedCall,
    ) -> BoxFuture<'a, Result<CallDecision, HookError>> {
        Box::pin(async { self.before.map_or(Ok(CallDecision::Continue), |judge| judge(call)) })
    }

    fn after_tool_call<'a>(
        &'a self,
        _: &'a TurnScope,
        call: &'a ExecutedCall,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async {
            let seen = format!("{}{}", call.tool, Value::Object(call.arguments.clone()));
            if let Some(log) = &self.after {
                log.lock().push((seen, call.state));
            }
            Err(HookError("it is only counted".into()))
        })
    }

    fn before_model_call<'a>(
        &'a self,
        _: &'a TurnScope,
        messages: &'a mut Vec<ChatMessage>,
    ) -> BoxFuture<'a, Result<ModelDecision, HookError>> {
        Box::pin(async { Ok(self.model.map_or(ModelDecision::Continue, |edit| edit(messages))) })
    }
}

async fn rig(hooks: Vec<Own>) -> Rig {
    let hooks = Hooks::new(hooks.into_iter().map(|hook| Arc::new(hook) as Arc<dyn Hook>));
    Rig::hooked(RiskProfile::default(), RuntimeProfile::default(), hooks, Narrowing::default())
        .await
}

fn of(name: &'static str, before: Judge) -> Own {
    Own { name, before: Some(before), ..Own::default() }
}

fn does(call: &HookedCall) -> &str {
    call.arguments.get("do").and_then(Value::as_str).unwrap_or_default()
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// The arguments of the calls that clients were shown, in order.
fn shown(events: &Following) -> Vec<(String, Value)> {
    let calls = events.seen.iter().filter_map(|event| match &event.kind {
        TurnEventKind::ToolCall { tool, arguments, .. } => Some((tool.clone(), arguments.clone())),
        _ => None,
    });
    calls.collect()
}

async fn approval(events: &mut Following) -> Approval {
    match events.until(is_question).await {
        TurnEventKind::Approval { approval } => *approval,
        _ => unreachable!(),
    }
}

/// The same event tells of the decision later.
fn is_question(kind: &TurnEventKind) -> bool {
    matches!(kind, TurnEventKind::Approval { approval } if approval.state == ApprovalState::Pending)
}

async fn fault(rig: &Rig, turn: TurnId) -> (String, String) {
    let error = rig.record(turn).await.error.unwrap();
    (error.code, error.message)
}

// V-G1
#[tokio::test]
async fn a_hook_cancels_one_call_with_its_reason_and_the_others_run() {
    let rig = rig(vec![of("house_rules", |call| match does(call) {
        "bad" => Ok(CallDecision::Cancel { reason: "not on a Friday".into() }),
        _ => Ok(CallDecision::Continue),
    })])
    .await;
    let calls = ["a", "bad", "c"].map(|what| ("read", json!({ "do": what })));
    rig.script([asks(&calls), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    let (ok, failed) = (CallState::Succeeded, CallState::Failed);
    assert_eq!(states(&rig.record(turn).await), [ok, failed, ok]);
    let result = &rig.last_results()[1];
    assert!(result.contains("house_rules") && result.contains("not on a Friday"), "{result}");
    let opened = events.cards().iter().filter(|kind| **kind == "tool_call").count();
    assert_eq!((opened, events.cards().len()), (3, 6), "each call has its pair of events");
    assert!(!rig.runs.lock().contains(&"bad".to_owned()));
    rig.quiet().await;
}

// V-G2, V-G4, T9: rewritten into a call that needs approval, it is judged again, and the batch is one
// after the other.
#[tokio::test]
async fn a_rewritten_call_is_judged_again_and_runs_as_rewritten() {
    let mut rig = rig(vec![of("redirect", |call| match does(call) {
        "risky" => Ok(CallDecision::Rewrite {
            tool: "ONCE".into(),
            arguments: object(json!({ "do": "wait", "approved": true })),
        }),
        _ => Ok(CallDecision::Continue),
    })])
    .await;
    let calls = ["risky", "b"].map(|what| ("read", json!({ "do": what })));
    rig.script([asks(&calls), says("done")]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    let asked = approval(&mut events).await;
    assert_eq!((asked.tool.as_str(), &asked.arguments), ("once", &json!({ "do": "wait" })));
    rig.decide(&asked, Decision::Approve).await;
    rig.began.recv().await.unwrap();
    assert_eq!(*rig.runs.lock(), ["wait"], "the second call waits for the first");
    rig.gate.notify_one();
    assert_eq!(events.end().await.0, Outcome::Answered);
    let record = rig.record(turn).await;
    assert_eq!(record.calls[0].tool, "once");
    assert!(record.calls[1].started_at >= record.calls[0].ended_at, "{record:?}");
    assert_eq!(shown(&events)[0], ("once".into(), json!({ "do": "wait" })));
    assert_eq!(rig.last_results(), ["waited", "said b"]);
    rig.quiet().await;
}

// V-G3, I8
#[tokio::test]
async fn a_hook_that_panics_blocks_the_call_and_nothing_else() {
    let rig = rig(vec![of("shaky", |call| match does(call) {
        "bad" => panic!("the hook breaks"),
        _ => Ok(CallDecision::Continue),
    })])
    .await;
    rig.script([asks(&[("read", json!({ "do": "bad" })), ("read", json!({}))]), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    let record = rig.record(turn).await;
    assert_eq!(states(&record), [CallState::Blocked, CallState::Succeeded]);
    assert_eq!(record.attempts, 1, "the turn itself goes on");
    assert!(rig.last_results()[0].contains("shaky"), "{:?}", rig.last_results());
    let told = rig.observed(turn).await;
    let panics = told.iter().filter(|o| matches!(o, Observation::Hook { result: "panicked", .. }));
    assert_eq!(panics.count(), 1);
    rig.quiet().await;
}

// V-A13
#[tokio::test]
async fn a_cancelled_model_call_ends_the_turn_naming_the_hook_and_later_hooks_are_not_asked() {
    let own = |name, model: Edit| Own { name, model: Some(model), ..Own::default() };
    let budget = own("budget", |_| ModelDecision::Cancel { reason: "nothing is left".into() });
    let later = own("later", |_| panic!("asked all the same"));
    let rig = rig(vec![budget, later]).await;
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Failed);
    let (code, message) = fault(&rig, turn).await;
    assert_eq!(code, "hook_cancelled");
    assert!(message.contains("`budget`") && message.contains("nothing is left"), "{message}");
    assert!(rig.provider.requests.lock().is_empty());
    let told = rig.observed(turn).await;
    assert!(!told.iter().any(|o| matches!(o, Observation::Hook { hook, .. } if hook == "later")));
    rig.quiet().await;
}

// V-A14
#[tokio::test]
async fn a_hook_that_panics_midway_loses_its_edits_and_the_turn_goes_on() {
    let own = |name, model: Edit| Own { name, model: Some(model), ..Own::default() };
    let good = own("good", |messages| {
        messages[0] = ChatMessage::System { text: "be kind".into() };
        ModelDecision::Continue
    });
    let shaky = own("shaky", |messages| {
        messages.truncate(1);
        panic!("midway")
    });
    let rig = rig(vec![good, shaky]).await;
    let (_, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await, (Outcome::Answered, Some("done".into())));
    let sent = rig.provider.requests.lock()[0].messages.clone();
    let texts: Vec<_> = sent.iter().map(ChatMessage::text).collect();
    assert_eq!(texts, ["be kind", "message m1"]);
    rig.quiet().await;
}

// I6
#[tokio::test]
async fn a_stop_does_not_wait_for_a_hook() {
    struct Hangs(HookEvent, mpsc::Sender<()>);
    impl Hangs {
        async fn hang(&self) {
            let _ = self.1.send(()).await;
            std::future::pending().await
        }
    }
    impl Hook for Hangs {
        fn name(&self) -> &str {
            "hangs"
        }
        fn listens_to(&self, event: HookEvent) -> bool {
            event == self.0
        }
        fn timeout(&self) -> Duration {
            Duration::from_secs(3_600)
        }
        fn before_tool_call<'a>(
            &'a self,
            _: &'a TurnScope,
            _: &'a HookedCall,
        ) -> BoxFuture<'a, Result<CallDecision, HookError>> {
            Box::pin(async {
                self.hang().await;
                Ok(CallDecision::Continue)
            })
        }
        fn after_tool_call<'a>(
            &'a self,
            _: &'a TurnScope,
            _: &'a ExecutedCall,
        ) -> BoxFuture<'a, Result<(), HookError>> {
            Box::pin(async {
                self.hang().await;
                Ok(())
            })
        }
        fn before_model_call<'a>(
            &'a self,
            _: &'a TurnScope,
            _: &'a mut Vec<ChatMessage>,
        ) -> BoxFuture<'a, Result<ModelDecision, HookError>> {
            Box::pin(async {
                self.hang().await;
                Ok(ModelDecision::Continue)
            })
        }
    }
    for (event, kept) in [
        (HookEvent::BeforeModelCall, None),
        (HookEvent::BeforeToolCall, Some(CallState::Interrupted)),
        (HookEvent::AfterToolCall, Some(CallState::Succeeded)),
    ] {
        let (asked, mut hangs) = mpsc::channel(1);
        let hooks = Hooks::new([Arc::new(Hangs(event, asked)) as Arc<dyn Hook>]);
        let (profile, runtime) = (RiskProfile::default(), RuntimeProfile::default());
        let rig = Rig::hooked(profile, runtime, hooks, Narrowing::default()).await;
        rig.script([asks(&[("read", json!({}))])]);
        let (turn, mut events) = rig.accept("m1", "ws").await;
        hangs.recv().await.unwrap();
        rig.stop(turn, StopReason::User);
        assert_eq!(events.end().await.0, Outcome::Cancelled);
        assert_eq!(states(&rig.record(turn).await), Vec::from_iter(kept), "{event:?}");
        rig.quiet().await;
    }
}

// T19
#[tokio::test]
async fn hooks_after_a_call_see_what_ran_as_it_ran_and_nothing_else() {
    let log = Log::default();
    let rewrite: Judge = |call| match does(call) {
        "old" => Ok(CallDecision::Rewrite {
            tool: "read".into(),
            arguments: object(json!({ "do": "new" })),
        }),
        _ => Ok(CallDecision::Continue),
    };
    let rig = rig(vec![Own {
        name: "log",
        before: Some(rewrite),
        after: Some(log.clone()),
        ..Own::default()
    }])
    .await;
    let calls = [
        ("read", json!({ "do": "old" })),
        ("nothing", json!({})),
        ("once", json!({})),
        ("read", json!({ "do": "fail" })),
    ];
    rig.script([asks(&calls), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    let (ok, failed, denied) = (CallState::Succeeded, CallState::Failed, CallState::Denied);
    assert_eq!(states(&rig.record(turn).await), [ok, failed, denied, failed]);
    let mut seen = log.lock().clone();
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(seen, [(r#"read{"do":"fail"}"#.into(), failed), (r#"read{"do":"new"}"#.into(), ok)]);
    rig.quiet().await;
}

// V-G5, T8
#[tokio::test]
async fn a_models_own_approval_is_taken_out_and_arguments_are_held_to_the_schema() {
    let rig = Rig::plain().await;
    let calls = [("read", json!({ "approved": true, "do": "a" })), ("read", json!({ "do": 7 }))];
    rig.script([asks(&calls), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(states(&rig.record(turn).await), [CallState::Succeeded, CallState::Failed]);
    let ran = shown(&events).into_iter().find(|(_, arguments)| arguments["do"] == "a").unwrap();
    assert_eq!(ran.1, json!({ "do": "a" }));
    let refused = &rig.last_results()[1];
    assert!(refused.starts_with(text::INVALID_ARGUMENTS_PREFIX), "{refused}");
    assert!(refused.contains("field `do`"), "{refused}");
    assert_eq!(*rig.runs.lock(), ["a"]);
    rig.quiet().await;
}

// V-I20, T25
#[tokio::test]
async fn a_secret_among_the_arguments_runs_and_is_shown_to_nobody() {
    let rig = Rig::plain().await;
    let secret = json!({ "do": "hunter2", "password": "hunter2", "in": { "api_key": "hunter2" } });
    let secret_only = json!({ "password": "hunter2", "in": { "api_key": "hunter2" } });
    rig.script([asks(&[("read", secret_only), ("read", secret)]), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    events.end().await;
    let told = rig.observed(turn).await;
    let closed = json!({ "password": "[redacted]", "in": { "api_key": "[redacted]" } });
    assert_eq!(shown(&events)[0].1, closed);
    let observed = told.iter().filter_map(|seen| match seen {
        Observation::ToolCallStart { arguments, .. } | Observation::ToolCall { arguments, .. } => {
            Some(arguments)
        }
        _ => None,
    });
    let open =
        observed.filter(|arguments| arguments.to_string().contains(r#""password":"hunter2"#));
    assert_eq!(open.count(), 0);
    assert!(rig.runs.lock().contains(&"hunter2".to_owned()), "the tool itself gets them");
    rig.quiet().await;
}

// V-D3, V-D4, V-D25, T2, T5
#[tokio::test]
async fn what_policy_or_the_run_leaves_out_is_neither_offered_nor_run() {
    for (profile, narrowing, offered) in [
        (
            RiskProfile::default(),
            Narrowing::default(),
            vec!["again", "fetch", "once", "read", "share"],
        ),
        (
            RiskProfile {
                allowed_tools: Some(vec!["read".into(), "again".into()]),
                ..Default::default()
            },
            Narrowing::to(["read", "once"]),
            vec!["read"],
        ),
        (
            RiskProfile { excluded_tools: vec!["once".into()], ..Default::default() },
            Narrowing::default(),
            vec!["again", "fetch", "read", "share"],
        ),
    ] {
        let mut runtime = RuntimeProfile::default();
        runtime.delegation.max_depth = 0;
        let rig = Rig::hooked(profile, runtime, Hooks::default(), narrowing).await;
        rig.script([asks(&[("ONCE", json!({})), ("read", json!({}))]), says("done")]);
        let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
        events.end().await;
        let specs = rig.provider.requests.lock()[0].tools.clone();
        assert_eq!(specs.iter().map(|spec| spec.name.clone()).collect::<Vec<_>>(), offered);
        let states = states(&rig.record(turn).await);
        let out = if offered.contains(&"once") { CallState::Denied } else { CallState::Blocked };
        assert_eq!(states, [out, CallState::Succeeded]);
        assert_eq!(*rig.runs.lock(), ["say"]);
        rig.quiet().await;
    }
}

fn command(what: &str) -> (&'static str, Value) {
    ("once", json!({ "do": what, "command": format!("run {what}") }))
}

// V-G13
#[tokio::test]
async fn a_command_that_stands_twice_is_asked_about_once_and_runs_once_whatever_the_settings() {
    for guard in [true, false] {
        let runtime = RuntimeProfile { duplicate_guard: guard, ..RuntimeProfile::default() };
        let rig = Rig::new(RiskProfile::default(), runtime).await;
        rig.script([asks(&[command("x"), command("x"), command("y")]), says("done")]);
        let (turn, mut events) = rig.accept("m1", "ws").await;
        for _ in 0..2 {
            let asked = approval(&mut events).await;
            rig.decide(&asked, Decision::Approve).await;
        }
        assert_eq!(events.end().await.0, Outcome::Answered);
        let (ok, twin) = (CallState::Succeeded, CallState::Duplicate);
        assert_eq!(states(&rig.record(turn).await), [ok, twin, ok]);
        assert_eq!(*rig.runs.lock(), ["x", "y"]);
        assert!(rig.last_results()[1].ends_with("said x"), "{:?}", rig.last_results());
        rig.quiet().await;
    }
}

// T12, V-G14
#[tokio::test]
async fn a_command_that_was_refused_and_comes_again_ends_the_turn_without_a_second_question() {
    let rig = Rig::plain().await;
    rig.script([asks(&[command("x")]), asks(&[("read", json!({})), command("x")])]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    let asked = approval(&mut events).await;
    rig.decide(&asked, Decision::Deny { reason: None }).await;
    assert_eq!(events.end().await.0, Outcome::Failed);
    assert_eq!(fault(&rig, turn).await.0, "repeated_request");
    let (denied, cut) = (CallState::Denied, CallState::Interrupted);
    assert_eq!(states(&rig.record(turn).await), [denied, cut, denied]);
    assert!(rig.runs.lock().is_empty());
    let asked = events.seen.iter().filter(|event| is_question(&event.kind)).count();
    assert_eq!(asked, 1);
    rig.quiet().await;
}

// V-G15, T12
#[tokio::test]
async fn a_command_that_was_approved_and_ran_may_be_asked_about_again() {
    let rig = Rig::plain().await;
    rig.script([asks(&[command("x")]), asks(&[command("x")]), says("done")]);
    let (_, mut events) = rig.accept("m1", "ws").await;
    for _ in 0..2 {
        let asked = approval(&mut events).await;
        assert_eq!(asked.state, ApprovalState::Pending);
        rig.decide(&asked, Decision::Approve).await;
    }
    assert_eq!(events.end().await, (Outcome::Answered, Some("done".into())));
    assert_eq!(*rig.runs.lock(), ["x", "x"]);
    rig.quiet().await;
}

// T21, V-J20, V-J21, V-J22, A117, A118: the fourth identical result is the last one, and nobody is asked
// about the call that is refused.
#[tokio::test]
async fn a_call_that_is_asked_for_for_ever_is_approved_four_times_at_most() {
    let rig = Rig::plain().await;
    rig.script((0..9).map(|_| asks(&[command("x")])));
    let (turn, mut events) = rig.accept("m1", "ws").await;
    for _ in 0..4 {
        let asked = approval(&mut events).await;
        rig.decide(&asked, Decision::Approve).await;
    }
    assert_eq!(events.end().await.0, Outcome::Failed);
    let (code, message) = fault(&rig, turn).await;
    assert_eq!(code, "loop_detected");
    assert!(message.contains("`once` was called 5 times in a row"), "{message}");
    let record = rig.record(turn).await;
    let (ok, blocked) = (CallState::Succeeded, CallState::Blocked);
    assert_eq!(states(&record), [ok, ok, ok, ok, blocked]);
    let told = rig.observed(turn).await;
    let verdicts: Vec<_> = told
        .iter()
        .filter_map(|seen| match seen {
            Observation::Loop { pattern, verdict, .. } => Some((*pattern, *verdict)),
            _ => None,
        })
        .collect();
    assert_eq!(verdicts, [("repeat", "warn"), ("repeat", "block"), ("repeat", "break")]);
    let notices = events.kinds().iter().filter(|kind| **kind == "notice").count();
    assert_eq!(notices, 3);
    let last = rig.provider.requests.lock().last().unwrap().messages.last().cloned().unwrap();
    assert!(last.text().contains("will not be run"), "{last:?}");
    rig.quiet().await;
}
