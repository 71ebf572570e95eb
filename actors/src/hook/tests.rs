//! Hooks in the process and outside of it.

use std::time::Duration;

use rookery_messages::BoxFuture;
use rookery_messages::ids::{AgentName, CallId, ChannelId, ConversationId, TurnId};
use rookery_messages::observe::TurnScope;
use rookery_messages::settings::HookSettings;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::*;
use crate::observe::{EventHub, ObserverHandle};
use crate::policy::redact::Redactor;
use crate::runtime::system_world;

fn voice() -> TurnVoice {
    let scope = TurnScope {
        turn: TurnId(Uuid::from_u128(1)),
        conversation_id: ConversationId(Uuid::from_u128(2)),
        channel: ChannelId::new("ws"),
        agent: AgentName::new("home"),
    };
    TurnVoice::new(scope, EventHub::new(system_world()), ObserverHandle::nobody())
}

fn call(arguments: Value) -> HookedCall {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    HookedCall { call: CallId(Uuid::from_u128(3)), tool: "write".into(), arguments }
}

/// A command hook whose script gets the question on standard input.
fn script(event: HookEvent, script: &str, timeout_ms: u64) -> Hooks {
    let command = Some(["/bin/sh", "-c", script].map(str::to_owned).to_vec());
    let (url, token, tools) = (None, None, None);
    let settings = HookSettings { event, command, url, token, tools, timeout_ms };
    let redactor = Arc::new(Redactor::new(["swordfish-42"]));
    let hook = ExternalHook::new("script", &settings, redactor).unwrap();
    Hooks::new([Arc::new(hook) as Arc<dyn Hook>])
}

async fn before(hooks: &Hooks, call: HookedCall) -> Result<HookedCall, Objection> {
    hooks.before_tool_call(&voice(), call, str::to_owned).await
}

fn broken(result: Result<HookedCall, Objection>) -> String {
    match result {
        Err(Objection::Broken { hook, why }) => format!("{hook}: {why}"),
        other => panic!("not broken: {other:?}"),
    }
}

#[tokio::test]
async fn a_command_continues_rewrites_and_cancels() {
    let own = call(json!({ "path": "a", "n": 1 }));
    for quiet in ["", "echo", r#"echo '{"action":"continue"}'"#, "cat >/dev/null; exec >&-; true"] {
        let hooks = script(HookEvent::BeforeToolCall, quiet, 5_000);
        assert_eq!(before(&hooks, own.clone()).await, Ok(own.clone()), "{quiet}");
    }
    let rewrite = r#"grep -q '"tool":"write"' && echo '{"action":"rewrite","tool":"read","arguments":{"path":"b"}}'"#;
    let rewritten = before(&script(HookEvent::BeforeToolCall, rewrite, 5_000), own.clone()).await;
    assert_eq!(rewritten, Ok(HookedCall { tool: "read".into(), ..call(json!({ "path": "b" })) }));
    let cancel = r#"echo '{"action":"cancel","reason":"not on a Friday"}'"#;
    let cancelled = before(&script(HookEvent::BeforeToolCall, cancel, 5_000), own).await;
    let (hook, reason) = ("script".to_owned(), "not on a Friday".to_owned());
    assert_eq!(cancelled, Err(Objection::Cancelled { hook, reason }));
}

