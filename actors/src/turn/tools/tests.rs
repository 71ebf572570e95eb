//! The set of tools a turn has: grants, policy, groups, deferred tools.

use std::path::PathBuf;
use std::time::Duration;

use rookery_messages::ids::{AgentName, CallId};
use rookery_messages::journal::JournalKind;
use rookery_messages::settings::{
    FilterMode, ReceiptSettings, RiskProfile, RuntimeProfile, ToolFilterGroup,
};
use rookery_messages::tool::Effects;
use rookery_messages::turn::CallState;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::hook::Hooks;
use crate::policy::gate::Gate;
use crate::runtime::system_world;
use crate::tool::builtin::builtin_registry;
use crate::tool::mcp::testing::{offer, ready};
use crate::tool::mcp::{Filter, Link, McpGrant, ServerGrant};
use crate::tool::testing::context;
use crate::turn::Narrowing;

/// A grant of all of a server's tools, or of these.
fn grant(link: &Arc<Link>, deferred: bool, tools: Option<&[&str]>) -> ServerGrant {
    let tools: Option<Vec<String>> =
        tools.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    ServerGrant::new(Arc::clone(link), tools.as_deref(), deferred, Duration::from_secs(1))
}

fn bundle(
    servers: Vec<ServerGrant>,
    groups: &[ToolFilterGroup],
    profile: RiskProfile,
) -> Arc<AgentBundle> {
    Arc::new(AgentBundle {
        name: AgentName::new("home"),
        chain: Arc::new([]),
        models: Arc::default(),
        vision: Arc::default(),
        tools: Arc::new(builtin_registry(system_world().clock, None)),
        mcp: Arc::new(McpGrant::new(servers, Filter::new(groups))),
        gate: Gate::new(Arc::new(profile), PathBuf::from("/"), &[]),
        narrowing: Narrowing::default(),
        channels: Arc::default(),
        hooks: Hooks::default(),
        runtime: RuntimeProfile::default(),
        system_prompt: "You are Rookery.".to_owned(),
        approval_route: None,
        approval_inherits: false,
        receipts: ReceiptSettings::default(),
        anchor: Arc::default(),
        memory: None,
    })
}

fn excluding(names: &[&str]) -> RiskProfile {
    let excluded_tools = names.iter().map(|name| (*name).to_owned()).collect();
    RiskProfile { excluded_tools, ..RiskProfile::default() }
}

fn turn(servers: Vec<ServerGrant>, groups: &[ToolFilterGroup], message: &str) -> Arc<TurnTools> {
    TurnTools::new(bundle(servers, groups, RiskProfile::default()), message, &[])
}

/// What the model is shown of servers' tools, and of the search.
fn shown(tools: &TurnTools) -> Vec<String> {
    let names = tools.specs().into_iter().map(|spec| spec.name.clone());
    names.filter(|name| name.contains("__") || name == SEARCH_TOOL).collect()
}

fn group(mode: FilterMode, tools: &str, keywords: &[&str]) -> ToolFilterGroup {
    let keywords = keywords.iter().map(|word| (*word).to_owned()).collect();
    ToolFilterGroup { mode, tools: vec![tools.to_owned()], keywords }
}

async fn search(tools: &TurnTools, arguments: Value) -> String {
    let (_, tool) = tools.resolve(SEARCH_TOOL).unwrap();
    let Value::Object(arguments) = arguments else { panic!("no object") };
    let result = tool.execute(&arguments, &context(std::path::Path::new("/"), &[]).0).await;
    assert!(result.success, "{result:?}");
    result.output
}

// V-D6, T2
#[test]
fn only_what_a_bundle_grants_is_there() {
    let (files, mail) = (ready("files", &["read", "write"]), ready("mail", &["send"]));
    assert_eq!(shown(&turn(vec![], &[], "")), Vec::<String>::new());
    let some = grant(&files, false, Some(&["files__r*"]));
    assert_eq!(shown(&turn(vec![some], &[], "")), ["files__read"]);
    let twice = vec![grant(&mail, false, None), grant(&mail, false, None)];
    assert_eq!(shown(&turn(twice, &[], "")), ["mail__send"]);
}

