//! `tool_search`: finds tools that are announced by name only, and makes them live for the turn (T7).

use std::sync::{Arc, Weak};

use rookery_messages::BoxFuture;
use rookery_messages::journal::{JournalEntry, JournalKind};
use rookery_messages::tool::{CallEffects, Tool, ToolContext, ToolResult, ToolSpec, head, text};
use rookery_messages::turn::CallState;
use serde_json::{Map, Value, json};

/// The tool's name.
pub const SEARCH_TOOL: &str = "tool_search";
/// How many tools a keyword query gives if it doesn't say.
const DEFAULT_LIMIT: usize = 5;
/// How many it gives at most.
const MAX_LIMIT: usize = 20;
/// What a query for names begins with.
const SELECT: &str = "select:";
/// Most names listed in the prompt; the search finds them all.
const MOST_LISTED: usize = 200;
/// Longest first line of a description in the prompt, in bytes.
const LINE: usize = 120;

/// A tool that is announced by name only.
#[derive(Clone, Debug)]
pub struct Stub {
    /// What the model would be told of it.
    pub spec: Arc<ToolSpec>,
}

/// A turn's live tools, as the search sees them.
pub(crate) trait Activation: Send + Sync + 'static {
    /// What can be found now, in the order of names: policy and groups have been applied (V-D7, V-D11).
    fn findable(&self) -> Vec<Stub>;
    /// Makes a tool live. Says whether it was not before (V-D14).
    fn activate(&self, name: &str) -> bool;
}

/// The section of the system prompt that announces them; nothing without any (V-D9).
pub fn stub_section(stubs: &[Stub]) -> Option<String> {
    if stubs.is_empty() {
        return None;
    }
    let mut section = text::DEFERRED_TOOLS.to_owned();
    for stub in stubs.iter().take(MOST_LISTED) {
        let line = stub.spec.description.lines().next().unwrap_or_default();
        section.push_str(&format!("\n- {}: {}", stub.spec.name, head(line, LINE)));
    }
    if stubs.len() > MOST_LISTED {
        section.push_str(&format!("\n- and {} more", stubs.len() - MOST_LISTED));
    }
    Some(section)
}

/// What the searches of a turn's former attempts made live.
pub fn activated_by(journal: &[JournalEntry]) -> Vec<String> {
    let searches: Vec<_> = journal
        .iter()
        .filter_map(|entry| match &entry.kind {
            JournalKind::CallPrepared { call, tool, .. } if tool == SEARCH_TOOL => Some(*call),
            _ => None,
        })
        .collect();
    let mut names = Vec::new();
    for entry in journal {
        if let JournalKind::CallFinished { call, state: CallState::Succeeded, output, .. } =
            &entry.kind
            && searches.contains(call)
            && let Some(first) = output.lines().next()
            && let Some(list) = first.strip_prefix(text::ACTIVATED_PREFIX)
        {
            names.extend(list.split(", ").map(str::to_owned));
        }
    }
    names
}

/// See the module's documentation. Belongs to one turn.
pub(crate) struct ToolSearch<A: Activation> {
    spec: Arc<ToolSpec>,
    /// Not owned: the turn's tools hold this one.
    turn: Weak<A>,
}

impl<A: Activation> ToolSearch<A> {
    pub(crate) fn new(turn: Weak<A>) -> Self {
        let spec = Arc::new(ToolSpec {
            name: SEARCH_TOOL.to_owned(),
            description: "Finds tools that are announced by name only and makes them callable for \
                          the rest of this turn. Gives their full definitions."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "Keywords, or `select:` and exact names, separated by commas."},
                    "max_results": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "description": "How many tools keywords find at most. Default: 5."},
                },
                "required": ["query"],
                "additionalProperties": false,
            }),
        });
        Self { spec, turn }
    }

    fn search(&self, arguments: &Map<String, Value>) -> ToolResult {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default().trim();
        if query.is_empty() {
            return ToolResult::failed(
                "`query` is empty; give keywords, or `select:` and the names of tools",
            );
        }
        let Some(turn) = self.turn.upgrade() else {
            return ToolResult::failed(text::INTERRUPTED_RUNNING);
        };
        let limit =
            arguments.get("max_results").and_then(Value::as_u64).map_or(DEFAULT_LIMIT, |limit| {
                usize::try_from(limit).unwrap_or(MAX_LIMIT).clamp(1, MAX_LIMIT)
            });
        let stubs = turn.findable();
        let (found, missing) = match query.strip_prefix(SELECT) {
            Some(names) => selected(&stubs, names),
            None => (ranked(&stubs, query, limit), Vec::new()),
        };
        for stub in &found {
            if turn.activate(&stub.spec.name) {
                tracing::debug!(tool = stub.spec.name, "a deferred tool was activated");
            }
        }
        ToolResult::ok(report(&found, &missing, query))
    }
}

