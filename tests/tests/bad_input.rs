//! Bad input at every surface: a clear error, a counted metric, nothing else disturbed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use std::time::Duration;

use reqwest::Method;
use rookery_tests::api::{Answer, fresh_id, message};
use rookery_tests::service::{ServiceProcess, free_port};
use rookery_tests::wait::until;
use rookery_tests::ws::Ws;
use rookery_tests::{Config, Reply, World, cli, program};
use serde_json::{Value, json};

async fn world() -> World {
    World::start(program!(), Config::new()).await
}

async fn post_raw(world: &World, path: &str, body: impl Into<reqwest::Body>) -> Answer {
    let request = world.api.request(Method::POST, path).header("content-type", "application/json");
    world.api.send(request.body(body)).await
}

/// How many inbound things were refused so far.
async fn refused(world: &World) -> f64 {
    world.api.metrics().await.series("refused").iter().map(|(_, _, count)| count).sum()
}

/// Waits until so many were refused: what is answered is counted a moment later, beside it.
async fn refused_in_all(world: &World, count: f64) {
    until(&format!("{count} refusals are counted"), || async {
        let seen = refused(world).await;
        assert!(seen <= count, "{seen} refusals are counted, not {count}");
        if seen == count { Ok(()) } else { Err(seen.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn malformed_messages_are_refused_counted_and_disturb_nobody() {
    let world = world().await;
    let path = "/v1/channels/webhook/ci";
    let whole = || message(&fresh_id(), "c", "hello");
    let with = |field: &str, value: Value| {
        let mut body = whole();
        body[field] = value;
        body.to_string().into_bytes()
    };
    let without = |field: &str| {
        let mut body = whole();
        body.as_object_mut().unwrap().remove(field);
        body.to_string().into_bytes()
    };
    let mut invalid_utf8 = whole().to_string().into_bytes();
    let at = invalid_utf8.windows(5).position(|part| part == b"hello").unwrap();
    invalid_utf8[at] = 0xff;
    let bad: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", vec![]),
        ("no JSON", b"hello".to_vec()),
        ("cut JSON", b"{\"id\": \"1\", \"sender\"".to_vec()),
        ("a list", b"[]".to_vec()),
        ("deep nesting", "[".repeat(100_000).into_bytes()),
        ("an unknown field", with("approved", json!(true))),
        ("no id", without("id")),
        ("no sender", without("sender")),
        ("no conversation", without("conversation")),
        ("no text", without("text")),
        ("an empty id", with("id", json!(""))),
        ("a number for an id", with("id", json!(7))),
        ("a blank text", with("text", json!(" \n\t"))),
        ("a null text", with("text", json!(null))),
        ("invalid UTF-8", invalid_utf8),
        ("a NUL byte in the text", with("text", json!("a\u{0}b"))),
        ("a NUL byte in the conversation", with("conversation", json!("a\u{0}b"))),
    ];
    let before = refused(&world).await;
    for (what, body) in &bad {
        let answer = post_raw(&world, path, body.clone()).await;
        assert!((400..500).contains(&answer.status), "{what}: {answer:?}");
        assert!(!answer.code().is_empty(), "{what}");
    }
    let counted = before + bad.len() as f64;
    refused_in_all(&world, counted).await;
    let big = with("text", json!("x".repeat(1_100_000)));
    assert_eq!(post_raw(&world, path, big).await.status, 413);
    let unknown = post_raw(&world, "/v1/channels/webhook/nobody", whole().to_string()).await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
    assert!(!unknown.code().is_empty());
    refused_in_all(&world, counted + 2.0).await;
    assert_eq!((world.model.count(), world.api.ledger().await.accepted), (0, 0));
    assert_eq!(world.api.say("c", "hello").await.result(), "answered");
    world.finish().await;
}

#[tokio::test]
async fn foreign_origins_and_hosts_are_refused_on_http_and_websocket() {
    let world = world().await;
    let base = world.api.base().to_owned();
    let port = base.rsplit(':').next().unwrap().to_owned();
    let own = format!("http://127.0.0.1:{port}");
    for (name, value) in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("host", "evil.example"),
        ("host", "127.0.0.1.evil.example"),
    ] {
        let request = world.api.request(Method::GET, "/v1/turns").header(name, value);
        let answer = world.api.send(request).await;
        assert_eq!(answer.status, 403, "{name}: {value}: {answer:?}");
        assert!(!answer.code().is_empty());
        let url = format!("ws://127.0.0.1:{port}/v1/ws?agent=home&conversation=c");
        assert!(Ws::connect(&url, &[(name, value)]).await.is_err(), "{name}: {value}");
    }
    let request = world.api.request(Method::GET, "/v1/turns").header("origin", own);
    assert_eq!(world.api.send(request).await.status, 200);
    world.finish().await;
}

#[tokio::test]
async fn without_the_right_token_only_chatting_from_loopback_is_possible() {
    let world = world().await;
    let (nobody, wrong) =
        (world.api.with_token(None), world.api.with_token(Some("wrong-token-0000")));
    for path in
        ["/admin/v1/tree", "/admin/v1/approvals", "/admin/v1/ledger", "/admin/v1/deadletters"]
    {
        for api in [&nobody, &wrong] {
            let answer = api.try_get(path).await;
            assert!([401, 403].contains(&answer.status), "{path}: {answer:?}");
            assert!(!answer.code().is_empty());
        }
    }
    let stop = nobody.post("/admin/v1/actors/root/service/stop", &json!({"reason": "test"})).await;
    assert!([401, 403].contains(&stop.status), "{stop:?}");
    assert_eq!(wrong.try_get("/v1/turns").await.status, 401, "a wrong token is worse than none");
    assert_eq!(nobody.say("c", "hello").await.result(), "answered");
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(nobody.request(Method::GET, path).send().await.unwrap().status(), 200, "{path}");
    }
    world.finish().await;
}

#[tokio::test]
async fn unknown_routes_ids_and_frames_get_error_objects() {
    let world = world().await;
    let absent = "01890a5d-ac96-774b-bcce-b302099a8057";
    for path in [
        format!("/v1/turns/{absent}"),
        "/v1/turns/not-an-id".to_owned(),
        format!("/v1/turns/{absent}/events"),
        "/admin/v1/actors/root/service/nobody".to_owned(),
        "/nowhere".to_owned(),
    ] {
        let answer = world.api.try_get(&path).await;
        assert!([400, 404].contains(&answer.status), "{path}: {answer:?}");
        assert!(!answer.code().is_empty(), "{path}");
    }
    let cancel = world.api.post(&format!("/v1/turns/{absent}/cancel"), &json!({})).await;
    assert_eq!(cancel.status, 404, "{cancel:?}");
    let mut ws = world.api.ws("c").await;
    for frame in
        ["no json", "[]", "{\"type\": \"dance\"}", "{\"type\": \"message\", \"id\": \"1\"}"]
    {
        ws.send_raw(frame).await;
        let error = ws.until("error").await.pop().unwrap();
        assert!(error["code"].is_string() && error["message"].is_string(), "{frame}: {error}");
    }
    ws.say("1", "  ").await;
    ws.until("error").await;
    ws.say("2", "hello").await;
    assert_eq!(ws.until("ended").await.last().unwrap()["reply"], "you said: hello");
    ws.close().await;
    world.finish().await;
}

#[tokio::test]
async fn a_model_that_speaks_another_language_fails_its_turn_with_a_typed_error() {
    let world = World::start(program!(), Config::new().provider("max_attempts = 1")).await;
    let garbage: Vec<u8> = (0..4_000_u32).map(|n| (n * 31 % 251) as u8).collect();
    let endless = format!("data: {}", "x".repeat(3_000_000));
    let cases = [
        ("html", Reply::html(), "provider_protocol"),
        ("error in 200", Reply::error_in_200("upstream is down"), "provider_server"),
        (
            "error event",
            Reply::stream().event(&json!({"error": {"code": 502, "message": "x"}, "choices": []})),
            "provider_server",
        ),
        ("garbage", Reply::stream().raw(garbage), "provider_"),
        ("bad json", Reply::stream().raw("data: {\"choices\": [\n\n"), "provider_protocol"),
        ("endless line", Reply::stream().raw(endless), "provider_protocol"),
        ("nothing", Reply::stream(), "provider_"),
        ("empty answer", Reply::stream().complete("stop"), "provider_empty"),
        ("500", Reply::error(500, "oops"), "provider_server"),
        // The last: a refused key parks the profile.
        ("401", Reply::error(401, "bad key"), "provider_auth"),
    ];
    for (key, reply, code) in cases {
        world.model.script(key, [reply]);
        let turn = world.api.say(key, key).await;
        assert_eq!(turn.result(), "failed", "{key}: {turn:?}");
        assert!(turn.fault().starts_with(code), "{key}: {turn:?}");
        let error = turn.error.unwrap();
        assert!(!error.message.is_empty() && error.message.len() <= 2_048, "{key}: {error:?}");
    }
    let counted = world.api.metrics().await;
    assert!(!counted.series("model").is_empty(), "{:?}", counted.names());
    world.finish().await;
}

#[tokio::test]
async fn a_configuration_with_an_unknown_key_is_refused_with_its_line_and_the_nearest_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rookery.toml");
    std::fs::write(&file, "config_version = 1\n\n[gateway]\nlisten_adress = \"127.0.0.1:1\"\n")
        .unwrap();
    let program = std::path::Path::new(program!());
    let path = file.to_str().unwrap();
    for args in [vec!["run", "--config", path], vec!["config", "check", "--config", path]] {
        let printed = cli::run(program, dir.path(), &args, &[]).await;
        assert_eq!(printed.code, Some(1), "{printed:?}");
        let said = format!("{}{}", printed.out, printed.err);
        assert!(said.contains("line 4") && said.contains("listen_adress"), "{said}");
        assert!(
            said.contains("listen`") || said.contains("`listen") || said.contains("gateway.listen"),
            "{said}"
        );
    }
    assert!(!dir.path().join("data").exists(), "nothing was made");
}

#[tokio::test]
async fn a_second_instance_on_the_same_database_is_refused_and_names_the_first() {
    let world = world().await;
    let second = tempfile::tempdir().unwrap();
    let text = Config::new()
        .store(&format!("path = \"{}\"", world.dir().join("data/rookery.db").display()))
        .render(second.path(), free_port(), &world.model.base_url());
    std::fs::write(second.path().join("rookery.toml"), text).unwrap();
    let mut intruder = ServiceProcess::spawn(program!().as_ref(), second.path(), free_port());
    let ended = intruder.wait(Duration::from_secs(20)).await;
    assert_eq!(ended.code, Some(1));
    let said = until("the reason is printed", || async {
        let log = intruder.log();
        if log.contains("rookery.db") { Ok(log) } else { Err(log) }
    })
    .await;
    assert!(said.contains(&world.service.pid().to_string()), "{said}");
    assert_eq!(world.api.say("c", "hello").await.result(), "answered");
    world.finish().await;
}

#[tokio::test]
async fn a_port_taken_by_another_program_ends_the_start_and_names_the_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let dir = tempfile::tempdir().unwrap();
    let text = Config::new().render(dir.path(), port, "http://127.0.0.1:9/v1");
    std::fs::write(dir.path().join("rookery.toml"), text).unwrap();
    let printed = cli::run(program!().as_ref(), dir.path(), &["run"], &[]).await;
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.err.contains("gateway.listen"), "{printed:?}");
}