// V-D7
#[tokio::test]
async fn a_denied_stub_is_neither_announced_nor_found() {
    let link = ready("s", &["good", "bad"]);
    let bundle = bundle(vec![grant(&link, true, None)], &[], excluding(&["s__bad"]));
    let tools = TurnTools::new(bundle, "", &[]);
    let prompt = tools.system_prompt();
    assert!(prompt.contains("s__good") && !prompt.contains("s__bad"), "{prompt}");
    assert_eq!(search(&tools, json!({"query": "bad"})).await, "No tool matches `bad`.");
    assert_eq!(search(&tools, json!({"query": "select:s__bad"})).await, "Not found: s__bad");
}

// V-D8, V-D9
#[test]
fn without_the_search_nothing_is_announced() {
    let link = ready("s", &["x"]);
    let with = turn(vec![grant(&link, true, None)], &[], "");
    assert!(with.system_prompt().starts_with("You are Rookery.\n\n"));
    assert!(with.system_prompt().contains("s__x"));
    assert_eq!(shown(&with), [SEARCH_TOOL]);
    let bundle = bundle(vec![grant(&link, true, None)], &[], excluding(&[SEARCH_TOOL]));
    let without = TurnTools::new(bundle, "", &[]);
    assert_eq!(without.system_prompt(), "You are Rookery.");
    assert_eq!(shown(&without), Vec::<String>::new());
    let eager = turn(vec![grant(&link, false, None)], &[], "");
    assert_eq!(
        (eager.system_prompt().as_str(), shown(&eager)),
        ("You are Rookery.", vec!["s__x".to_owned()])
    );
}

// V-D11
#[tokio::test]
async fn denied_tools_take_no_place_in_what_a_search_gives() {
    let link = ready("s", &["mail1", "mail2", "mail3", "mail4", "mail5", "mail6", "mail7"]);
    let denied = excluding(&["s__mail1", "s__mail2"]);
    let tools = TurnTools::new(bundle(vec![grant(&link, true, None)], &[], denied), "", &[]);
    let found = search(&tools, json!({"query": "mail"})).await;
    assert!(
        found.starts_with("Activated: s__mail3, s__mail4, s__mail5, s__mail6, s__mail7\n"),
        "{found}"
    );
}

// V-D18, V-D19
#[test]
fn groups_hide_servers_tools_and_leave_the_built_in_ones_alone() {
    let link = ready("s", &["x"]);
    let groups = [group(FilterMode::Dynamic, "s__*", &["Invoice"])];
    let hidden = turn(vec![grant(&link, false, None)], &groups, "hello");
    assert_eq!(shown(&hidden), Vec::<String>::new());
    let built_in = turn(vec![], &[], "").specs().len();
    assert_eq!(hidden.specs().len(), built_in);
    let there = turn(vec![grant(&link, false, None)], &groups, "my INVOICE please");
    assert_eq!(shown(&there), ["s__x"]);
}

// V-D20
#[test]
fn an_always_group_makes_its_deferred_tools_live_from_the_start_within_policy() {
    let link = ready("s", &["x", "bad", "other"]);
    let groups = [group(FilterMode::Always, "s__x", &[]), group(FilterMode::Always, "s__bad", &[])];
    let bundle = bundle(vec![grant(&link, true, None)], &groups, excluding(&["s__bad"]));
    let tools = TurnTools::new(bundle, "", &[]);
    assert_eq!(shown(&tools), ["s__x", SEARCH_TOOL]);
    assert_eq!(tools.system_prompt(), "You are Rookery.");
}

// V-D21
#[tokio::test]
async fn a_tool_activated_by_a_search_is_hidden_too_when_its_group_is() {
    let link = ready("s", &["x"]);
    let groups = [group(FilterMode::Dynamic, "s__*", &["invoice"])];
    let servers = || vec![grant(&link, true, None)];
    let with = turn(servers(), &groups, "an invoice");
    assert!(search(&with, json!({"query": "x"})).await.starts_with("Activated: s__x\n"));
    with.advance();
    assert_eq!(shown(&with), ["s__x", SEARCH_TOOL]);
    let without = turn(servers(), &groups, "hello");
    assert!(without.activate("s__x"));
    without.advance();
    assert_eq!(shown(&without), [SEARCH_TOOL]);
    assert_eq!(search(&without, json!({"query": "x"})).await, "No tool matches `x`.");
}

