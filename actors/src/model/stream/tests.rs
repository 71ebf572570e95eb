use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use rookery_messages::chat::Usage;
use rookery_messages::model::{FinishReason, RawCall};

use super::*;
use crate::model::openai::chunk::ChunkParser;

const IDLE: Duration = Duration::from_secs(90);

/// A piece of a body: bytes, a pause, a fault; without an end it stays open.
#[derive(Clone, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Pause(Duration),
    Broken,
    Open,
}

fn text(bytes: &str) -> Piece {
    Piece::Bytes(bytes.as_bytes().to_vec())
}

fn secs(seconds: u64) -> Piece {
    Piece::Pause(Duration::from_secs(seconds))
}

fn upstream() -> Upstream {
    Upstream::new("main", None)
}

fn body(pieces: Vec<Piece>) -> impl Stream<Item = Result<Bytes, ModelError>> + Send + 'static {
    stream::unfold(pieces.into_iter(), |mut pieces| async move {
        loop {
            match pieces.next()? {
                Piece::Bytes(bytes) => return Some((Ok(Bytes::from(bytes)), pieces)),
                Piece::Pause(pause) => tokio::time::sleep(pause).await,
                Piece::Broken => {
                    return Some((
                        Err(upstream().error(ModelErrorClass::Network, "broke")),
                        pieces,
                    ));
                }
                Piece::Open => std::future::pending::<()>().await,
            }
        }
    })
}

fn run(
    bytes: impl Stream<Item = Result<Bytes, ModelError>> + Send + 'static,
    upstream: Upstream,
    declared_sse: bool,
    idle: Duration,
) -> ModelStream {
    super::run(bytes, ChunkParser::new(upstream.clone()), upstream, declared_sse, idle)
}

type Outcome = (Vec<ModelDelta>, Option<ModelErrorClass>);

async fn outcome(mut stream: ModelStream) -> Outcome {
    let mut deltas = Vec::new();
    let mut end = None;
    while let Some(item) = stream.next().await {
        assert_eq!(end, None, "nothing follows an error");
        match item {
            Ok(delta) => deltas.push(delta),
            Err(error) => end = Some(error.class),
        }
    }
    (deltas, end)
}

async fn read(pieces: Vec<Piece>) -> Outcome {
    outcome(run(body(pieces), upstream(), true, IDLE)).await
}

fn said(word: &str) -> ModelDelta {
    ModelDelta::Text(word.to_owned())
}

fn ended() -> ModelDelta {
    ModelDelta::Ended { calls: vec![], finish: FinishReason::Stop }
}

const HI: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

// V-L14
#[tokio::test(start_paused = true)]
async fn done_completes_without_the_end_of_the_body() {
    let begun = Instant::now();
    let got = read(vec![text(HI), text(STOP), text(DONE), Piece::Open]).await;
    assert_eq!(got, (vec![said("Hi"), ended()], None));
    assert!(begun.elapsed() <= DRAIN + Duration::from_millis(1));
    assert_eq!(read(vec![text(HI), text(DONE), Piece::Open]).await.0, vec![said("Hi"), ended()]);
}

// V-L15, V-L16
#[tokio::test(start_paused = true)]
async fn the_end_of_the_body_completes_only_after_a_finish_reason() {
    assert_eq!(read(vec![text(HI), text(STOP)]).await, (vec![said("Hi"), ended()], None));
    assert_eq!(read(vec![text(HI)]).await, (vec![said("Hi")], Some(ModelErrorClass::Truncated)));
    let cut = text(&STOP[..STOP.len() - 1]);
    assert_eq!(read(vec![text(HI), cut]).await.1, Some(ModelErrorClass::Truncated));
}

// V-L17
#[tokio::test(start_paused = true)]
async fn a_finished_response_waits_a_quarter_second_for_its_usage_and_no_longer() {
    let begun = Instant::now();
    let got = read(vec![text(HI), text(STOP), Piece::Open]).await;
    assert_eq!(got, (vec![said("Hi"), ended()], None));
    assert!(begun.elapsed() >= LINGER && begun.elapsed() <= LINGER + Duration::from_millis(2));

    let late = Piece::Pause(Duration::from_millis(200));
    let usage = ModelDelta::Usage(Usage { input: 1, output: 2 });
    let got = read(vec![text(HI), text(STOP), late, text(USAGE), Piece::Open]).await;
    assert_eq!(got, (vec![said("Hi"), usage, ended()], None));

    // Comments don't lengthen the wait.
    let mut pings = vec![text(HI), text(STOP)];
    for _ in 0..100 {
        pings.extend([Piece::Pause(Duration::from_millis(20)), text(": ping\n\n")]);
    }
    let begun = Instant::now();
    assert_eq!(read(pings).await, (vec![said("Hi"), ended()], None));
    assert!(begun.elapsed() <= LINGER + Duration::from_millis(2));
}

