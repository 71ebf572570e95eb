//! Streams as each provider sends them, cut, damaged and broken at any place.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use proptest::prelude::*;
use rookery_messages::model::{FinishReason, ModelDelta, ModelError, ModelErrorClass, ModelStream};

use super::anthropic::Anthropic;
use super::gemini::Gemini;
use super::http::Dialect;
use super::ollama::Ollama;
use super::openai::OpenAi;
use super::responses::Responses;
use super::stream::{Reading, run};
use super::testing::{origin_of, settings, upstream};

const IDLE: Duration = Duration::from_secs(90);

/// One provider's stream: its bytes, and how many of its last ones may be missing without loss.
pub(super) struct Recorded {
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
    /// The response is complete from this byte on.
    whole_at: usize,
    pub(super) read: fn(Vec<Piece>) -> ModelStream,
}

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Bytes(Vec<u8>),
    Broken,
    /// Nothing comes any more, and nothing ends.
    Silence,
}

fn read_as<D: Dialect>(pieces: Vec<Piece>) -> ModelStream {
    let reader: D::Reader = D::new(&settings("m")).reader(upstream(), &origin_of::<D>("m"));
    let sse = D::Reader::FRAMING == super::stream::Framing::Sse;
    run(body(pieces), reader, upstream(), sse, IDLE)
}

fn body(pieces: Vec<Piece>) -> impl Stream<Item = Result<Bytes, ModelError>> + Send + 'static {
    stream::iter(pieces).then(async |piece| match piece {
        Piece::Bytes(bytes) => Ok(Bytes::from(bytes)),
        Piece::Broken => Err(upstream().error(ModelErrorClass::Network, "broke")),
        Piece::Silence => std::future::pending().await,
    })
}

pub(super) fn recorded() -> Vec<Recorded> {
    let events = |blocks: &[&str]| blocks.concat();
    // The terminal event stands last but for what is given behind it.
    let of = |name, text: String, behind: &str, read: fn(Vec<Piece>) -> ModelStream| {
        let whole_at = text.len();
        let bytes = [text.as_str(), behind].concat().into_bytes();
        Recorded { name, bytes, whole_at, read }
    };
    vec![
        of(
            "openai",
            events(&[
                ": ping\n\ndata: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n",
                "data: {\"choices\":[{\"delta\":{\"content\":\"Grüße 🚀\"}}]}\r\n\r\n",
                "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"k\\\":\"}}]}}]}\n\n",
                "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"ö\\\"}\"}}]}}]}\n\n",
                "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
            ]),
            "data: [DONE]\n\n",
            read_as::<OpenAi>,
        ),
        of(
            "anthropic",
            events(&[
                "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n",
                "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n",
                "event: ping\ndata: {\"type\": \"ping\"}\n\n",
                "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm ü\"}}\n\n",
                "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"S1==\"}}\n\n",
                "event: content_block_stop\r\ndata: {\"type\":\"content_block_stop\",\"index\":0}\r\n\r\n",
                "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"Grüße 🚀\"}}\n\n",
                "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"f\",\"input\":{}}}\n\n",
                "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"k\\\":\\\"ö\\\"}\"}}\n\n",
                "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":2}\n\n",
                "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":9}}\n\n",
                "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
            ]),
            "",
            read_as::<Anthropic>,
        ),
        of(
            "openai_responses",
            events(&[
                "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n",
                "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"id\":\"rs\",\"summary\":[],\"encrypted_content\":\"gA==\"}}\n\n",
                "data: {\"type\":\"response.output_text.delta\",\"output_index\":1,\"delta\":\"Grüße 🚀\"}\n\n",
                "data: {\"type\":\"response.output_item.added\",\"output_index\":2,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"\"}}\n\n",
                "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":2,\"delta\":\"{\\\"k\\\":\\\"ö\\\"}\"}\r\n\r\n",
                "data: {\"type\":\"response.completed\",\"response\":{\"output\":[],\"usage\":{\"input_tokens\":5,\"output_tokens\":9}}}\n\n",
            ]),
            "",
            read_as::<Responses>,
        ),
        of(
            "gemini",
            events(&[
                "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hm\",\"thought\":true}]}}]}\r\n\r\n",
                "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Grüße 🚀\"}]}}]}\r\n\r\n",
                "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{\"k\":\"ö\"}},\"thoughtSignature\":\"S==\"}]}}]}\r\n\r\n",
                "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":5,\"candidatesTokenCount\":9}}\n\n",
            ]),
            "",
            read_as::<Gemini>,
        ),
        of(
            "ollama",
            events(&[
                "{\"message\":{\"content\":\"\",\"thinking\":\"hm\"},\"done\":false}\n",
                "{\"message\":{\"content\":\"Grüße 🚀\"},\"done\":false}\r\n",
                "{\"message\":{\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"k\":\"ö\"}}}]},\"done\":false}\n",
                "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":5,\"eval_count\":9}\n",
            ]),
            "",
            read_as::<Ollama>,
        ),
    ]
}

