//! What the demo provider says.

use rookery_messages::chat::{ChatMessage, UserKind};
use rookery_messages::model::{ModelRequest, RawCall};
use rookery_messages::tool::{ToolSpec, head, text};
use serde_json::{Map, Value, json};

/// The phrases it knows, and what each shows.
pub const PHRASES: &[(&str, &str)] = &[
    ("help", "lists these phrases"),
    ("stream", "streams a paragraph, word by word"),
    ("time", "calls one tool and answers with its result"),
    ("four", "calls four tools at once and sums their results up"),
    ("write", "writes hello.txt into the workspace, which needs your approval"),
    ("slow", "calls a tool that takes 30 seconds, for you to stop"),
    ("loop", "calls a tool again and again, until the iteration cap ends the turn"),
];

/// A whole response: text first, then calls.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) text: String,
    pub(super) calls: Vec<RawCall>,
}

impl Reply {
    fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), calls: Vec::new() }
    }
}

/// Longest part of one tool's result that is repeated.
const MAX_QUOTE: usize = 200;
const PARAGRAPH: &str = "Rookeries are where rooks nest: many birds, each with a nest of its own, high \
     up in the same trees. If one nest falls in a storm, the others stay, and the bird builds again. \
     That is how this service works, too. Every channel, turn, tool call and approval is an actor of \
     its own, watched by a supervisor that knows what to do when it fails. These words reach you one \
     by one, as a model would write them.";
/// Zones for calls that have to differ.
const ZONES: [&str; 8] = [
    "UTC",
    "Asia/Tokyo",
    "Europe/Berlin",
    "America/New_York",
    "Africa/Nairobi",
    "Australia/Sydney",
    "America/Sao_Paulo",
    "Asia/Kolkata",
];

/// Where the answer to the last user message stands.
struct Scene<'a> {
    request: &'a ModelRequest,
    phrase: String,
    said: &'a str,
    /// Responses with calls since that message.
    rounds: usize,
    /// The results since that message: the tool's name, and what it gave.
    results: Vec<(&'a str, &'a str)>,
}

pub(super) fn reply(request: &ModelRequest) -> Reply {
    let scene = Scene::of(request);
    match scene.phrase.as_str() {
        "help" => Reply::text(help()),
        "stream" => Reply::text(PARAGRAPH),
        "time" => scene.time(),
        "four" => scene.four(),
        "write" => scene.write(),
        "slow" => scene.slow(),
        "loop" => scene.repeat(),
        _ => Reply::text(format!(
            "You said: {}. I am the demo model: I work offline and know a few phrases. Say help to \
             see them.",
            head(scene.said.trim(), MAX_QUOTE)
        )),
    }
}

fn help() -> String {
    let phrases: Vec<String> =
        PHRASES.iter().map(|(phrase, what)| format!("- {phrase}: {what}")).collect();
    format!("I am the demo model. I know these phrases:\n{}", phrases.join("\n"))
}

impl<'a> Scene<'a> {
    fn of(request: &'a ModelRequest) -> Self {
        let messages = request.messages.as_slice();
        // What is said into a running turn doesn't begin the answer anew.
        let begin = messages.iter().rposition(ChatMessage::starts_turn).or_else(|| {
            messages.iter().rposition(|message| {
                matches!(message, ChatMessage::User { kind, .. } if *kind != UserKind::Breadcrumb)
            })
        });
        let said = begin.map_or("", |at| messages[at].text());
        let mut scene =
            Self { request, phrase: phrase_of(said), said, rounds: 0, results: Vec::new() };
        for message in &messages[begin.map_or(0, |at| at + 1)..] {
            match message {
                ChatMessage::Assistant { calls, .. } if !calls.is_empty() => scene.rounds += 1,
                ChatMessage::Tool { name, output, .. } => scene.results.push((name, output)),
                _ => {}
            }
        }
        scene
    }

    fn spec(&self, tool: &str) -> Option<&ToolSpec> {
        self.request.tools.iter().find(|spec| spec.name == tool).map(AsRef::as_ref)
    }

    /// A call, if the tool is on offer. The id is new for each place in the conversation.
    fn call(&self, number: usize, tool: &str, arguments: &Value) -> Option<RawCall> {
        self.spec(tool)?;
        Some(RawCall {
            provider_id: Some(format!("demo_{}_{number}", self.request.messages.len())),
            name: tool.to_owned(),
            arguments: arguments.to_string(),
        })
    }