// V-G3
#[tokio::test]
async fn a_command_that_fails_answers_nonsense_or_too_much_blocks() {
    for (fails, word) in [
        ("echo went wrong >&2; exit 3", "went wrong"),
        ("echo no json", "can't be read"),
        (r#"echo '{"action":"approve"}'"#, "can't be read"),
        (r#"echo '{"action":"edit","messages":[]}'"#, "edit"),
        ("head -c 9000000 /dev/zero", "more than"),
        ("kill -9 $$", "signal"),
    ] {
        let why = broken(
            before(&script(HookEvent::BeforeToolCall, fails, 20_000), call(json!({}))).await,
        );
        assert!(why.contains(word) && why.len() < 600, "{fails}: {why}");
    }
    let command = Some(vec!["/no/such/program".to_owned()]);
    let (event, url, token, tools) = (HookEvent::BeforeToolCall, None, None, None);
    let settings = HookSettings { event, command, url, token, tools, timeout_ms: 5_000 };
    let hook = ExternalHook::new("gone", &settings, Arc::default()).unwrap();
    let hooks = Hooks::new([Arc::new(hook) as Arc<dyn Hook>]);
    assert!(broken(before(&hooks, call(json!({}))).await).contains("can't be started"));
}

// V-G3, I6, A021: a hook has a deadline of its own
#[tokio::test]
async fn a_command_that_takes_too_long_blocks_and_nothing_of_its_group_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let hang = format!("sleep 600 & echo $$ $! > {0}.new; mv {0}.new {0}; wait", pids.display());
    let hooks = script(HookEvent::BeforeToolCall, &hang, 2_000);
    let why = broken(before(&hooks, call(json!({}))).await);
    assert!(why.contains("did not answer within 2000 ms"), "{why}");
    let pids = std::fs::read_to_string(pids).unwrap();
    let pids: Vec<i32> = pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 2);
    let lives = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']) && !rest.is_empty())
    };
    tokio::time::timeout(Duration::from_secs(20), async {
        while pids.iter().any(lives) {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the group is killed");
}

// I12, T25
#[tokio::test]
async fn a_command_sees_no_secret_and_gives_none_back_changed() {
    let dir = tempfile::tempdir().unwrap();
    let seen = dir.path().join("seen");
    // It changes one argument of what it was shown.
    let edit = format!(
        r#"cat > {0}; env >> {0}; sed -e 's/.*"arguments":\({{[^}}]*}}\).*/{{"action":"rewrite","tool":"write","arguments":\1}}/' -e 's/"path":"a"/"path":"b"/' {0} | head -1"#,
        seen.display()
    );
    let own =
        json!({ "path": "a", "password": "hunter2", "text": "key swordfish-42", "list": ["x"] });
    let hooks = script(HookEvent::BeforeToolCall, &edit, 5_000);
    let rewritten = before(&hooks, call(own)).await.unwrap();
    let expected =
        json!({ "path": "b", "password": "hunter2", "text": "key swordfish-42", "list": ["x"] });
    assert_eq!(Value::Object(rewritten.arguments), expected);
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(seen.contains(r#""path":"a""#), "{seen}");
    assert!(!seen.contains("hunter2") && !seen.contains("swordfish-42"), "{seen}");
    assert!(!seen.contains("CARGO"), "its environment is clean: {seen}");
}

/// What a hook of the process does.
struct Own(&'static str, fn(&HookedCall) -> Result<CallDecision, HookError>);

impl Hook for Own {
    fn name(&self) -> &str {
        self.0
    }

    fn listens_to(&self, event: HookEvent) -> bool {
        event == HookEvent::BeforeToolCall
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn before_tool_call<'a>(
        &'a self,
        _: &'a TurnScope,
        call: &'a HookedCall,
    ) -> BoxFuture<'a, Result<CallDecision, HookError>> {
        if self.0 == "hangs" {
            return Box::pin(std::future::pending());
        }
        // Outside the future on purpose: a panic here must be caught, too.
        let said = (self.1)(call);
        Box::pin(async { said })
    }
}

fn own(hooks: &[Own]) -> Hooks {
    Hooks::new(hooks.iter().map(|Own(name, does)| Arc::new(Own(name, *does)) as Arc<dyn Hook>))
}

// V-G3, V-G2
#[tokio::test(start_paused = true)]
async fn hooks_are_asked_in_order_each_sees_the_rewrites_before_it_and_one_failure_blocks() {
    let add: fn(&HookedCall) -> _ = |call| {
        let mut arguments = call.arguments.clone();
        let n = arguments.get("n").and_then(Value::as_u64).unwrap_or_default();
        arguments.insert("n".into(), json!(n + 1));
        Ok(CallDecision::Rewrite { tool: "WRITE".into(), arguments })
    };
    let resolve = |name: &str| name.to_ascii_lowercase();
    let hooks = own(&[Own("one", add), Own("two", add)]);
    let left = hooks.before_tool_call(&voice(), call(json!({})), resolve).await;
    assert_eq!(left, Ok(call(json!({ "n": 2 }))));
    let fails: fn(&HookedCall) -> _ = |_| Err(HookError("no disk".into()));
    let panics: fn(&HookedCall) -> _ = |_| panic!("on purpose");
    let cancels: fn(&HookedCall) -> _ = |_| Ok(CallDecision::Cancel { reason: "no".into() });
    for (bad, word) in [
        (Own("fails", fails), "no disk"),
        (Own("panics", panics), "panicked"),
        (Own("hangs", add), "did not answer"),
    ] {
        let name = bad.0;
        let why = broken(
            before(&own(&[Own("first", add), bad, Own("last", cancels)]), call(json!({}))).await,
        );
        assert!(why.starts_with(name) && why.contains(word), "{why}");
    }
}

fn edited(event: &str) -> Hooks {
    script(HookEvent::BeforeModelCall, event, 5_000)
}

// V-A14
#[tokio::test]
async fn edits_of_messages_count_only_if_the_hook_ends_well_and_the_request_stays_sound() {
    let messages = || {
        let system = ChatMessage::System { text: "be brief".into() };
        vec![system, ChatMessage::user("my key is swordfish-42")]
    };
    let left = |hooks: Hooks| async move { hooks.before_model_call(&voice(), messages()).await };
    let add = r#"sed 's/.*"messages":\(\[.*\]\).*/{"action":"edit","messages":\1}/; s/be brief/be kind/'"#;
    let kind = left(edited(add)).await.unwrap();
    let texts: Vec<&str> = kind.iter().map(ChatMessage::text).collect();
    assert_eq!(texts, ["be kind", "my key is swordfish-42"], "what it left alone is as it was");
    for bad in [
        r#"echo '{"action":"edit","messages":[]}'"#,
        r#"echo '{"action":"edit","messages":[{"role":"nobody"}]}'"#,
        r#"echo '{"action":"rewrite","tool":"x","arguments":{}}'"#,
        "exit 1",
    ] {
        assert_eq!(left(edited(bad)).await, Ok(messages()), "{bad}");
    }
    let cancelled = left(edited(r#"echo '{"action":"cancel","reason":"over budget"}'"#)).await;
    let (hook, reason) = ("script".to_owned(), "over budget".to_owned());
    assert_eq!(cancelled, Err(Objection::Cancelled { hook, reason }));
}

#[tokio::test]
async fn a_hook_for_some_tools_is_not_asked_about_others() {
    let command = Some(["/bin/sh", "-c", "exit 1"].map(str::to_owned).to_vec());
    let (event, url, token) = (HookEvent::BeforeToolCall, None, None);
    let tools = Some(vec!["shell".to_owned()]);
    let settings = HookSettings { event, command, url, token, tools, timeout_ms: 5_000 };
    let hook = ExternalHook::new("some", &settings, Arc::default()).unwrap();
    let hooks = Hooks::new([Arc::new(hook) as Arc<dyn Hook>]);
    assert!(before(&hooks, call(json!({}))).await.is_ok());
    let shell = HookedCall { tool: "shell".into(), ..call(json!({})) };
    assert!(before(&hooks, shell).await.is_err());
}

#[test]
fn what_is_given_back_as_shown_is_put_back_as_it_was_at_any_depth() {
    let map =
        |value: Value| -> Map<String, Value> { value.as_object().cloned().unwrap_or_default() };
    let own = map(json!({ "a": { "token": "t1", "n": 1 }, "l": [{ "token": "t2" }, 5], "s": "x" }));
    let shown =
        map(json!({ "a": { "token": "[r]", "n": 1 }, "l": [{ "token": "[r]" }, 5], "s": "x" }));
    let answer = json!({ "action": "rewrite", "tool": "t", "arguments":
        { "a": { "token": "[r]", "n": 2 }, "l": [{ "token": "[r]" }, 6, 7], "s": "y", "new": "[r]" } });
    let decision = wire::call_decision(answer.to_string().as_bytes(), &own, &shown);
    let expected = map(
        json!({ "a": { "token": "t1", "n": 2 }, "l": [{ "token": "t2" }, 6, 7], "s": "y", "new": "[r]" }),
    );
    assert_eq!(decision, Ok(CallDecision::Rewrite { tool: "t".into(), arguments: expected }));
}