pub(super) type Outcome = (Vec<ModelDelta>, Option<ModelErrorClass>);

pub(super) async fn outcome(mut stream: ModelStream) -> Outcome {
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

/// Without usage: it is told before an error too.
fn told(deltas: &[ModelDelta]) -> Vec<&ModelDelta> {
    deltas.iter().filter(|delta| !matches!(delta, ModelDelta::Usage(_))).collect()
}

pub(super) fn is_end(delta: &ModelDelta) -> bool {
    matches!(delta, ModelDelta::Ended { .. })
}

// A037, A039, V-L18
#[tokio::test(start_paused = true)]
async fn any_split_of_any_providers_stream_gives_the_same_deltas() {
    for Recorded { name, bytes, read, .. } in recorded() {
        let want = outcome(read(vec![Piece::Bytes(bytes.clone())])).await;
        assert_eq!(want.1, None, "{name}");
        let finish = want.0.last();
        let with_call = |end: &ModelDelta| matches!(end, ModelDelta::Ended { calls, finish } if calls.len() == 1 && *finish == FinishReason::ToolCalls);
        assert!(finish.is_some_and(with_call), "{name}: {finish:?}");
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            let pieces = vec![Piece::Bytes(head.to_vec()), Piece::Bytes(tail.to_vec())];
            assert_eq!(outcome(read(pieces)).await, want, "{name}, split at {at}");
        }
        let single = bytes.iter().map(|byte| Piece::Bytes(vec![*byte])).collect();
        assert_eq!(outcome(read(single)).await, want, "{name}");
    }
}

// R9, A035, V-L16, V-L22
#[tokio::test(start_paused = true)]
async fn a_stream_cut_or_broken_anywhere_is_never_taken_for_complete() {
    for Recorded { name, bytes, whole_at, read } in recorded() {
        let want = outcome(read(vec![Piece::Bytes(bytes.clone())])).await.0;
        for at in 0..=bytes.len() {
            for broken in [false, true] {
                let mut pieces = vec![Piece::Bytes(bytes[..at].to_vec())];
                pieces.extend(broken.then_some(Piece::Broken));
                let (deltas, error) = outcome(read(pieces)).await;
                if at >= whole_at {
                    assert_eq!((deltas.last(), error), (want.last(), None), "{name}, cut at {at}");
                    continue;
                }
                assert!(!deltas.iter().any(is_end), "{name}, cut at {at}");
                assert!(told(&want).starts_with(&told(&deltas)), "{name}, cut at {at}: {deltas:?}");
                let class = error.unwrap();
                let fits = if broken {
                    class == ModelErrorClass::Network
                } else {
                    matches!(
                        class,
                        ModelErrorClass::Truncated
                            | ModelErrorClass::Empty
                            | ModelErrorClass::Protocol
                    )
                };
                assert!(fits, "{name}, cut at {at}, broken {broken}: {class:?}");
            }
        }
    }
}

proptest! {
    // A034, V-L20
    #[test]
    fn damage_anywhere_gives_an_error_or_an_end_whatever_the_split(
        which in 0_usize..5,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        broken in any::<bool>(),
    ) {
        let Recorded { mut bytes, read, .. } = recorded().swap_remove(which);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let mut pieces: Vec<Piece> =
            at.windows(2).map(|pair| Piece::Bytes(bytes[pair[0]..pair[1]].to_vec())).collect();
        let mut whole = vec![Piece::Bytes(bytes)];
        if broken {
            pieces.push(Piece::Broken);
            whole.push(Piece::Broken);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let split = runtime.block_on(outcome(read(pieces)));
        let whole = runtime.block_on(outcome(read(whole)));
        prop_assert_eq!(&split, &whole);
        let ends = split.0.iter().filter(|delta| is_end(delta)).count();
        prop_assert_eq!(ends, usize::from(split.1.is_none()));
    }
}