    /// Arguments that ask `time` for a zone, if it takes one.
    fn zone(&self, zone: &str) -> Value {
        let properties = self.spec("time").and_then(|spec| spec.parameters.get("properties"));
        let name = ["timezone", "time_zone", "zone", "tz"]
            .into_iter()
            .find(|name| properties.is_some_and(|properties| properties.get(name).is_some()));
        Value::Object(name.map(|name| (name.to_owned(), zone.into())).into_iter().collect())
    }

    fn missing(&self, tool: &str) -> Reply {
        Reply::text(format!(
            "I would call the tool {tool} now, but it is not on offer here. Say help for what else I \
             can do."
        ))
    }

    fn last_result(&self) -> &'a str {
        self.results.last().map_or("", |(_, output)| output)
    }

    /// One call, then `after` with its result.
    fn one(
        &self,
        tool: &str,
        before: &str,
        arguments: &Value,
        after: impl FnOnce(&str) -> String,
    ) -> Reply {
        if self.rounds > 0 {
            return Reply::text(after(self.last_result()));
        }
        match self.call(0, tool, arguments) {
            Some(call) => Reply { text: before.to_owned(), calls: vec![call] },
            None => self.missing(tool),
        }
    }

    fn time(&self) -> Reply {
        self.one("time", "Let me look at the clock.", &json!({}), |result| {
            format!("The time tool says: {}", head(result, MAX_QUOTE))
        })
    }

    fn four(&self) -> Reply {
        if self.rounds > 0 {
            let lines: Vec<String> = self
                .results
                .iter()
                .map(|(tool, output)| {
                    format!("- {tool}: {}", head(output, MAX_QUOTE).replace('\n', " "))
                })
                .collect();
            return Reply::text(format!("All {} came back:\n{}", lines.len(), lines.join("\n")));
        }
        let wanted = [
            ("time", Value::Object(Map::new())),
            ("file_list", json!({"path": "."})),
            ("glob_search", json!({"pattern": "**/*"})),
            ("time", self.zone("Asia/Tokyo")),
        ];
        let calls: Option<Vec<RawCall>> = wanted
            .iter()
            .enumerate()
            .map(|(number, (tool, arguments))| self.call(number, tool, arguments))
            .collect();
        match calls {
            Some(calls) => Reply { text: "I will ask four tools at once.".to_owned(), calls },
            None => {
                let absent = wanted.iter().find(|(tool, _)| self.spec(tool).is_none());
                self.missing(absent.map_or("time", |(tool, _)| tool))
            }
        }
    }

    fn write(&self) -> Reply {
        let arguments = json!({"path": "hello.txt", "content": "Hello from Rookery.\n"});
        self.one("file_write", "I will write hello.txt.", &arguments, |result| {
            if result.starts_with(text::DENIED_BY_USER) {
                "You denied it, so hello.txt was not written.".to_owned()
            } else if result.starts_with(text::DENIED_NO_ANSWER) {
                "Nobody answered the question in time, so hello.txt was not written.".to_owned()
            } else if result.starts_with(text::DENIED_NOBODY_ASKED) {
                "There was nobody to ask, so hello.txt was not written.".to_owned()
            } else if result.starts_with(text::BLOCKED_PREFIX) {
                format!("Policy did not let me write hello.txt. {}", head(result, MAX_QUOTE))
            } else {
                format!("The write was answered with: {}", head(result, MAX_QUOTE))
            }
        })
    }

    fn slow(&self) -> Reply {
        let before = "This will take 30 seconds. Stop me if you like.";
        self.one("wait", before, &json!({"seconds": 30}), |result| {
            format!("The wait is over: {}", head(result, MAX_QUOTE))
        })
    }

    fn repeat(&self) -> Reply {
        let number = self.rounds + 1;
        let zone = self.zone(ZONES[self.rounds % ZONES.len()]);
        match self.call(0, "time", &zone) {
            Some(call) => Reply { text: format!("Round {number}."), calls: vec![call] },
            None if self.rounds > 0 => {
                Reply::text(format!("I was stopped after {} rounds.", self.rounds))
            }
            None => self.missing("time"),
        }
    }
}

/// The message as a phrase: lower case, without white space and marks around it.
fn phrase_of(said: &str) -> String {
    said.trim_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '!' | '?' | '"'))
        .to_lowercase()
}
