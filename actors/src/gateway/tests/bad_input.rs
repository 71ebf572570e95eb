use std::io::{Read, Write};
use std::net::TcpStream;

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::rig::*;

/// Name, content type, body; status, code, what the message names.
type Case<'a> = (&'a str, Option<&'a str>, Vec<u8>, u16, &'a str, &'a str);

fn error(status: u16, code: &str) -> (StatusCode, String) {
    (StatusCode::from_u16(status).unwrap(), code.to_owned())
}

// A row each: what is posted, what is answered.
#[tokio::test]
async fn every_body_that_is_no_message_is_refused_by_name_and_nothing_is_stored() {
    let rig = Rig::new().await;
    let json = Some("application/json");
    let long_id =
        format!(r#"{{"id":"{}","sender":"a","conversation":"c","text":"t"}}"#, "x".repeat(257));
    let big =
        format!(r#"{{"id":"1","sender":"a","conversation":"c","text":"{}"}}"#, "x".repeat(20_000));
    let cases: Vec<Case<'_>> = vec![
        ("malformed", json, b"{\"id\":".to_vec(), 400, "invalid_json", "line 1"),
        ("empty", json, Vec::new(), 400, "invalid_json", "line 1"),
        ("no object", json, b"[1]".to_vec(), 400, "invalid_field", "line 1"),
        (
            "unknown field",
            json,
            br#"{"id":"1","sender":"a","conversation":"c","text":"t","x":1}"#.to_vec(),
            400,
            "invalid_field",
            "`x`",
        ),
        (
            "missing id",
            json,
            br#"{"sender":"a","conversation":"c","text":"t"}"#.to_vec(),
            400,
            "invalid_field",
            "`id`",
        ),
        (
            "wrong type",
            json,
            br#"{"id":1,"sender":"a","conversation":"c","text":"t"}"#.to_vec(),
            400,
            "invalid_field",
            "column",
        ),
        (
            "blank id",
            json,
            br#"{"id":" ","sender":"a","conversation":"c","text":"t"}"#.to_vec(),
            400,
            "blank",
            "`id`",
        ),
        ("long id", json, long_id.into_bytes(), 400, "too_long", "`id`"),
        // V-A1
        (
            "blank text",
            json,
            br#"{"id":"1","sender":"a","conversation":"c","text":" \n"}"#.to_vec(),
            400,
            "blank",
            "`text`",
        ),
        (
            "NUL",
            json,
            br#"{"id":"1","sender":"a","conversation":"c","text":"a\u0000b"}"#.to_vec(),
            400,
            "nul_character",
            "`text`",
        ),
        (
            "reserved",
            json,
            br#"{"id":"1","sender":"a","conversation":"~b/c","text":"t"}"#.to_vec(),
            400,
            "reserved_id",
            "`~`",
        ),
        ("not UTF-8", json, b"{\"id\":\"\xff\"}".to_vec(), 400, "invalid_utf8", "UTF-8"),
        ("too large", json, big.into_bytes(), 413, "body_too_large", "16384"),
        (
            "a form",
            Some("application/x-www-form-urlencoded"),
            b"id=1".to_vec(),
            415,
            "unsupported_media_type",
            "form",
        ),
        ("no type", None, b"{}".to_vec(), 415, "unsupported_media_type", "content type"),
    ];
    for (name, kind, body, status, code, names) in cases {
        let mut request = rig.request(Method::POST, "/v1/channels/webhook/ci").body(body);
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        let (got, body) = answer(request).await;
        let said = body["error"]["message"].as_str().unwrap().to_owned();
        assert_eq!(
            (got, body["error"]["code"].as_str().unwrap().to_owned()),
            error(status, code),
            "{name}: {said}"
        );
        assert!(said.contains(names), "{name}: {said}");
    }
    let (status, body) = rig.post("/v1/channels/webhook/nobody", &message("c", "1")).await;
    assert_eq!(
        (status, body["error"]["code"].as_str()),
        (StatusCode::NOT_FOUND, Some("unknown_alias"))
    );
    let body = json!({ "id": "1", "sender": "bob", "conversation": "c", "text": "hi" });
    let (status, body) = rig.post("/v1/channels/webhook/few", &body).await;
    // R4
    assert_eq!(
        (status, body["error"]["code"].as_str()),
        (StatusCode::FORBIDDEN, Some("not_allowed"))
    );
    assert_eq!(rig.base.store.ledger().await.unwrap().accepted, 0);
    let refusals = rig.refusals();
    for (surface, reason) in [
        ("webhook.ci", "body"),
        ("webhook.ci", "content_type"),
        ("gateway", "body_too_large"),
        ("gateway", "unknown_alias"),
        ("webhook.few", "not_allowed"),
    ] {
        assert!(
            refusals.contains(&(surface.to_owned(), reason)),
            "{surface} {reason}: {refusals:?}"
        );
    }
    // Nothing else is disturbed.
    assert_eq!(rig.say("c", "1").await.0, StatusCode::ACCEPTED);
    rig.end().await;
}

#[tokio::test]
async fn every_error_has_the_same_form() {
    let rig = Rig::new().await;
    let some = "0190a000-0000-7000-8000-000000000000";
    let cases = [
        (Method::GET, "/nowhere".to_owned(), 404, "not_found"),
        (Method::DELETE, "/v1/turns".to_owned(), 405, "method_not_allowed"),
        (Method::GET, "/v1/channels/webhook/ci".to_owned(), 405, "method_not_allowed"),
        (Method::GET, "/v1/turns?limit=x".to_owned(), 400, "invalid_query"),
        (Method::GET, "/v1/turns?limit=1&color=red".to_owned(), 400, "invalid_query"),
        (Method::GET, "/v1/turns?state=asleep".to_owned(), 400, "invalid_query"),
        (Method::GET, "/v1/turns/7".to_owned(), 404, "not_found"),
        (Method::GET, format!("/v1/turns/{some}"), 404, "not_found"),
        (Method::GET, format!("/v1/turns/{some}/events"), 404, "not_found"),
        (Method::POST, format!("/v1/turns/{some}/cancel"), 404, "not_found"),
        (Method::GET, "/v1/conversations/ws/none/messages".to_owned(), 404, "not_found"),
        (Method::GET, "/v1/conversations/ws/%ff/messages".to_owned(), 400, "bad_request"),
        (Method::GET, "/v1/ws".to_owned(), 400, "not_a_websocket"),
        (Method::GET, "/v1/crash".to_owned(), 500, "internal"),
        (Method::POST, "/v1/channels/webhook/ci?wait=soon".to_owned(), 400, "invalid_query"),
        (Method::GET, "/admin/v1/ledger".to_owned(), 401, "no_token"),
    ];
    for (method, path, status, code) in cases {
        let (got, body) = answer(rig.request(method.clone(), &path)).await;
        let got = (got, body["error"]["code"].as_str().unwrap_or_default().to_owned());
        assert_eq!(got, error(status, code), "{method} {path}: {body}");
        assert!(body["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "{path}");
    }
    for (path, code) in [("approvals/7", 404), ("deadletters/7/retry", 404), ("receipts", 404)] {
        let body = json!({ "decision": "approve" });
        let (status, body) = rig.post_as(ADMIN, &format!("/admin/v1/{path}"), &body).await;
        assert_eq!(status.as_u16(), code, "{path}: {body}");
        assert_eq!(body["error"]["code"], "not_found", "{path}");
    }
    rig.end().await;
}

fn raw(rig: &Rig, request: &str) -> String {
    let mut stream = TcpStream::connect(rig.address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_hosts_and_origins_are_refused_before_anything_else() {
    let rig = Rig::new().await;
    let port = rig.address.port();
    let cases = [
        (format!("host: 127.0.0.1:{port}\r\n"), 200),
        (format!("host: localhost:{port}\r\n"), 200),
        (format!("host: [::1]:{port}\r\n"), 200),
        ("host: evil.example\r\n".to_owned(), 403),
        (format!("host: localhost.evil.example:{port}\r\n"), 403),
        (format!("host: 10.0.0.1:{port}\r\n"), 403),
        (String::new(), 400),
        ("host: localhost\r\nhost: evil.example\r\n".to_owned(), 400),
        (format!("host: localhost:{port}\r\norigin: http://localhost:{port}\r\n"), 200),
        (format!("host: localhost:{port}\r\norigin: http://127.0.0.1:{port}\r\n"), 200),
        (format!("host: localhost:{port}\r\norigin: http://localhost:1\r\n"), 403),
        (format!("host: localhost:{port}\r\norigin: https://evil.example\r\n"), 403),
        (format!("host: localhost:{port}\r\norigin: null\r\n"), 403),
    ];
    for (headers, status) in cases {
        let request = format!("GET /livez HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
        let answer = raw(&rig, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{headers}: {answer}");
    }
    let absolute =
        "GET http://evil.example/livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert!(raw(&rig, absolute).starts_with("HTTP/1.1 403 "));
    let reasons: Vec<_> = rig.refusals().into_iter().map(|(_, reason)| reason).collect();
    assert!(reasons.contains(&"foreign_host") && reasons.contains(&"foreign_origin"));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_s_name_is_ours_once_it_is_configured() {
    let mut settings = settings();
    settings.gateway.hosts = vec!["rookery.example.com".to_owned()];
    let rig = Rig::with(settings).await;
    for (headers, status) in [
        ("host: Rookery.example.com\r\n", 200),
        ("host: rookery.example.com:443\r\norigin: https://rookery.example.com:443\r\n", 200),
        ("host: rookery.example.com.evil.example\r\n", 403),
        ("host: rookery.example.com\r\norigin: https://evil.example\r\n", 403),
    ] {
        let request = format!("GET /livez HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
        let answer = raw(&rig, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{headers}: {answer}");
    }
    rig.end().await;
}

/// Sends all of it, and only then reads what is answered.
fn send_whole(rig: &Rig, head: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(rig.address)?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

// More than the system takes for a reader that does not read.
const BIG: usize = 12 * 1_024 * 1_024;

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sends_a_body_nobody_wants_reads_why_and_not_a_broken_pipe() {
    let rig = Rig::new().await;
    let port = rig.address.port();
    let json = "content-type: application/json\r\n";
    let plain = format!("content-length: {BIG}\r\n");
    let chunked = "transfer-encoding: chunked\r\n";
    let cases = [
        // Refused for what it announces, and for what it turns out to be.
        ("POST /v1/channels/webhook/ci", format!("{json}{plain}"), 413),
        ("POST /v1/channels/webhook/ci", format!("{json}{chunked}"), 413),
        ("POST /v1/channels/webhook/nobody", format!("{json}{chunked}"), 404),
        ("POST /v1/channels/webhook/ci?wait=soon", format!("{json}{chunked}"), 400),
        ("POST /nowhere", chunked.to_owned(), 404),
        ("DELETE /v1/turns", chunked.to_owned(), 405),
        ("POST /admin/v1/approvals/7", format!("{json}{chunked}"), 401),
        ("POST /v1/turns", format!("{chunked}origin: http://evil.example\r\n"), 403),
    ];
    let body = "x".repeat(BIG);
    let in_one_chunk = format!("{BIG:x}\r\n{body}\r\n0\r\n\r\n");
    for (line, headers, status) in cases {
        let body = if headers.contains("chunked") { &in_one_chunk } else { &body };
        let head = format!(
            "{line} HTTP/1.1\r\nhost: localhost:{port}\r\n{headers}connection: close\r\n\r\n"
        );
        let answer = send_whole(&rig, &head, body).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {answer}");
        assert!(answer.contains("\"error\""), "{line}: {answer}");
    }
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_does_not_wait_for_the_unwanted_body_and_the_connection_goes_on_after_it() {
    let rig = Rig::new().await;
    let mut stream = TcpStream::connect(rig.address).unwrap();
    let port = rig.address.port();
    let head = |line: &str, length: usize| {
        format!("{line} HTTP/1.1\r\nhost: localhost:{port}\r\ncontent-length: {length}\r\n\r\n")
    };
    stream.write_all(head("POST /nowhere", 10_000).as_bytes()).unwrap();
    assert!(read_answer(&mut stream).starts_with("HTTP/1.1 404 "));
    stream.write_all(&[b'x'; 10_000]).unwrap();
    stream.write_all(head("GET /livez", 0).as_bytes()).unwrap();
    assert!(read_answer(&mut stream).starts_with("HTTP/1.1 200 "));
    drop(stream);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_waits_for_our_word_is_not_asked_for_an_unwanted_body() {
    let rig = Rig::new().await;
    let mut stream = TcpStream::connect(rig.address).unwrap();
    let port = rig.address.port();
    let head = format!(
        "POST /nowhere HTTP/1.1\r\nhost: localhost:{port}\r\nexpect: 100-continue\r\n\
         content-length: 10000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 ") && !answer.contains("100 Continue"), "{answer}");
    rig.end().await;
}

// I10
#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_an_end_is_not_read_for_ever() {
    let rig = Rig::new().await;
    let port = rig.address.port();
    let head = format!(
        "POST /nowhere HTTP/1.1\r\nhost: localhost:{port}\r\ntransfer-encoding: chunked\r\n\r\n\
         fffffffffff\r\n"
    );
    let address = rig.address;
    let sent = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let part = vec![b'x'; 1_024 * 1_024];
        (0..1_000).take_while(|_| stream.write_all(&part).is_ok()).count()
    });
    let sent = sent.await.unwrap();
    assert!((1..200).contains(&sent), "{sent} MiB were taken");
    rig.end().await;
}

/// One answer with a length, so that the connection can go on.
fn read_answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let head = String::from_utf8(answer).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}