impl<A: Activation> Tool for ToolSearch<A> {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
    }

    fn effects(&self, _: &Map<String, Value>) -> CallEffects {
        CallEffects::read_only()
    }

    fn execute<'a>(
        &'a self,
        arguments: &'a Map<String, Value>,
        _: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { self.search(arguments) })
    }
}

fn report(found: &[&Stub], missing: &[&str], query: &str) -> String {
    let mut lines = Vec::new();
    if !found.is_empty() {
        let names: Vec<&str> = found.iter().map(|stub| stub.spec.name.as_str()).collect();
        lines.push(format!("{}{}", text::ACTIVATED_PREFIX, names.join(", ")));
        for stub in found {
            let function = json!({
                "name": stub.spec.name,
                "description": stub.spec.description,
                "parameters": stub.spec.parameters,
            });
            lines.push(format!("<function>{function}</function>"));
        }
    }
    if !missing.is_empty() {
        lines.push(format!("Not found: {}", missing.join(", ")));
    }
    if lines.is_empty() {
        lines.push(format!("No tool matches `{}`.", head(query, 200)));
    }
    lines.join("\n")
}

fn selected<'a, 'q>(stubs: &'a [Stub], names: &'q str) -> (Vec<&'a Stub>, Vec<&'q str>) {
    let (mut found, mut missing): (Vec<&Stub>, Vec<&str>) = (Vec::new(), Vec::new());
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match stubs.iter().find(|stub| stub.spec.name.eq_ignore_ascii_case(name)) {
            Some(stub) if found.iter().any(|known| known.spec.name == stub.spec.name) => {}
            Some(stub) => found.push(stub),
            None => missing.push(name),
        }
    }
    (found, missing)
}

