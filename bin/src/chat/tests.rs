//! The chat as a person, a pipe and a script see it.

use rookery_messages::approval::{Approval, ApprovalState};
use rookery_messages::event::{TurnEvent, TurnEventKind};
use rookery_messages::ids::TurnId;
use rookery_messages::turn::{CallState, Outcome};
use serde_json::{Value, json};

use super::frames::{ClientFrame, ServerFrame};
use super::input::Input;
use super::state::{Chat, Mode, Step};
use crate::exit::Exit;

const TURN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const OTHER: &str = "01890a5d-ac96-774b-bcce-b302099a8058";
const CALL: &str = "01890a5d-ac96-774b-bcce-b302099a8059";
const ASK: &str = "01890a5d-ac96-774b-bcce-b302099a805a";
const ASK_TOO: &str = "01890a5d-ac96-774b-bcce-b302099a805b";

fn chat(mode: Mode, can_ask: bool) -> Chat {
    Chat::new(mode, can_ask, false, "n".to_owned())
}

fn turn() -> TurnId {
    TURN.parse().unwrap()
}

fn event_of(turn: &str, seq: u64, kind: Value) -> ServerFrame {
    let mut value = json!({ "turn": turn, "seq": seq });
    value.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
    ServerFrame::parse(&value.to_string()).unwrap()
}

fn event(kind: Value) -> ServerFrame {
    event_of(TURN, 1, kind)
}

fn accepted(id: &str) -> ServerFrame {
    event(json!({ "type": "accepted", "id": id }))
}

fn ended(outcome: &str, reply: Option<&str>) -> ServerFrame {
    event(json!({
        "type": "ended", "outcome": outcome, "reply": reply, "usage": { "input": 1, "output": 1 },
    }))
}

fn approval(id: &str, state: &str) -> ServerFrame {
    event(json!({ "type": "approval", "approval": {
        "id": id, "turn": TURN, "conversation_id": OTHER, "channel": "cli", "call": CALL,
        "tool": "shell", "arguments": { "command": "rm -rf x\u{1b}[2K\u{202e}" },
        "arguments_hash": "h", "risk": "high", "reason": "not listed",
        "asked_at": "2026-01-02T03:04:05.000Z", "expires_at": "2026-01-02T04:04:05.000Z",
        "approvers": ["u"], "state": state,
    } }))
}

fn line(text: &str) -> Input {
    Input::Line(text.to_owned())
}

/// An interactive chat with an accepted message and an open prompt.
fn asked() -> Chat {
    let mut chat = chat(Mode::Interactive, true);
    chat.input(&line("hi"));
    chat.frame(accepted("n-1"));
    chat.frame(approval(ASK, "pending"));
    chat
}

fn decisions(steps: &[Step]) -> Vec<(&'static str, Option<&str>)> {
    steps
        .iter()
        .filter_map(|step| match step {
            Step::Send(ClientFrame::Approval { decision, replacement, .. }) => {
                Some((*decision, replacement.as_deref()))
            }
            _ => None,
        })
        .collect()
}

