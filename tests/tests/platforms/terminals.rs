//! The terminal: `rookery chat` itself, one for each person, who types and reads.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_actors::channel::PullAdapter;
use rookery_messages::channel::ChannelAdapter;
use rookery_messages::ids::ChannelId;
use rookery_messages::settings::Settings;
use rookery_tests::conformance::{ANN, BEN, EVE, Entrance, Platform, Seen};
use rookery_tests::line::{Line, Speaker};
use rookery_tests::program;
use rookery_tests::pty::Typed;
use serde_json::Value;

use super::{own, token_of, with_tokens};

/// What the program prompts for a message with.
const PROMPT: &str = "> ";
/// What it prompts for an answer to a request with.
const QUESTION: &str = "[y]es / [n]o";
/// How often somebody looks whether what they typed was taken.
const LOOK: Duration = Duration::from_millis(50);

struct Person {
    line: Line,
    token: String,
    typed: Mutex<usize>,
    chat: Mutex<Option<Arc<Typed>>>,
    /// Prompts that were answered.
    pressed: Mutex<HashSet<String>>,
}

/// See the module's documentation.
pub struct Terminals {
    people: HashMap<&'static str, Arc<Person>>,
    folder: tempfile::TempDir,
}

impl Terminals {
    pub async fn start() -> Self {
        let mut people = HashMap::new();
        for who in [ANN, BEN, EVE] {
            let person = Person {
                line: Line::start().await,
                token: token_of(who),
                typed: Mutex::default(),
                chat: Mutex::default(),
                pressed: Mutex::default(),
            };
            people.insert(who, Arc::new(person));
        }
        Self { people, folder: tempfile::tempdir().unwrap() }
    }

    fn person(&self, who: &str) -> &Arc<Person> {
        &self.people[who]
    }

    /// Somebody's program; it is begun when it is needed.
    fn begun(&self, who: &str) -> Arc<Typed> {
        let person = self.person(who);
        let mut chat = person.chat.lock();
        let chat = chat.get_or_insert_with(|| {
            let url = format!("http://{}", person.line.address());
            let args = ["chat", "--url", &url, "--token", &person.token];
            let program = Path::new(program!());
            let chat = Arc::new(Typed::start(program, self.folder.path(), &args, &[]));
            tokio::spawn(types_again(Arc::downgrade(person), Arc::clone(&chat)));
            chat
        });
        Arc::clone(chat)
    }
}

/// Whoever reads that a message was not taken types it again.
async fn types_again(person: std::sync::Weak<Person>, chat: Arc<Typed>) {
    let mut known = HashSet::new();
    while let Some(person) = person.upgrade() {
        for refusal in person.line.said(Speaker::Server) {
            let id = &refusal["id"];
            if refusal["type"] != "error" || !id.is_string() || !known.insert(id.to_string()) {
                continue;
            }
            let said = person.line.said(Speaker::Client);
            let text = said.iter().find(|frame| frame["id"] == *id).map(|frame| &frame["text"]);
            tokio::time::sleep(LOOK).await;
            chat.types(text.and_then(Value::as_str).unwrap_or_default());
        }
        drop(person);
        tokio::time::sleep(LOOK).await;
    }
}

/// What the program said, from prompt to prompt.
fn parts(said: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in said.split_inclusive('\n') {
        let mut line = line;
        while let Some(rest) = line.strip_prefix(PROMPT) {
            parts.push(String::new());
            line = rest;
        }
        parts.last_mut().unwrap().push_str(line);
    }
    let help = |part: &String| part.starts_with("/stop stops the turn");
    parts.into_iter().filter(|part| !help(part) && !part.trim().is_empty()).collect()
}

impl Platform for Terminals {
    fn adapter(&self) -> Arc<dyn ChannelAdapter> {
        Arc::new(PullAdapter::live(ChannelId::new("cli")))
    }

    fn entrance(&self) -> Entrance {
        Entrance::Gateway
    }

    fn settings(&self) -> Settings {
        with_tokens()
    }

    fn gateway_at(&self, address: SocketAddr) {
        for person in self.people.values() {
            person.line.lead_to(address);
        }
    }

    fn chat(&self, who: &str) -> String {
        own(who)
    }

    fn say(&self, who: &str, text: &str) {
        *self.person(who).typed.lock() += 1;
        self.begun(who).types(text);
    }

    fn deliver_again(&self) {
        self.person(ANN).line.say_again();
    }

    fn press(&self, who: &str, message: &Seen, label: &str) -> bool {
        let person = self.person(who);
        let shown = self.seen(who).iter().any(|one| !one.buttons.is_empty());
        if !shown || !person.pressed.lock().insert(message.id.clone()) {
            return false;
        }
        let found = message.buttons.iter().find(|(known, _)| known == label);
        self.begun(who).types(&found.unwrap().1);
        true
    }

    fn stumble(&self) {
        self.person(ANN).line.lose_next_answer();
    }

    fn slow_down(&self) {
        self.person(ANN).line.cut_and_refuse(1);
    }

    fn seen(&self, who: &str) -> Vec<Seen> {
        let said = self.person(who).chat.lock().as_ref().map(|chat| chat.said());
        let parts = parts(&said.unwrap_or_default());
        let seen = parts.into_iter().enumerate().map(|(n, text)| {
            let way = |label: &str, key: &str| (label.to_owned(), key.to_owned());
            let buttons = match text.contains(QUESTION) {
                true => vec![way("Approve", "y"), way("Deny", "n")],
                false => Vec::new(),
            };
            Seen { id: n.to_string(), texts: vec![text.clone()], text, buttons }
        });
        seen.collect()
    }

    fn unacknowledged(&self) -> usize {
        let open = |person: &Arc<Person>| {
            let turned_out = person.chat.lock().as_ref().is_some_and(|chat| chat.code() == Some(3));
            let said = person.line.said(Speaker::Server).into_iter();
            let taken: HashSet<String> = said
                .filter(|frame| frame["type"] == "accepted")
                .map(|frame| frame["id"].to_string())
                .collect();
            if turned_out { 0 } else { person.typed.lock().saturating_sub(taken.len()) }
        };
        self.people.values().map(open).sum()
    }

    fn answers(&self) -> Vec<String> {
        let said = self.person(ANN).line.said(Speaker::Server).into_iter();
        let answered = said.filter(|frame| frame["approval"].is_string());
        answered
            .map(|frame| {
                let text = frame["text"].as_str().or_else(|| frame["message"].as_str());
                text.unwrap_or_default().to_owned()
            })
            .collect()
    }
}