// V-D22, T4
#[tokio::test]
async fn what_was_activated_appears_with_the_next_step_in_the_order_of_names() {
    let link = ready("s", &["c", "a", "b"]);
    let tools = turn(vec![grant(&link, true, None)], &[], "");
    let found = search(&tools, json!({"query": "select:s__b,s__a"})).await;
    assert!(found.starts_with("Activated: s__b, s__a\n"), "{found}");
    assert_eq!(shown(&tools), [SEARCH_TOOL]);
    tools.advance();
    assert_eq!(shown(&tools), ["s__a", "s__b", SEARCH_TOOL]);
    let prompt = tools.system_prompt();
    assert!(prompt.contains("s__c") && !prompt.contains("s__a"), "{prompt}");
    // Shared: the next step's specs are the same ones.
    let first = tools.specs();
    tools.advance();
    assert!(first.iter().zip(tools.specs()).all(|(a, b)| a.name == b.name));
}

// V-D15
#[test]
fn a_deferred_tool_is_called_by_its_short_name_once_it_is_active() {
    let (s, t) = (ready("s", &["x", "y"]), ready("t", &["y"]));
    let tools = turn(vec![grant(&s, true, None), grant(&t, true, None)], &[], "");
    assert!(tools.resolve("x").is_none());
    assert!(tools.unknown("s__x").ends_with(text::NOT_ACTIVE_SUFFIX));
    assert_eq!(tools.unknown("q"), format!("{}q", text::UNKNOWN_TOOL_PREFIX));
    tools.activate("s__x");
    tools.activate("s__y");
    tools.advance();
    assert_eq!(tools.resolve("x").unwrap().0, "s__x");
    assert_eq!(tools.resolve("y").unwrap().0, "s__y");
    tools.activate("t__y");
    tools.advance();
    assert!(tools.resolve("y").is_none());
}

// T7, B2
#[test]
fn a_later_attempt_has_what_a_former_one_activated() {
    let link = ready("s", &["x", "y"]);
    let call = CallId(Uuid::from_u128(1));
    let kinds = [
        JournalKind::CallPrepared {
            call,
            tool: SEARCH_TOOL.to_owned(),
            state: CallState::Planned,
            arguments: None,
            effects: Effects::ReadOnly,
            output: None,
            same_as: None,
            brings_in: false,
        },
        JournalKind::CallFinished {
            call,
            state: CallState::Succeeded,
            output: "Activated: s__x, s__gone\n<function>{}</function>".to_owned(),
            receipt: None,
        },
    ];
    let entry = |(seq, kind)| JournalEntry { attempt: 1, seq, kind };
    let journal: Vec<JournalEntry> = (0..).zip(kinds).map(entry).collect();
    let bundle = bundle(vec![grant(&link, true, None)], &[], RiskProfile::default());
    let tools = TurnTools::new(bundle, "", &journal);
    assert_eq!(shown(&tools), ["s__x", SEARCH_TOOL]);
}

// A106
#[test]
fn a_step_keeps_its_tools_while_the_servers_list_changes() {
    let link = ready("s", &["x", "old"]);
    let tools = turn(vec![grant(&link, false, None)], &[], "");
    offer(&link, &["x", "new"]);
    assert_eq!(shown(&tools), ["s__old", "s__x"]);
    assert!(tools.resolve("s__old").is_some() && tools.resolve("s__new").is_none());
    tools.advance();
    assert_eq!(shown(&tools), ["s__new", "s__x"]);
    assert!(tools.resolve("s__old").is_none());
}

// V-D20
#[test]
fn deferred_tools_that_were_handed_over_are_live_at_once_within_policy_and_not_announced() {
    let link = ready("s", &["x", "y", "z"]);
    let groups = [group(FilterMode::Dynamic, "s__*", &["never"])];
    let whole = bundle(vec![grant(&link, true, None)], &groups, excluding(&["s__y"]));
    let child = whole.narrowed(&Narrowing::handed(["s__x", "s__y"]));
    let tools = TurnTools::new(Arc::new(child), "", &[]);
    assert_eq!(shown(&tools), ["s__x"]);
    assert_eq!(tools.system_prompt(), "You are Rookery.");
    assert!(tools.resolve("s__z").is_none());
}