// A111
#[tokio::test(start_paused = true)]
async fn a_broken_body_fails_at_once_and_is_dropped_before_the_error_is_told() {
    struct Held(Arc<AtomicBool>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let held = Held(dropped.clone());
    let bytes = body(vec![text(HI), Piece::Broken, Piece::Open]).map(move |item| {
        let _ = &held;
        item
    });
    let mut stream = run(bytes, upstream(), true, IDLE);
    assert_eq!(stream.next().await, Some(Ok(said("Hi"))));
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(error.class, ModelErrorClass::Network);
    assert!(dropped.load(Ordering::SeqCst), "the stream still holds the body");
    assert_eq!(stream.next().await, None);
    // After the finish reason the response is whole.
    let got = read(vec![text(HI), text(STOP), Piece::Broken]).await;
    assert_eq!(got, (vec![said("Hi"), ended()], None));
}

// A023
#[tokio::test(start_paused = true)]
async fn silence_and_pings_alone_end_in_an_idle_timeout() {
    for keep_alive in [None, Some(": ping\n\n"), Some("data: {\"choices\":[{\"delta\":{}}]}\n\n")] {
        let mut pieces = vec![text(HI)];
        for _ in 0..1_000 {
            pieces.push(secs(10));
            pieces.extend(keep_alive.map(text));
        }
        let begun = Instant::now();
        let got = read(pieces).await;
        assert_eq!(got, (vec![said("Hi")], Some(ModelErrorClass::IdleTimeout)), "{keep_alive:?}");
        assert!(begun.elapsed() <= IDLE + Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    let never = read(vec![Piece::Open]).await;
    assert_eq!(never, (vec![], Some(ModelErrorClass::IdleTimeout)));
}

// V-L21
#[tokio::test(start_paused = true)]
async fn an_active_stream_is_not_cut_however_long_it_lasts() {
    let mut pieces = Vec::new();
    for _ in 0..100 {
        pieces.extend([secs(80), text(HI)]);
    }
    pieces.push(text(STOP));
    let begun = Instant::now();
    let (deltas, error) = read(pieces).await;
    assert_eq!((deltas.len(), error), (101, None));
    assert!(begun.elapsed() >= Duration::from_secs(8_000));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_not_an_idle_provider() {
    let pieces = vec![text(HI), text(": ping\n\n"), secs(1), text(HI), text(STOP)];
    let mut stream = run(body(pieces), upstream(), true, IDLE);
    assert_eq!(stream.next().await, Some(Ok(said("Hi"))));
    tokio::time::advance(IDLE * 3).await;
    assert_eq!(stream.next().await, Some(Ok(said("Hi"))));
    assert_eq!(stream.next().await, Some(Ok(ended())));
    assert_eq!(stream.next().await, None);
}

// A038
#[tokio::test(start_paused = true)]
async fn comments_are_no_response() {
    let pings = read(vec![text(": ping\n\n: OPENROUTER PROCESSING\n\n:\n\n")]).await;
    assert_eq!(pings, (vec![], Some(ModelErrorClass::Empty)));
    assert_eq!(read(vec![]).await, (vec![], Some(ModelErrorClass::Empty)));
    let around = read(vec![text(": ping\n\n"), text(HI), text(":\n\n"), text(STOP)]).await;
    assert_eq!(around, (vec![said("Hi"), ended()], None));
}

// A034, V-L20
#[tokio::test(start_paused = true)]
async fn text_before_a_fault_in_the_same_chunk_is_kept() {
    for (fault, class) in [
        ("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n".as_bytes(), ModelErrorClass::Overloaded),
        (b"data: {\"error\":\"boom\"}\n\ndata: [DONE]\n\n", ModelErrorClass::Server),
        (b"data: \xFF\n\n", ModelErrorClass::Protocol),
        (b"data: not json\n\n", ModelErrorClass::Protocol),
    ] {
        let chunk = [HI.as_bytes(), fault].concat();
        let got = read(vec![Piece::Bytes(chunk), Piece::Open]).await;
        assert_eq!(got, (vec![said("Hi")], Some(class)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_no_stream_is_told_by_its_first_bytes() {
    let completion = r#" {"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#;
    let usage = ModelDelta::Usage(Usage { input: 1, output: 2 });
    let html = "<!DOCTYPE html><html><title>Sign in</title></html>";
    for declared_sse in [true, false] {
        let read = |pieces| outcome(run(body(pieces), upstream(), declared_sse, IDLE));
        let (first, second) = completion.split_at(20);
        let got = read(vec![text(first), text(second)]).await;
        assert_eq!(got, (vec![said("Hi"), usage.clone(), ended()], None));
        for (document, class) in [
            (r#"{"error":{"code":"insufficient_quota"}}"#, ModelErrorClass::Quota),
            (r#"{"error":"model overloaded"}"#, ModelErrorClass::Overloaded),
            (r#"{"status":"ok"}"#, ModelErrorClass::Protocol),
            (r#"{"choices":["#, ModelErrorClass::Protocol),
            (html, ModelErrorClass::Protocol),
        ] {
            let got = read(vec![text(document)]).await;
            assert_eq!(got, (vec![], Some(class)), "{document}");
        }
        // A page whose connection stays open is not waited for.
        let begun = Instant::now();
        assert_eq!(read(vec![text(html), Piece::Open]).await.1, Some(ModelErrorClass::Protocol));
        assert!(begun.elapsed() < Duration::from_secs(1));
        assert_eq!(read(vec![text(HI), text(STOP)]).await, (vec![said("Hi"), ended()], None));
        let bom = [b"\xEF\xBB\xBF\n", HI.as_bytes(), STOP.as_bytes()].concat();
        assert_eq!(read(vec![Piece::Bytes(bom)]).await, (vec![said("Hi"), ended()], None));
    }
    let error = run(body(vec![text(html)]), upstream(), false, IDLE).next().await.unwrap();
    let message = error.unwrap_err().message;
    assert!(message.contains("Sign in") && !message.contains('<'), "{message}");
    let plain = outcome(run(body(vec![text("database is down")]), upstream(), false, IDLE)).await;
    assert_eq!(plain, (vec![], Some(ModelErrorClass::Protocol)));
}

/// Streams as servers send them, with every kind of line end and event.
fn recorded() -> Vec<(Vec<u8>, Vec<ModelDelta>)> {
    let usage = ModelDelta::Usage(Usage { input: 5, output: 7 });
    let plain = "\u{feff}: ping\r\n\r\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\r\n\r\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"Grüße 🚀\"}}]}\r\n\r\n\
        data: {\"choices\":[{\"delta\":{\"content\":\" end.\"},\"finish_reason\":\"stop\"}]}\r\n\r\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7}}\r\n\r\ndata: [DONE]\r\n\r\n";
    let calls = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}\n\n\
        : OPENROUTER PROCESSING\n\n\
        data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"k\\\":\"}}]}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"ö\\\"}\"}},{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"g\"}}]}}]}\n\n\
        data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let asked = |id: &str, name: &str, arguments: &str| RawCall {
        provider_id: Some(id.to_owned()),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    vec![
        (plain.as_bytes().to_vec(), vec![said("Grüße 🚀"), said(" end."), usage, ended()]),
        (
            calls.replace('\n', "\r").into_bytes(),
            vec![
                ModelDelta::Thinking("hm".to_owned()),
                ModelDelta::Ended {
                    calls: vec![asked("a", "f", r#"{"k":"ö"}"#), asked("b", "g", "{}")],
                    finish: FinishReason::ToolCalls,
                },
            ],
        ),
    ]
}

// A027–A041 (any split), A037, A039, V-L18
#[tokio::test(start_paused = true)]
async fn any_split_of_a_recorded_stream_gives_the_same_deltas() {
    for (bytes, want) in recorded() {
        for declared_sse in [true, false] {
            let read = |pieces| outcome(run(body(pieces), upstream(), declared_sse, IDLE));
            for at in 0..=bytes.len() {
                let (head, tail) = bytes.split_at(at);
                let pieces = vec![Piece::Bytes(head.to_vec()), Piece::Bytes(tail.to_vec())];
                assert_eq!(read(pieces).await, (want.clone(), None), "split at {at}");
            }
            let single = bytes.iter().map(|byte| Piece::Bytes(vec![*byte])).collect();
            assert_eq!(read(single).await, (want.clone(), None));
        }
    }
}

// A035, V-L15, V-L16
#[tokio::test(start_paused = true)]
async fn any_truncation_of_a_recorded_stream_is_a_prefix_and_a_typed_error_or_complete() {
    for (bytes, want) in recorded() {
        let mut complete = 0;
        for at in 0..=bytes.len() {
            let (deltas, error) = read(vec![Piece::Bytes(bytes[..at].to_vec())]).await;
            match error {
                None => {
                    complete += 1;
                    assert_eq!(deltas.last(), want.last(), "cut at {at}");
                }
                Some(class) => {
                    assert!(
                        matches!(
                            class,
                            ModelErrorClass::Truncated
                                | ModelErrorClass::Empty
                                | ModelErrorClass::Protocol
                        ),
                        "cut at {at}: {class:?}"
                    );
                    assert!(want.starts_with(&deltas), "cut at {at}: {deltas:?}");
                    assert!(deltas.len() < want.len());
                }
            }
        }
        assert!(complete > 0);
    }
}

proptest! {
    // V-L20
    #[test]
    fn damaged_streams_end_in_an_error_or_an_end_and_never_in_a_panic(
        which in 0_usize..2,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        declared in any::<bool>(),
    ) {
        let (mut bytes, _) = recorded().swap_remove(which);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let pieces = at.windows(2).map(|pair| Piece::Bytes(bytes[pair[0]..pair[1]].to_vec())).collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let split = runtime.block_on(outcome(run(body(pieces), upstream(), declared, IDLE)));
        let whole = vec![Piece::Bytes(bytes)];
        let whole = runtime.block_on(outcome(run(body(whole), upstream(), declared, IDLE)));
        prop_assert_eq!(&split, &whole);
        let ends = split.0.iter().filter(|delta| matches!(delta, ModelDelta::Ended { .. })).count();
        prop_assert_eq!(ends, usize::from(split.1.is_none()));
    }
}
