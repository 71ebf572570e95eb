//! The tools on real files and real processes, through the registry, as a turn uses them.

mod files;
mod git;
mod processes;
mod search;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rookery_messages::time::Clock;
use rookery_messages::tool::{CallEffects, Effects, Reach, ToolContext, ToolResult, text};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::builtin_registry;
use crate::tool::registry::Registry;
use crate::tool::testing::context;

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_700_000_000).expect("a time")
    }
}

fn registry() -> Registry {
    builtin_registry(Arc::new(Fixed), None)
}

fn arguments(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

async fn call_in(cx: &ToolContext, tool: &str, value: Value) -> ToolResult {
    let registry = registry();
    let (_, tool) = registry.resolve(tool).expect("a built-in tool");
    tool.execute(&arguments(value), cx).await
}

/// A folder with a workspace `ws` in it.
struct World {
    _root: TempDir,
    root: PathBuf,
    ws: PathBuf,
}

impl World {
    fn new() -> Self {
        let temp = tempfile::tempdir().expect("a temporary folder");
        let root = temp.path().canonicalize().expect("it exists");
        let ws = root.join("ws");
        fs::create_dir(&ws).expect("a folder");
        Self { _root: temp, root, ws }
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.ws.join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("folders");
        fs::write(&path, content).expect("a file");
        path
    }

    async fn call(&self, tool: &str, value: Value) -> ToolResult {
        let (cx, _) = context(&self.ws, &[]);
        call_in(&cx, tool, value).await
    }

    async fn ok(&self, tool: &str, value: Value) -> String {
        let result = self.call(tool, value).await;
        assert!(result.success, "{:?}", result.error);
        result.output
    }

    async fn error(&self, tool: &str, value: Value) -> String {
        let result = self.call(tool, value).await;
        assert!(!result.success, "{}", result.output);
        result.error.expect("a failure says why")
    }
}

// T1, T4
#[test]
fn the_built_in_tools_have_valid_specs_in_one_order() {
    let registry = registry();
    let names: Vec<&str> = registry.names().collect();
    assert_eq!(
        names,
        [
            "ask_user",
            "content_search",
            "file_edit",
            "file_list",
            "file_read",
            "file_write",
            "glob_search",
            "http_request",
            "shell",
            "time",
            "wait",
            "web_fetch"
        ]
    );
    for spec in registry.specs(|_| true) {
        assert!(!spec.description.is_empty());
        assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
        let properties = spec.parameters["properties"].as_object().expect("properties");
        for field in spec.parameters["required"].as_array().expect("a list") {
            assert!(properties.contains_key(field.as_str().expect("a name")), "{}", spec.name);
        }
    }
}

// R10: per-call risk
#[test]
fn each_tool_says_what_a_call_would_do() {
    let registry = registry();
    let effects = |tool: &str, value: Value| {
        registry.resolve(tool).expect("a built-in tool").1.effects(&arguments(value))
    };
    for tool in ["time", "wait", "file_list", "glob_search", "content_search", "file_read"] {
        let read = effects(tool, json!({"path": "a"}));
        assert_eq!((read.effects, read.writes.len()), (Effects::ReadOnly, 0), "{tool}");
    }
    for (tool, what) in [("file_write", Effects::Idempotent), ("file_edit", Effects::Once)] {
        let write = effects(tool, json!({"path": "a"}));
        assert_eq!((write.effects, write.reach), (what, Reach::Workspace), "{tool}");
        assert_eq!(write.writes, ["a"], "{tool}");
    }
    assert_eq!(
        effects("shell", json!({"command": "ls", "workdir": "sub"})),
        CallEffects {
            reads: vec!["sub".to_owned()],
            command: Some("ls".to_owned()),
            ..CallEffects::unknown()
        }
    );
}

// T8
#[tokio::test]
async fn missing_and_mistyped_arguments_name_the_field_and_the_type() {
    let world = World::new();
    let cases = [
        ("file_read", json!({}), "`path` is missing; it must be a string"),
        ("file_read", json!({"path": 5}), "`path` is 5; it must be a string"),
        ("file_read", json!({"path": null}), "`path` is missing"),
        (
            "file_read",
            json!({"path": "a", "limit": 0}),
            "`limit` is 0; it must be a whole number from 1 to",
        ),
        (
            "file_read",
            json!({"path": "a", "limit": "3"}),
            "`limit` is a string; it must be a whole number",
        ),
        (
            "file_read",
            json!({"path": "a", "offset": 1.5}),
            "`offset` is 1.5; it must be a whole number",
        ),
        ("file_write", json!({"path": "a"}), "`content` is missing; it must be a string"),
        (
            "file_write",
            json!({"path": "a", "content": "", "create_dirs": "yes"}),
            "must be true or false",
        ),
        (
            "file_edit",
            json!({"path": "a", "old": [], "new": ""}),
            "`old` is an array; it must be a string",
        ),
        ("file_list", json!({"path": {}}), "`path` is an object"),
        ("glob_search", json!({}), "`pattern` is missing"),
        (
            "content_search",
            json!({"pattern": true}),
            "`pattern` is true or false; it must be a string",
        ),
        ("shell", json!({}), "`command` is missing"),
        ("shell", json!({"command": "ls", "timeout_secs": -1}), "`timeout_secs` is -1"),
        ("wait", json!({}), "`seconds` is missing; it must be a whole number from 0 to 300"),
        ("wait", json!({"seconds": 301}), "`seconds` is 301"),
        ("time", json!({"timezone": 1}), "`timezone` is 1"),
    ];
    for (tool, value, expected) in cases {
        let error = world.error(tool, value.clone()).await;
        assert!(error.starts_with(text::INVALID_ARGUMENTS_PREFIX), "{tool} {value}: {error}");
        assert!(error.contains(expected), "{tool} {value}: {error}");
    }
}

#[tokio::test]
async fn unknown_argument_keys_are_ignored() {
    let world = World::new();
    world.file("a", "text");
    assert_eq!(world.ok("file_read", json!({"path": "a", "why": "x", "limit": 5.0})).await, "text");
}

#[tokio::test]
async fn time_knows_zones_without_the_systems_help_and_names_unknown_ones() {
    let world = World::new();
    assert_eq!(world.ok("time", json!({})).await, "Tuesday, 2023-11-14T22:13:20+00:00 (UTC)");
    assert_eq!(
        world.ok("time", json!({"timezone": "Asia/Kathmandu"})).await,
        "Wednesday, 2023-11-15T03:58:20+05:45 (Asia/Kathmandu)"
    );
    let error = world.error("time", json!({"timezone": "Moon/\u{1b}[2J"})).await;
    assert!(error.contains("`Moon/\\u{1b}[2J` is not known"), "{error}");
}

// R19
#[tokio::test(start_paused = true)]
async fn wait_lasts_as_long_as_asked_and_ends_at_once_when_cancelled() {
    let world = World::new();
    let begun = tokio::time::Instant::now();
    assert_eq!(world.ok("wait", json!({"seconds": 42})).await, "waited 42 s");
    assert_eq!(begun.elapsed().as_secs(), 42);
    let (cx, _) = context(&world.ws, &[]);
    let begun = tokio::time::Instant::now();
    let (result, ()) = tokio::join!(call_in(&cx, "wait", json!({"seconds": 300})), async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        cx.cancel.cancel();
    });
    assert_eq!(result, ToolResult::failed(text::INTERRUPTED_RUNNING));
    assert_eq!(begun.elapsed().as_secs(), 1);
}