/// Those that match most terms first; a term in the name counts before one in the description.
fn ranked<'a>(stubs: &'a [Stub], query: &str, limit: usize) -> Vec<&'a Stub> {
    let terms: Vec<String> = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|term| !term.is_empty())
        .map(str::to_lowercase)
        .collect();
    let mut scored: Vec<(usize, usize, &Stub)> = stubs
        .iter()
        .filter_map(|stub| {
            let name = stub.spec.name.to_lowercase();
            let description = stub.spec.description.to_lowercase();
            let in_name = terms.iter().filter(|term| name.contains(term.as_str())).count();
            let matched = terms
                .iter()
                .filter(|term| name.contains(term.as_str()) || description.contains(term.as_str()))
                .count();
            (matched > 0).then_some((matched, in_name, stub))
        })
        .collect();
    scored.sort_by(|a, b| {
        (b.0, b.1).cmp(&(a.0, a.1)).then_with(|| a.2.spec.name.cmp(&b.2.spec.name))
    });
    scored.into_iter().take(limit).map(|(_, _, stub)| stub).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use parking_lot::Mutex;
    use rookery_messages::ids::CallId;
    use rookery_messages::tool::Effects;
    use uuid::Uuid;

    use super::*;
    use crate::tool::testing::context;

    struct Turn {
        stubs: Vec<Stub>,
        active: Mutex<BTreeSet<String>>,
        fired: Mutex<Vec<String>>,
    }

    impl Activation for Turn {
        fn findable(&self) -> Vec<Stub> {
            self.stubs.clone()
        }
        fn activate(&self, name: &str) -> bool {
            let new = self.active.lock().insert(name.to_owned());
            if new {
                self.fired.lock().push(name.to_owned());
            }
            new
        }
    }

    fn stub(name: &str, description: &str) -> Stub {
        let parameters = json!({"type": "object"});
        let (name, description) = (name.to_owned(), description.to_owned());
        Stub { spec: Arc::new(ToolSpec { name, description, parameters }) }
    }

    fn turn(stubs: Vec<Stub>) -> Arc<Turn> {
        Arc::new(Turn { stubs, active: Mutex::default(), fired: Mutex::default() })
    }

    async fn ask(turn: &Arc<Turn>, arguments: Value) -> ToolResult {
        let tool = ToolSearch::new(Arc::downgrade(turn));
        let Value::Object(arguments) = arguments else { panic!("no object") };
        tool.execute(&arguments, &context(Path::new("/"), &[]).0).await
    }

    fn activated(result: &ToolResult) -> Vec<&str> {
        let first = result.output.lines().next().unwrap();
        first.strip_prefix(text::ACTIVATED_PREFIX).map_or(Vec::new(), |l| l.split(", ").collect())
    }

    // V-D9
    #[test]
    fn the_prompt_lists_names_and_how_to_activate_them_or_says_nothing() {
        let section =
            stub_section(&[stub("a__x", "Does x.\nAnd more."), stub("b__y", "")]).unwrap();
        assert!(section.contains(SEARCH_TOOL) && section.contains(SELECT), "{section}");
        assert!(section.ends_with("\n- a__x: Does x.\n- b__y: "), "{section}");
        assert_eq!(stub_section(&[]), None);
    }

    // V-D10
    #[tokio::test]
    async fn keywords_give_the_five_best_activated_and_as_function_lines() {
        let mut stubs: Vec<Stub> =
            (0..6).map(|n| stub(&format!("mail__m{n}"), "about mail")).collect();
        stubs.push(stub("mail__send", "sends mail"));
        stubs.push(stub("disk__free", "free space"));
        let turn = turn(stubs);
        let result = ask(&turn, json!({"query": "send MAIL"})).await;
        assert!(result.success);
        assert_eq!(
            activated(&result),
            ["mail__send", "mail__m0", "mail__m1", "mail__m2", "mail__m3"]
        );
        let second = result.output.lines().nth(1).unwrap();
        let function = second
            .strip_prefix("<function>")
            .and_then(|line| line.strip_suffix("</function>"))
            .unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(function).unwrap(),
            json!({"name": "mail__send", "description": "sends mail", "parameters": {"type": "object"}})
        );
        assert_eq!(result.output.lines().count(), 6);
        let one = ask(&turn, json!({"query": "mail", "max_results": 1})).await;
        assert_eq!(activated(&one).len(), 1);
    }

    // V-D12
    #[tokio::test]
    async fn names_that_are_not_there_are_listed_and_the_search_is_a_success() {
        let turn = turn(vec![stub("a__x", "")]);
        let result = ask(&turn, json!({"query": "select: A__X, b__y , a__x"})).await;
        assert!(result.success);
        assert_eq!(activated(&result), ["a__x"]);
        assert!(result.output.ends_with("\nNot found: b__y"), "{}", result.output);
        let none = ask(&turn, json!({"query": "select:q"})).await;
        assert_eq!(none, ToolResult::ok("Not found: q"));
        assert!(ask(&turn, json!({"query": "zebra"})).await.success);
    }

    // V-D13
    #[tokio::test]
    async fn an_empty_query_is_a_failure() {
        let turn = turn(vec![stub("a__x", "")]);
        for query in [json!({"query": ""}), json!({"query": "  "}), json!({})] {
            assert!(!ask(&turn, query).await.success);
        }
    }

    // V-D14
    #[tokio::test]
    async fn activating_a_tool_twice_is_activating_it_once() {
        let turn = turn(vec![stub("a__x", "")]);
        for _ in 0..2 {
            assert_eq!(activated(&ask(&turn, json!({"query": "select:a__x"})).await), ["a__x"]);
        }
        assert_eq!(*turn.fired.lock(), ["a__x"]);
    }

    // T7
    #[tokio::test]
    async fn what_a_former_attempt_activated_is_read_from_its_journal() {
        let turn = turn(vec![stub("a__x", ""), stub("a__y", "")]);
        let output = ask(&turn, json!({"query": "select:a__x,a__y,a__z"})).await.output;
        let (search, other) = (CallId(Uuid::from_u128(1)), CallId(Uuid::from_u128(2)));
        let prepared = |call, tool: &str| JournalKind::CallPrepared {
            call,
            tool: tool.to_owned(),
            state: CallState::Planned,
            arguments: None,
            effects: Effects::ReadOnly,
            output: None,
            same_as: None,
            brings_in: false,
        };
        let finished = |call, state| JournalKind::CallFinished {
            call,
            state,
            output: output.clone(),
            receipt: None,
        };
        let journal = |kinds: Vec<JournalKind>| -> Vec<JournalEntry> {
            let entry = |(seq, kind)| JournalEntry { attempt: 1, seq, kind };
            (0..).zip(kinds).map(entry).collect()
        };
        let kept = journal(vec![
            prepared(search, SEARCH_TOOL),
            prepared(other, "file_read"),
            finished(search, CallState::Succeeded),
            finished(other, CallState::Succeeded),
        ]);
        assert_eq!(activated_by(&kept), ["a__x", "a__y"]);
        let failed =
            journal(vec![prepared(search, SEARCH_TOOL), finished(search, CallState::Failed)]);
        assert_eq!(activated_by(&failed), Vec::<String>::new());
    }
}