fn shown(steps: &[Step]) -> String {
    steps
        .iter()
        .filter_map(|step| match step {
            Step::Out(text) | Step::Err(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

// A078 A091
#[test]
fn the_prompt_shows_the_arguments_whole_and_obeys_nothing_in_them() {
    let mut chat = chat(Mode::Interactive, true);
    chat.input(&line("hi"));
    chat.frame(accepted("n-1"));
    let steps = chat.frame(approval(ASK, "pending"));
    assert_eq!(
        shown(&steps),
        "! shell needs approval (high risk): not listed\n{\n  \"command\": \"rm -rf x\\u001b[2K\\u202e\"\n}\n\
         [y]es / [n]o / [r]eplace: "
    );
}

// V-H7, T10
#[test]
fn answers_become_decisions_and_all_else_is_no() {
    for (text, decision) in [
        ("y", "approve"),
        ("YES", "approve"),
        ("", "deny"),
        ("n", "deny"),
        ("please do", "deny"),
        ("/quit", "deny"),
    ] {
        let mut chat = asked();
        assert_eq!(decisions(&chat.input(&line(text))), [(decision, None)], "{text}");
    }
    assert_eq!(decisions(&asked().input(&Input::Over)), [("deny", None)]);
}

fn changed(id: &str, more: Value) -> ServerFrame {
    let ServerFrame::Event(event) = approval(id, "pending") else { panic!("not an event") };
    let mut value = serde_json::to_value(&*event).unwrap();
    value["approval"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ServerFrame::parse(&value.to_string()).unwrap()
}

fn scopes(steps: &[Step]) -> Vec<Option<&'static str>> {
    let scope = |step: &Step| match step {
        Step::Send(ClientFrame::Approval { scope, .. }) => Some(*scope),
        _ => None,
    };
    steps.iter().filter_map(scope).collect()
}

// V-H7, A085
#[test]
fn always_shows_what_it_would_cover_and_is_taken_only_where_it_is_offered() {
    let offer = json!({ "offer": { "pattern": "/usr/bin/git status\u{1b}[2K", "key": "k" } });
    for (text, scope) in [("a", "conversation"), ("ALWAYS", "conversation"), ("agent", "agent")] {
        let mut chat = chat(Mode::Interactive, true);
        chat.input(&line("hi"));
        chat.frame(accepted("n-1"));
        let seen = shown(&chat.frame(changed(ASK, offer.clone())));
        assert!(
            seen.contains("(or say agent: in all of its): /usr/bin/git status\\u{1b}[2K\n"),
            "{seen}"
        );
        assert!(seen.contains("[a]lways"), "{seen}");
        let steps = chat.input(&line(text));
        assert_eq!(
            (decisions(&steps), scopes(&steps)),
            (vec![("always", None)], vec![Some(scope)])
        );
    }
    let mut chat = asked();
    let steps = chat.input(&line("a"));
    assert_eq!(decisions(&steps), []);
    assert!(shown(&steps).ends_with("[y]es / [n]o / [r]eplace: "), "{steps:?}");
    assert_eq!(decisions(&chat.input(&line("y"))), [("approve", None)]);
}

#[test]
fn requests_of_one_response_are_shown_together_and_decided_one_by_one_or_all_at_once() {
    let batch = |position: u32| json!({ "batch": { "id": ASK, "position": position, "of": 2 } });
    let both = || {
        let mut chat = chat(Mode::Interactive, true);
        chat.input(&line("hi"));
        chat.frame(accepted("n-1"));
        chat.frame(changed(ASK, batch(1)));
        let seen = shown(&chat.frame(changed(ASK_TOO, batch(2))));
        assert!(seen.contains("! [2 of 2] shell needs approval"), "{seen}");
        assert!(
            seen.ends_with("(1) [y]es / [n]o / [r]eplace / [all] 2 yes / [none] of 2: "),
            "{seen}"
        );
        chat
    };
    assert_eq!(decisions(&both().input(&line("all"))), [("approve", None), ("approve", None)]);
    assert_eq!(decisions(&both().input(&line("none"))), [("deny", None), ("deny", None)]);
    let mut chat = both();
    let steps = chat.input(&line("y"));
    assert_eq!(decisions(&steps), [("approve", None)]);
    assert!(!shown(&steps).contains("needs approval"), "it stands on the screen: {steps:?}");
    assert_eq!(decisions(&chat.input(&line("n"))), [("deny", None)]);
    // The next line is a message again.
    assert!(matches!(&chat.input(&line("y"))[0], Step::Send(ClientFrame::Message { .. })));
}

// V-H13
#[test]
fn a_request_decided_elsewhere_says_by_whom() {
    let mut chat = asked();
    let decided = json!({ "state": "denied", "decision": { "decision": "deny" },
        "decided_by": { "who": "ann", "via": "admin" }, "decided_at": "2026-01-02T03:05:00.000Z" });
    let seen = shown(&chat.frame(changed(ASK, decided)));
    assert!(seen.contains("shell is already decided by ann via admin: denied"), "{seen}");
    assert!(matches!(&chat.input(&line("y"))[0], Step::Send(ClientFrame::Message { .. })));
}

// V-H7
#[test]
fn when_the_input_ends_every_open_request_is_refused() {
    let mut chat = asked();
    chat.frame(approval(ASK_TOO, "pending"));
    assert_eq!(decisions(&chat.input(&Input::Over)), [("deny", None), ("deny", None)]);
    let later = "01890a5d-ac96-774b-bcce-b302099a805c";
    // What comes later finds nobody to ask.
    assert_eq!(decisions(&chat.frame(approval(later, "pending"))), [("nobody_asked", None)]);
}

// V-H8
#[test]
fn an_input_that_fails_at_the_prompt_means_no() {
    let steps = asked().input(&Input::Failed("gone".to_owned()));
    assert_eq!(decisions(&steps), [("deny", None)]);
}

#[test]
fn a_replacement_is_asked_for_and_an_empty_one_is_a_refusal() {
    let mut chat = asked();
    let steps = chat.input(&line("r"));
    assert_eq!(shown(&steps), "result to give instead: ");
    assert_eq!(
        decisions(&chat.input(&line("nothing found"))),
        [("replace", Some("nothing found"))]
    );
    let mut chat = asked();
    chat.input(&line("r"));
    assert_eq!(decisions(&chat.input(&line(" "))), [("deny", None)]);
}

#[test]
fn a_question_shows_its_choices_and_what_is_typed_is_the_answer() {
    let put = || {
        let mut chat = chat(Mode::Interactive, true);
        chat.input(&line("go"));
        let arguments = json!({ "question": "Which\u{1b}one?", "choices": ["red", "blue"] });
        let steps = chat.frame(changed(ASK, json!({ "tool": "ask_user", "arguments": arguments })));
        (chat, shown(&steps))
    };
    let (mut chat, text) = put();
    assert!(text.ends_with("  - red\n  - blue\nyour answer: "), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    assert_eq!(decisions(&chat.input(&line("no, blue"))), [("replace", Some("no, blue"))]);
    let (mut chat, _) = put();
    assert_eq!(decisions(&chat.input(&line(""))), [("deny", None)]);
}

#[test]
fn requests_are_asked_one_after_the_other_and_go_away_when_decided_elsewhere() {
    let mut chat = asked();
    assert_eq!(shown(&chat.frame(approval(ASK_TOO, "pending"))), "");
    assert_eq!(shown(&chat.frame(approval(ASK, "pending"))), "", "shown again, not asked again");
    let steps = chat.frame(approval(ASK, "approved"));
    assert!(shown(&steps).contains("shell is approved"), "{steps:?}");
    assert!(shown(&steps).ends_with("[r]eplace: "), "{steps:?}");
    let steps = chat.frame(ended("cancelled", None));
    assert_eq!(decisions(&steps), []);
    // The next line is a message again.
    let steps = chat.input(&line("y"));
    assert!(matches!(&steps[0], Step::Send(ClientFrame::Message { text, .. }) if text == "y"));
}

#[test]
fn ctrl_c_stops_the_turn_and_the_second_one_leaves() {
    let mut chat = asked();
    let steps = chat.interrupt();
    assert_eq!(steps[0], Step::Send(ClientFrame::Cancel { turn: turn() }));
    assert_eq!(chat.interrupt(), [Step::Leave(Exit::Ok)]);
    // When the turn has ended, the first one is first again.
    let mut chat = asked();
    chat.interrupt();
    chat.frame(ended("cancelled", None));
    assert_eq!(chat.interrupt(), [Step::Leave(Exit::Ok)], "nothing runs: it leaves");
    chat.input(&line("again"));
    chat.frame(event_of(OTHER, 5, json!({ "type": "accepted", "id": "n-2" })));
    assert!(matches!(chat.interrupt()[0], Step::Send(ClientFrame::Cancel { .. })));
}

#[test]
fn local_commands_are_not_sent() {
    let mut chat = asked();
    chat.input(&line("y"));
    assert!(shown(&chat.input(&line("/help"))).contains("/stop"));
    assert_eq!(chat.input(&line("/stop"))[0], Step::Send(ClientFrame::Cancel { turn: turn() }));
    assert_eq!(chat.input(&line("/quit")), [Step::Leave(Exit::Ok)]);
}

// I2
#[test]
fn after_a_lost_connection_the_same_ids_are_sent_and_the_missed_is_asked_for() {
    let mut chat = chat(Mode::Interactive, true);
    let first = chat.input(&line("one"));
    assert_eq!(chat.reconnected(), [first[0].clone()], "not accepted yet: sent again, same id");
    chat.frame(event_of(TURN, 7, json!({ "type": "accepted", "id": "n-1" })));
    chat.frame(approval(ASK, "pending"));
    let decided = chat.input(&line("y"));
    chat.frame(event_of(TURN, 9, json!({ "type": "delta", "text": "x" })));
    assert_eq!(
        chat.reconnected(),
        [Step::Send(ClientFrame::Resume { seq: 9 }), decided[0].clone(), Step::Fetch(turn()),]
    );
    chat.frame(ended("answered", Some("x")));
    assert_eq!(chat.reconnected(), [Step::Send(ClientFrame::Resume { seq: 1 })]);
}

fn record(state: &str, outcome: Option<&str>, reply: Option<&str>) -> Value {
    json!({
        "id": TURN, "envelope": OTHER, "conversation": "main", "conversation_id": OTHER,
        "agent": "home", "channel": "cli", "origin": "interactive", "state": state,
        "outcome": outcome, "reply": reply, "attempts": 1,
        "started_at": "2026-01-02T03:04:05.000Z", "ended_at": null,
        "usage": { "input": 0, "output": 0 }, "calls": [],
    })
}

#[test]
fn a_turn_that_ended_in_a_gap_is_found_by_its_record() {
    let mut chat = chat(Mode::Once, false);
    chat.submit("hi");
    chat.frame(accepted("n-1"));
    let steps = chat.frame(ServerFrame::parse(r#"{"type":"gap","seq":40,"snapshot":{}}"#).unwrap());
    assert!(steps.contains(&Step::Fetch(turn())), "{steps:?}");
    let running = serde_json::from_value(record("running", None, None)).unwrap();
    assert_eq!(chat.fetched(running), []);
    let over = || serde_json::from_value(record("ended", Some("answered"), Some("yes"))).unwrap();
    assert_eq!(chat.fetched(over()), [Step::Out("yes\n".to_owned()), Step::Leave(Exit::Ok)]);
    assert_eq!(chat.fetched(over()), [], "an end is told once");
}

// I11: after a lost connection the record and the events tell the same end
#[test]
fn an_end_that_was_found_by_its_record_is_not_told_again_by_its_events() {
    let mut chat = chat(Mode::Interactive, true);
    chat.input(&line("hi"));
    chat.frame(accepted("n-1"));
    assert!(chat.reconnected().contains(&Step::Fetch(turn())));
    let over = serde_json::from_value(record("ended", Some("answered"), Some("yes"))).unwrap();
    assert!(shown(&chat.fetched(over)).contains("yes"));
    for again in [
        accepted("n-1"),
        event(json!({ "type": "delta", "text": "yes" })),
        ended("answered", Some("yes")),
    ] {
        assert_eq!(chat.frame(again), []);
    }
    chat.input(&line("and you?"));
    chat.frame(event_of(OTHER, 5, json!({ "type": "accepted", "id": "n-2" })));
    let other = json!({ "type": "delta", "text": "fine" });
    assert!(shown(&chat.frame(event_of(OTHER, 6, other))).contains("fine"));
}

#[test]
fn one_message_prints_the_reply_alone_and_its_outcome_is_the_exit_code() {
    let once = |frames: &[ServerFrame]| {
        let mut chat = chat(Mode::Once, false);
        let mut steps = chat.submit("hi");
        for frame in frames {
            steps.extend(chat.frame(frame.clone()));
        }
        let out: String = steps
            .iter()
            .filter_map(|step| match step {
                Step::Out(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let exit = steps.iter().find_map(|step| match step {
            Step::Leave(exit) => Some(*exit),
            _ => None,
        });
        (out, exit)
    };
    let delta = event(json!({ "type": "delta", "text": "Hel" }));
    let answered = ended("answered", Some("Hello"));
    assert_eq!(
        once(&[accepted("n-1"), delta.clone(), answered.clone()]),
        ("Hello\n".to_owned(), Some(Exit::Ok))
    );
    assert_eq!(once(&[accepted("n-1"), delta]), (String::new(), None));
    for outcome in ["failed", "cancelled", "rejected", "expired"] {
        assert_eq!(once(&[accepted("n-1"), ended(outcome, None)]).1, Some(Exit::Failed));
    }
    for outcome in ["silent", "merged"] {
        assert_eq!(once(&[accepted("n-1"), ended(outcome, None)]).1, Some(Exit::Ok));
    }
    // Another client's turn in the same conversation is none of ours.
    let foreign = event_of(
        OTHER,
        2,
        json!({
            "type": "ended", "outcome": "answered", "reply": "no", "usage": { "input": 1, "output": 1 },
        }),
    );
    assert_eq!(once(&[accepted("n-1"), foreign]), (String::new(), None));
    let refused = ServerFrame::parse(r#"{"type":"error","code":"blank","message":"blank text"}"#);
    assert_eq!(once(&[refused.unwrap()]).1, Some(Exit::Failed));
    let denied =
        event(json!({ "type": "tool_result", "call": CALL, "state": "denied", "output": "" }));
    assert_eq!(once(&[accepted("n-1"), denied, answered]).1, Some(Exit::Refused));
}

// V-H8
#[test]
fn without_a_terminal_approvals_are_refused_and_the_next_line_stays_a_message() {
    let mut chat = chat(Mode::Lines, false);
    chat.started();
    chat.input(&line("do it"));
    assert!(!chat.wants_input(), "the next line waits for the reply");
    chat.frame(accepted("n-1"));
    let steps = chat.frame(approval(ASK, "pending"));
    assert_eq!(decisions(&steps), [("nobody_asked", None)], "nobody is said to have refused");
    assert!(shown(&steps).contains("nobody can be asked here"), "{steps:?}");
    assert!(!chat.wants_input());
    chat.frame(ended("answered", Some("refused")));
    assert!(chat.wants_input());
    let steps = chat.input(&line("y"));
    assert!(matches!(&steps[0], Step::Send(ClientFrame::Message { text, .. }) if text == "y"));
}

// V-H6
#[test]
fn what_is_asked_elsewhere_is_not_refused_where_nobody_can_be_asked() {
    for (channel, said) in
        [("webhook.ops", "at webhook.ops"), ("admin", "rookery approvals approve")]
    {
        let route = json!({ "route": { "channel": channel, "approvers": ["boss"] } });
        let mut chat = chat(Mode::Once, false);
        chat.submit("do it");
        chat.frame(accepted("n-1"));
        let steps = chat.frame(changed(ASK, route.clone()));
        assert_eq!(decisions(&steps), [], "{channel}");
        assert!(shown(&steps).contains(said), "{steps:?}");
        // The answer comes from there; the chat waits for the turn's end.
        let steps = chat.frame(ended("answered", Some("done")));
        assert_eq!(steps.last(), Some(&Step::Leave(Exit::Ok)), "{steps:?}");
    }
}

#[test]
fn a_pipe_ends_after_the_last_reply() {
    let mut chat = chat(Mode::Lines, false);
    chat.started();
    assert_eq!(chat.input(&line("  ")), [], "blank lines are nothing");
    chat.input(&line("one"));
    chat.frame(accepted("n-1"));
    let steps = chat.frame(ended("answered", Some("1")));
    assert_eq!(steps, [Step::Out("1\n".to_owned())]);
    assert_eq!(chat.input(&Input::Over), [Step::Leave(Exit::Ok)]);
}

#[test]
fn events_keep_their_types_through_the_wire() {
    let event = TurnEvent {
        seq: 1,
        turn: turn(),
        kind: TurnEventKind::ToolResult {
            call: CALL.parse().unwrap(),
            state: CallState::Denied,
            output: "o".to_owned(),
        },
    };
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(ServerFrame::parse(&text).unwrap(), ServerFrame::Event(Box::new(event)));
    let ServerFrame::Event(event) = approval(ASK, "pending") else { panic!("not an event") };
    let TurnEventKind::Approval { approval } = event.kind else { panic!("not an approval") };
    let approval: Approval = *approval;
    assert_eq!(approval.state, ApprovalState::Pending);
    let outcome = serde_json::to_value(Outcome::Answered).unwrap();
    assert_eq!(outcome, json!("answered"));
}

/// Against a WebSocket server that nobody of ours wrote the client half of.
mod over_the_wire {
    use futures_util::{SinkExt, StreamExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

    use super::*;
    use crate::cli::ChatArgs;
    use crate::client::Client;
    use crate::signals::Signals;

    async fn accept(listener: &TcpListener) -> (WebSocketStream<TcpStream>, String) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut seen = String::new();
        #[allow(clippy::result_large_err, reason = "the callback's type is the library's")]
        let note = |request: &Request, response: Response| {
            let token = request.headers()["authorization"].to_str().unwrap();
            seen = format!("{} {token}", request.uri());
            Ok(response)
        };
        let socket = tokio_tungstenite::accept_hdr_async(stream, note).await.unwrap();
        (socket, seen)
    }

    async fn read(socket: &mut WebSocketStream<TcpStream>) -> Value {
        loop {
            match socket.next().await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                _ => continue,
            }
        }
    }

    async fn write(socket: &mut WebSocketStream<TcpStream>, frame: Value) {
        socket.send(Message::text(frame.to_string())).await.unwrap();
    }

    async fn setup() -> (TcpListener, Client, Signals) {
        crate::install_crypto();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = Client::new(&url, Some("token".to_owned())).unwrap();
        (listener, client, Signals::take().ok().unwrap())
    }

    // I2
    #[tokio::test]
    async fn a_message_is_answered_over_a_connection_that_is_lost_in_between() {
        let (listener, client, mut signals) = setup().await;
        let args = ChatArgs { message: Some("hi".to_owned()), ..ChatArgs::default() };
        let server = async {
            let (mut socket, seen) = accept(&listener).await;
            assert_eq!(seen, "/v1/ws?conversation=main&channel=cli Bearer token");
            let first = read(&mut socket).await;
            assert_eq!(first["type"], "message");
            assert_eq!(first["text"], "hi");
            drop(socket);
            let (mut socket, _) = accept(&listener).await;
            let again = read(&mut socket).await;
            assert_eq!(again, first, "the same id: a repeat is harmless");
            write(&mut socket, json!({"type":"accepted","seq":1,"turn":TURN,"id":first["id"]}))
                .await;
            write(
                &mut socket,
                json!({"type":"ended","seq":2,"turn":TURN,"outcome":"answered","reply":"yo",
                       "usage":{"input":1,"output":1}}),
            )
            .await;
            assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
        };
        let (exit, ()) = tokio::join!(crate::chat::run(&client, &args, &mut signals), server);
        assert_eq!(exit.unwrap(), Exit::Ok);
    }

    #[tokio::test]
    async fn a_refused_upgrade_is_read_like_any_other_answer() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (listener, client, mut signals) = setup().await;
        let args = ChatArgs { message: Some("hi".to_owned()), ..ChatArgs::default() };
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 2048];
            let _ = stream.read(&mut request).await.unwrap();
            let body = r#"{"error":{"code":"token","message":"wrong token"}}"#;
            let head =
                format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        };
        let (exit, ()) = tokio::join!(crate::chat::run(&client, &args, &mut signals), server);
        let failure = exit.unwrap_err();
        assert_eq!(failure.exit, Exit::Refused);
        assert_eq!(failure.message, "wrong token (token, HTTP 401)");
    }
}
