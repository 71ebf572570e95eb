//! The program at a shell and at a terminal: the README's transcript, commands, exit codes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rookery_tests::cli::{Printed, run};
use rookery_tests::pty::Terminal;
use rookery_tests::service::free_port;
use rookery_tests::{Call, Config, Reply, World, program};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const README: &str = include_str!("../../README.md");
const QUESTION: &str = "[y]es / [n]o / [a]lways / [r]eplace: ";

fn program_path() -> &'static Path {
    Path::new(program!())
}

/// A folder without configuration, and the variable that gives its service a port of its own.
struct Bare {
    dir: tempfile::TempDir,
    listen: String,
}

impl Bare {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir, listen: format!("127.0.0.1:{}", free_port()) }
    }

    fn env(&self) -> [(&str, &str); 1] {
        [("ROOKERY__GATEWAY__LISTEN", &self.listen)]
    }

    async fn run(&self, args: &[&str]) -> Printed {
        run(program_path(), self.dir.path(), args, &self.env()).await
    }

    fn terminal(&self, args: &[&str]) -> Terminal {
        Terminal::start(program_path(), self.dir.path(), args, &self.env())
    }
}

/// Who may do what with a folder.
fn rights(folder: &Path) -> u32 {
    folder.metadata().unwrap().permissions().mode() & 0o777
}

/// Something that listens and is no Rookery: it answers 404 to all that is asked.
async fn another_program() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    #[expect(clippy::disallowed_methods, reason = "it ends with the test that made it")]
    tokio::spawn(async move { axum::serve(listener, axum::Router::new()).await });
    address
}

/// The lines of the README's first transcript, without the command.
fn transcript() -> Vec<&'static str> {
    let block = README.split("```console\n$ cargo run --release\n").nth(1).unwrap();
    block.split("```").next().unwrap().lines().collect()
}

/// What is typed on a line, and the prompt before it.
fn typed(line: &str) -> Option<(&str, &str)> {
    ["> ", QUESTION]
        .into_iter()
        .find_map(|prompt| line.strip_prefix(prompt).map(|input| (prompt, input)))
}

/// Whether a line is as the README has it; `…` there stands for anything.
fn matches(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut open = false;
    for part in parts {
        open = true;
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || (open && expected.ends_with('…'))
}

#[test]
fn an_ellipsis_stands_for_anything_and_nothing_else_does() {
    assert!(matches("a … c", "a b c") && matches("a …", "a b c") && matches("abc", "abc"));
    assert!(!matches("a … d", "a b c") && !matches("abc", "abcd") && !matches("bc", "abc"));
}

#[test]
fn the_operators_readme_lists_every_route() {
    let readme = include_str!("../../deploy/README.md");
    let sources = [
        include_str!("../../actors/src/gateway/routes.rs"),
        include_str!("../../supervisors/src/admin.rs"),
    ];
    let routes: Vec<String> = sources
        .iter()
        .flat_map(|source| source.split(".route(\"").skip(1))
        .map(|rest| rest.split('"').next().unwrap())
        .map(|route| route.replace("{*", "<").replace('{', "<").replace('}', ">"))
        .collect();
    assert!(routes.len() > 20, "{routes:?}");
    for route in routes {
        assert!(readme.contains(&format!("{route}`")), "{route}");
    }
}

#[tokio::test]
async fn the_first_run_is_as_the_readme_shows_it() {
    let bare = Bare::new();
    let mut terminal = bare.terminal(&[]);
    let mut place = 0;
    for line in transcript() {
        if let Some((prompt, input)) = typed(line) {
            place = terminal.shows(place, &format!("\n{prompt}")).await;
            terminal.types(input);
        }
    }
    assert_eq!(terminal.ends().await, Some(0), "{}", terminal.screen());
    terminal.drained().await;
    let screen = terminal.screen().replace(&bare.listen, "127.0.0.1:7717");
    let (expected, lines): (Vec<_>, Vec<_>) = (transcript(), screen.lines().collect());
    for (number, expected) in expected.iter().enumerate() {
        let line = lines.get(number).copied().unwrap_or("(the end)");
        assert!(
            matches(expected, line),
            "line {number}: README {expected:?}, shown {line:?}\n{screen}"
        );
    }
    assert_eq!(lines.len(), expected.len(), "{screen}");
}

#[tokio::test]
async fn one_message_is_answered_on_standard_output_by_a_service_started_for_it() {
    let bare = Bare::new();
    let printed = bare.run(&["chat", "-m", "good morning"]).await;
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.out.starts_with("You said: good morning"), "{printed:?}");
    assert!(printed.err.contains("demo"), "the banner names the provider: {printed:?}");
    assert_eq!(rights(&bare.dir.path().join("data")), 0o700);
    let failed = bare.run(&["chat", "-m", "loop"]).await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let denied = bare.run(&["chat", "-m", "write"]).await;
    assert_eq!(denied.code, Some(3), "{denied:?}");
    assert!(!bare.dir.path().join("work/home/hello.txt").exists());
}

