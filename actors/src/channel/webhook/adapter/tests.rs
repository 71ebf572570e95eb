use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, sync_channel};

use rookery_messages::envelope::ReplyAddress;
use rookery_messages::ids::{OutboxId, TurnId};
use rookery_messages::store::NewOutbox;
use rookery_messages::turn::Outcome;
use uuid::Uuid;

use super::*;
use crate::outbound::testing::DeadRoute;
use crate::runtime::system_world;

struct Received {
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Received {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Takes one request per answer; an empty answer closes the connection without one.
fn receiver(answers: Vec<&'static str>) -> (String, Receiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (tell, received) = sync_channel(32);
    std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut headers = Vec::new();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if line.trim().is_empty() {
                    break;
                }
                if let Some((key, value)) = line.split_once(':') {
                    headers.push((key.to_lowercase(), value.trim().to_owned()));
                }
            }
            let length = headers.iter().find(|(key, _)| key == "content-length").unwrap();
            let mut body = vec![0; length.1.parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            tell.send(Received { headers, body }).unwrap();
            let head =
                format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            if !answer.is_empty() {
                reader.get_mut().write_all(head.as_bytes()).unwrap();
            }
        }
    });
    (url, received)
}

fn row(possibly_repeated: bool) -> OutboxRow {
    let channel = ChannelId::new("webhook.ci");
    OutboxRow {
        message: NewOutbox {
            id: OutboxId(Uuid::from_u128(7)),
            address: ReplyAddress {
                channel: channel.clone(),
                conversation: "~ci/build 1".into(),
                thread: None,
                reply_to: None,
            },
            channel,
            payload: OutboxPayload::Reply {
                turn: TurnId(Uuid::from_u128(1)),
                outcome: Outcome::Answered,
                text: "grüße".into(),
            },
        },
        attempts: 0,
        possibly_repeated,
        progress: vec![],
        created_at: system_world().now(),
    }
}

fn adapter(url: &str) -> WebhookAdapter {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let secret = Some(Secret::new("whsec"));
    WebhookAdapter::new(ChannelId::new("webhook.ci"), url, secret, system_world()).unwrap()
}

#[tokio::test]
async fn a_reply_is_posted_signed_with_its_idempotency_key() {
    let (url, received) = receiver(vec!["200 OK", "200 OK"]);
    let adapter = adapter(&url);
    assert_eq!(adapter.post(&row(false)).await, SendAttempt::Sent { external_id: None });
    let got = received.recv().unwrap();
    let now = system_world().now();
    let signed = got.header(signature::HEADER);
    assert_eq!(signature::verify("whsec", signed, now, &got.body), Ok(()));
    assert_eq!(got.header("idempotency-key"), Some(Uuid::from_u128(7).to_string().as_str()));
    let body: Value = serde_json::from_slice(&got.body).unwrap();
    let turn = Uuid::from_u128(1).to_string();
    let expected = json!({
        "turn": turn, "conversation": "build 1", "outcome": "answered", "reply": "grüße",
    });
    assert_eq!(body, expected);
    adapter.post(&row(true)).await;
    let body: Value = serde_json::from_slice(&received.recv().unwrap().body).unwrap();
    assert_eq!(body["possibly_repeated"], json!(true));
}

// A135
#[tokio::test]
async fn a_receiver_behind_a_dead_ipv6_route_has_its_reply_within_a_second() {
    let route = DeadRoute::of("receiver.test").await;
    let adapter = adapter(&route.url());
    let sent = SendAttempt::Sent { external_id: None };
    let call = async || assert_eq!(adapter.post(&row(false)).await, sent);
    let took = route.answers("{}", 2, call).await;
    assert!(took[0] < POST_LIMIT / 20 && took[1] < took[0], "{took:?}");
}

#[tokio::test]
async fn every_answer_of_a_receiver_is_understood() {
    let kind = |attempt: &SendAttempt| match attempt {
        SendAttempt::Sent { .. } => "sent",
        SendAttempt::Failed { .. } => "failed",
        SendAttempt::Unknown { .. } => "unknown",
        SendAttempt::Refused { .. } => "refused",
    };
    let cases = [
        ("204 No Content", "sent"),
        ("400 Bad Request", "refused"),
        ("404 Not Found", "refused"),
        ("408 Request Timeout", "failed"),
        ("410 Gone", "refused"),
        ("429 Too Many Requests", "failed"),
        ("500 Internal Server Error", "failed"),
        ("503 Service Unavailable", "failed"),
        ("302 Found\r\nlocation: http://127.0.0.1:1/", "refused"),
        ("", "unknown"),
    ];
    let (url, _received) = receiver(cases.iter().map(|(answer, _)| *answer).collect());
    let adapter = adapter(&url);
    for (answer, expected) in cases {
        let attempt = adapter.post(&row(false)).await;
        assert_eq!(kind(&attempt), expected, "{answer}: {attempt:?}");
    }
    // Nobody listens there any more: it surely did not arrive.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let attempt = self::adapter(&format!("http://{free}/")).post(&row(false)).await;
    assert_eq!(kind(&attempt), "failed", "{attempt:?}");
}

#[tokio::test]
async fn the_time_a_receiver_asks_for_is_passed_on() {
    let (url, _received) = receiver(vec!["429 Too Many Requests\r\nretry-after: 30"]);
    let attempt = adapter(&url).post(&row(false)).await;
    let SendAttempt::Failed { retry_after, .. } = attempt else { panic!("{attempt:?}") };
    assert_eq!(retry_after, Some(Duration::from_secs(30)));
}

#[test]
fn an_address_that_cannot_be_posted_to_is_named() {
    for url in ["nonsense", "ftp://example.com/", "unix:/tmp/x"] {
        let channel = ChannelId::new("webhook.ci");
        let error = WebhookAdapter::new(channel, url, None, system_world()).err().unwrap();
        assert!(error.contains("channels.webhook.ci.reply_url"), "{error}");
    }
}