#[tokio::test]
async fn a_chat_attaches_to_the_service_that_runs() {
    let world = World::start(program!(), Config::new()).await;
    let printed = world.cli(&["chat", "-m", "hello"]).await;
    assert_eq!((printed.code, printed.out.as_str()), (Some(0), "you said: hello\n"), "{printed:?}");
    assert_eq!(world.model.count(), 1);
    let more = world.cli(&["chat", "-m", "again", "--conversation", "main"]).await;
    assert_eq!(more.code, Some(0), "{more:?}");
    let sent = world.model.last_request();
    assert_eq!(sent["messages"].as_array().unwrap().len(), 4, "the conversation goes on: {sent}");
    world.model.script("break", [Reply::error(400, "no")]);
    let failed = world.cli(&["chat", "-m", "break"]).await;
    assert_eq!((failed.code, failed.out.as_str()), (Some(1), ""), "{failed:?}");
    assert!(failed.err.contains("provider_invalid_request"), "{failed:?}");
    world.finish().await;
}

#[tokio::test]
async fn ctrl_c_stops_the_turn_and_twice_leaves() {
    let bare = Bare::new();
    let mut terminal = bare.terminal(&["chat"]);
    let place = terminal.shows(0, "> ").await;
    terminal.types("slow");
    let place = terminal.shows(place, "· wait").await;
    let interrupt = |terminal: &Terminal| {
        let pid = Pid::from_raw(i32::try_from(terminal.pid()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
    };
    interrupt(&terminal);
    let place = terminal.shows(place, "[cancelled by user]").await;
    let place = terminal.shows(place, "> ").await;
    terminal.types("time");
    let place = terminal.shows(place, "The time tool says").await;
    terminal.shows(place, "> ").await;
    interrupt(&terminal);
    interrupt(&terminal);
    assert_eq!(terminal.ends().await, Some(0), "{}", terminal.screen());
}

#[tokio::test]
async fn a_question_at_the_terminal_takes_yes_no_and_replace() {
    let bare = Bare::new();
    let mut terminal = bare.terminal(&["chat"]);
    let file = bare.dir.path().join("work/home/hello.txt");
    let mut place = 0;
    for (answer, shown) in [
        ("n", "(file_write: denied)"),
        ("", "(file_write: denied)"),
        ("r", "result to give instead: "),
        ("y", "succeeded"),
    ] {
        place = terminal.shows(place, "> ").await;
        terminal.types("write");
        place = terminal.shows(place, QUESTION).await;
        assert!(!file.exists(), "{answer}");
        terminal.types(answer);
        place = terminal.shows(place, shown).await;
        if answer == "r" {
            terminal.types("it is written elsewhere");
            place = terminal.shows(place, "(file_write: replaced)").await;
            place = terminal.shows(place, "it is written elsewhere").await;
        }
    }
    place = terminal.shows(place, "> ").await;
    assert!(file.exists());
    terminal.types("/quit");
    assert_eq!(terminal.ends().await, Some(0));
    assert!(terminal.screen()[place..].len() < 40, "{}", terminal.screen());
}

#[tokio::test]
async fn without_a_terminal_the_data_folder_is_the_users_alone_and_each_phase_is_logged_once() {
    let mut world = World::start(program!(), Config::new()).await;
    assert_eq!(rights(&world.dir().join("data")), 0o700);
    world.assert_quiet().await;
    assert_eq!(world.stop().await.code, Some(0));
    let log = world.service.log();
    for phase in ["intakes stop", "turns finish", "senders flush", "gateway", "store"] {
        let lines = log.lines().filter(|line| line.contains("shutdown") && line.contains(phase));
        assert_eq!(lines.count(), 1, "{phase}: {log}");
    }
    world.over();
}

#[tokio::test]
async fn exit_codes_tell_scripts_what_happened() {
    let bare = Bare::new();
    let usage = bare.run(&["dance"]).await;
    assert_eq!(usage.code, Some(2), "{usage:?}");
    let nobody = bare.run(&["tree"]).await;
    assert_eq!(nobody.code, Some(4), "{nobody:?}");
    assert!(nobody.err.contains("rookery run"), "it says what to do: {nobody:?}");
    let other = another_program().await;
    let listen = other.to_string();
    let env = [("ROOKERY__GATEWAY__LISTEN", listen.as_str())];
    for (args, code) in [(&["tree"][..], 4), (&["doctor"], 4), (&["run"], 1), (&["chat"], 1)] {
        let foreign = run(program_path(), bare.dir.path(), args, &env).await;
        assert_eq!(foreign.code, Some(code), "{foreign:?}");
        let said = format!("{}{}", foreign.out, foreign.err);
        assert!(said.contains("gateway.listen") && said.contains(&listen), "{args:?}: {said}");
    }
    let world = World::start(program!(), Config::new()).await;
    let wrong = world.cli(&["tree", "--token", "wrong-token-0000"]).await;
    assert_eq!(wrong.code, Some(3), "{wrong:?}");
    let absent = world.cli(&["turns", "show", "01890a5d-ac96-774b-bcce-b302099a8057"]).await;
    assert_eq!(absent.code, Some(1), "{absent:?}");
    let doctor = world.cli(&["doctor"]).await;
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    world.finish().await;
}

// V-H1, V-H2, V-H3
#[tokio::test]
async fn policy_check_tells_what_the_gate_would_say_and_needs_no_service() {
    let dir = tempfile::tempdir().unwrap();
    for (level, tool, args, decision, code) in [
        ("supervised", "file_read", r#"{"path": "a"}"#, "allowed", 0),
        ("supervised", "file_write", r#"{"path": "a", "content": ""}"#, "needs_approval", 0),
        ("supervised", "shell", r#"{"command": "ls"}"#, "allowed", 0),
        ("supervised", "shell", r#"{"command": "ls; rm x"}"#, "needs_approval", 0),
        ("supervised", "shell", r#"{"command": "cat /etc/passwd"}"#, "blocked", 3),
        ("full", "shell", r#"{"command": "ls"}"#, "allowed", 0),
        ("readonly", "file_write", r#"{"path": "a", "content": ""}"#, "blocked", 3),
        ("full", "file_read", r#"{"path": "../../etc/passwd"}"#, "blocked", 3),
        ("full", "nothing_like_this", "{}", "blocked", 3),
    ] {
        let text = Config::new().level(level).render(dir.path(), 1, "http://127.0.0.1:9/v1");
        std::fs::write(dir.path().join("rookery.toml"), text).unwrap();
        std::fs::create_dir_all(dir.path().join("work")).unwrap();
        let args = ["policy", "check", "--agent", "home", "--tool", tool, "--args", args, "--json"];
        let printed = run(program_path(), dir.path(), &args, &[]).await;
        let answer = printed.json();
        assert_eq!(
            (&answer["decision"], printed.code),
            (&json!(decision), Some(code)),
            "{printed:?}"
        );
        assert!(["low", "medium", "high"].contains(&answer["risk"].as_str().unwrap()));
        assert!(answer["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{answer}");
    }
    let args = ["policy", "check", "--agent", "nobody", "--tool", "time", "--args", "{}"];
    assert_eq!(run(program_path(), dir.path(), &args, &[]).await.code, Some(1));
    let args = ["policy", "check", "--agent", "home", "--tool", "time", "--args", "[]"];
    assert_eq!(run(program_path(), dir.path(), &args, &[]).await.code, Some(2));
}

#[tokio::test]
async fn the_configuration_can_be_made_checked_shown_and_explained() {
    let bare = Bare::new();
    let made = bare.run(&["config", "init"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let file = bare.dir.path().join("rookery.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_ne!(bare.run(&["config", "init"]).await.code, Some(0), "nothing is overwritten");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    assert_eq!(bare.run(&["config", "check"]).await.code, Some(0));
    let schema = bare.run(&["config", "schema"]).await;
    for key in ["gateway.listen", "shutdown.drain_secs", "max_tool_iterations", "bot_token"] {
        assert!(schema.out.contains(key), "{key}");
    }
    let config = Config::new().extra(
        "[[gateway.tokens]]\nname = \"me\"\ntoken = \"${env:THE_TOKEN}\"\nrole = \"admin\"\n",
    );
    std::fs::write(&file, config.render(bare.dir.path(), 1, "http://127.0.0.1:9/v1")).unwrap();
    let absent = bare.run(&["config", "check"]).await;
    assert_eq!(absent.code, Some(1), "{absent:?}");
    assert!(format!("{}{}", absent.out, absent.err).contains("THE_TOKEN"), "{absent:?}");
    let env = [("THE_TOKEN", "token-of-sixteen-characters")];
    let shown = run(program_path(), bare.dir.path(), &["config", "show"], &env).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(!shown.out.contains("token-of-sixteen") && !shown.out.contains("key-for-the-mock"));
}

#[tokio::test]
async fn operators_see_and_decide_from_the_command_line() {
    let config = Config::new().level("supervised").agent("approval_route = \"admin\"");
    let world = World::start(program!(), config).await;
    let ask = || Reply::calls([Call::shell("echo ran >> log")]);
    world.model.script("go", [ask(), Reply::text("done"), Reply::silence()]);
    let id = world.api.tell("c", "go").await;
    world.api.approval_of(&id).await;

    let tree = world.cli(&["tree"]).await;
    assert!(tree.code == Some(0) && tree.out.contains("approval"), "{tree:?}");
    let tree = world.cli(&["tree", "--json"]).await.json();
    assert_eq!(tree["root"]["path"], "root");
    let store = world.cli(&["actor", "show", "root/store", "--json"]).await.json();
    assert_eq!(store["kind"], "store", "{store}");

    let list = world.cli(&["approvals", "list", "--json"]).await.json();
    let list = list.as_array().or_else(|| list["approvals"].as_array()).unwrap().clone();
    assert_eq!(list.len(), 1, "{list:?}");
    let approval = list[0]["id"].as_str().unwrap();
    assert_eq!(world.cli(&["approvals", "approve", approval]).await.code, Some(0));
    assert_eq!(world.api.ended(&id).await.text(), "done");
    assert_eq!(world.read("log"), "ran\n");
    let late = world.cli(&["approvals", "deny", approval]).await;
    assert_eq!(late.code, Some(1), "{late:?}");
    assert_eq!(world.cli(&["approvals", "list"]).await.out, "no approvals\n", "none waits");
    let all = world.cli(&["approvals", "list", "--all"]).await.out;
    assert!(all.contains(approval) && all.contains("approved"), "{all}");

    let shown = world.cli(&["turns", "show", &id, "--json"]).await.json();
    assert_eq!((&shown["state"], &shown["reply"]), (&json!("ended"), &json!("done")));
    let stuck = world.api.tell("c", "go").await;
    world.model.counted(3).await;
    let running = world.cli(&["turns", "list", "--state", "running", "--json"]).await.json();
    let running = running.as_array().or_else(|| running["turns"].as_array()).unwrap().clone();
    assert_eq!(running.iter().map(|turn| &turn["id"]).collect::<Vec<&Value>>(), [&json!(stuck)]);
    assert_eq!(world.cli(&["turns", "cancel", &stuck]).await.code, Some(0));
    assert_eq!(world.api.ended(&stuck).await.result(), "cancelled");
    assert_eq!(world.cli(&["crashes", "--json"]).await.code, Some(0));
    assert_eq!(world.cli(&["deadletters", "list", "--json"]).await.json(), json!([]));
    assert_eq!(world.cli(&["sessions", "list"]).await.code, Some(0));
    world.finish().await;
}

// DESIGN section 7: top and sessions
#[tokio::test]
async fn the_busiest_actors_and_one_conversation_are_shown_and_a_conversation_is_deleted() {
    let world = World::start(program!(), Config::new()).await;
    world.api.say("first", "hello there").await;
    world.api.say("second", "stay").await;
    let top = world.cli(&["top", "--json", "--by", "handled", "--limit", "3"]).await;
    assert_eq!(top.code, Some(0), "{top:?}");
    let actors = top.json()["actors"].as_array().unwrap().clone();
    assert_eq!(actors.len(), 3);
    let handled: Vec<u64> = actors.iter().map(|one| one["handled"].as_u64().unwrap()).collect();
    assert!(handled.is_sorted_by(|a, b| a >= b) && handled[0] > 0, "{handled:?}");
    assert!(actors[0]["path"].as_str().unwrap().starts_with("root"), "{actors:?}");
    let text = world.cli(&["top"]).await;
    assert!(text.out.starts_with("ACTOR") && text.out.contains("root/store"), "{text:?}");

    let list = world.cli(&["sessions", "list", "--json"]).await.json();
    let row = |name: &str| {
        let all = list.as_array().unwrap();
        all.iter().find(|row| row["conversation"] == name).unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (first, second) = (row("first"), row("second"));
    let shown = world.cli(&["sessions", "show", &first[24..]]).await;
    assert!(shown.out.contains("hello there") && shown.out.contains("assistant"), "{shown:?}");
    let json = world.cli(&["sessions", "show", &first, "--json"]).await.json();
    assert_eq!(json["session"]["id"], first.as_str());
    assert_eq!(json["messages"].as_array().unwrap().len(), 2, "{json}");

    world.model.script("hang", [Reply::silence()]);
    let open = world.api.tell("second", "hang").await;
    world.model.counted(3).await;
    let refused = world.cli(&["sessions", "delete", &second]).await;
    assert!(refused.code == Some(1) && refused.err.contains("cancel that first"), "{refused:?}");
    world.api.cancel(&open).await;
    world.api.ended(&open).await;
    let deleted = world.cli(&["sessions", "delete", &second]).await;
    assert_eq!(deleted.code, Some(0), "{deleted:?}");
    let left = world.cli(&["sessions", "list", "--json"]).await.json();
    let left: Vec<&str> =
        left.as_array().unwrap().iter().filter_map(|row| row["conversation"].as_str()).collect();
    assert_eq!(left, ["first"]);
    assert_eq!(world.cli(&["sessions", "show", &second]).await.code, Some(1));
    let ledger = world.api.ledger().await;
    assert_eq!((ledger.accepted, ledger.open), (3, 0));
    // It begins anew.
    assert_eq!(world.api.say("second", "again").await.result(), "answered");
    assert_eq!(world.api.transcript("second").await.len(), 2);
    let mut world = world;
    world.stop().await;
    world.over();
}
