//! Generated streams: what each provider sends, damaged, cut, repeated and mixed up in every way there is.
//! Whatever comes, the result is a message that stands in a history, or a typed error.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use rookery_messages::chat::{Arguments, ChatMessage, OpaqueBlock, ToolCall};
use rookery_messages::ids::CallId;
use rookery_messages::model::{ModelDelta, ModelErrorClass};
use uuid::Uuid;

use super::anthropic::Anthropic;
use super::gemini::Gemini;
use super::http::Ease;
use super::ollama::Ollama;
use super::openai::OpenAi;
use super::recorded_tests::{Outcome, Piece, Recorded, is_end, outcome, recorded};
use super::responses::Responses;
use super::testing::{result, sent, settings, tool};
use super::wire_check;
use crate::generated::Generated;

/// What is put into streams.
const SPLINTERS: [&[u8]; 24] = [
    b"\xff\xfe",
    b"\xe2\x82",
    b"\xf0\x9f",
    b"\xef\xbb\xbf",
    b"\0",
    b"\r",
    b"\n",
    b"\n\n",
    b"\r\n\r\n",
    b":",
    b"data: ",
    b"data: [DONE]\n\n",
    b"event: error\n",
    b"data: {\"error\":{\"message\":\"overloaded\"}}\n\n",
    b"{",
    b"}",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"\"",
    b"\\",
    b"\\ud800",
    b"null",
    b"<html>",
    b"retry: 99999999999999999999\n",
    b"id: \0\n",
];

/// What numbers become.
const NUMBERS: [&str; 10] = [
    "-1",
    "0.5",
    "1e999",
    "-1e-999",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999999999999",
    "\"7\"",
];

/// One change to a list of events.
#[derive(Clone, Debug)]
enum Change {
    Drop(Index),
    Swap(Index, Index),
    Repeat(Index, u8),
    /// An event of another provider.
    Foreign(usize, Index, Index),
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, usize),
    Number(Index, usize),
    /// A string where something else stood.
    Blank(Index, Index),
    Truncate(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        2 => at().prop_map(Change::Drop),
        2 => (at(), at()).prop_map(|(a, b)| Change::Swap(a, b)),
        2 => (at(), 1_u8..20).prop_map(|(a, times)| Change::Repeat(a, times)),
        1 => (0_usize..5, at(), at()).prop_map(|(whose, a, b)| Change::Foreign(whose, a, b)),
        3 => (at(), 0_u8..8).prop_map(|(a, bit)| Change::Flip(a, bit)),
        2 => (at(), any::<u8>()).prop_map(|(a, byte)| Change::Set(a, byte)),
        3 => (at(), 0..SPLINTERS.len()).prop_map(|(a, what)| Change::Insert(a, what)),
        2 => (at(), 0..NUMBERS.len()).prop_map(|(a, what)| Change::Number(a, what)),
        1 => (at(), at()).prop_map(|(a, b)| Change::Blank(a, b)),
        1 => at().prop_map(Change::Truncate),
    ]
}

/// The events of a stream, each with what ends it.
fn events(bytes: &[u8]) -> Vec<Vec<u8>> {
    let is_sse = !bytes.starts_with(b"{");
    let mut events = vec![Vec::new()];
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let is_last = !is_sse || line == b"\n" || line == b"\r\n";
        if let Some(event) = events.last_mut() {
            event.extend_from_slice(line);
        }
        if is_last {
            events.push(Vec::new());
        }
    }
    events.retain(|event| !event.is_empty());
    events
}

fn changed(which: usize, changes: &[Change]) -> Vec<u8> {
    let streams = recorded();
    let mut list = events(&streams[which].bytes);
    for change in changes {
        if list.is_empty() {
            break;
        }
        match change {
            Change::Drop(at) => drop(list.remove(at.index(list.len()))),
            Change::Swap(a, b) => {
                let (a, b) = (a.index(list.len()), b.index(list.len()));
                list.swap(a, b);
            }
            Change::Repeat(at, times) => {
                let at = at.index(list.len());
                let again = std::iter::repeat_n(list[at].clone(), usize::from(*times));
                list.splice(at..at, again);
            }
            Change::Foreign(whose, of, at) => {
                let theirs = events(&streams[*whose].bytes);
                let at = at.index(list.len());
                list.insert(at, theirs[of.index(theirs.len())].clone());
            }
            _ => {}
        }
    }
    let mut bytes = list.concat();
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        let place = |at: &Index| at.index(bytes.len());
        match change {
            Change::Flip(at, bit) => {
                let at = place(at);
                bytes[at] ^= 1 << bit;
            }
            Change::Set(at, byte) => {
                let at = place(at);
                bytes[at] = *byte;
            }
            Change::Insert(at, what) => {
                let at = place(at);
                bytes.splice(at..at, SPLINTERS[*what].iter().copied());
            }
            Change::Number(at, what) => {
                let digits: Vec<usize> =
                    (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
                if !digits.is_empty() {
                    let at = digits[at.index(digits.len())];
                    bytes.splice(at..=at, NUMBERS[*what].bytes());
                }
            }
            Change::Blank(from, to) => {
                let (a, b) = (place(from), place(to));
                let from = a.min(b);
                let to = a.max(b).min(from + 40);
                bytes.splice(from..to, *b"\"\"");
            }
            Change::Truncate(at) => {
                let at = place(at);
                bytes.truncate(at);
            }
            _ => {}
        }
    }
    bytes
}

fn pieces(bytes: &[u8], cuts: &[Index]) -> Vec<Piece> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| Piece::Bytes(bytes[pair[0]..pair[1]].to_vec())).collect()
}

/// Reads on a clock that stands still while there is work.
fn played(
    read: fn(Vec<Piece>) -> rookery_messages::model::ModelStream,
    pieces: Vec<Piece>,
) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let limit = Duration::from_secs(3_600);
        tokio::time::timeout(limit, outcome(read(pieces))).await.expect("it goes on for ever")
    })
}

/// How a stream ends when its last byte has come.
#[derive(Clone, Copy, Debug)]
enum End {
    Closed,
    Broken,
    Silent,
}

impl End {
    fn piece(self) -> Option<Piece> {
        match self {
            Self::Closed => None,
            Self::Broken => Some(Piece::Broken),
            Self::Silent => Some(Piece::Silence),
        }
    }
}

fn ends() -> impl Strategy<Value = End> {
    prop_oneof![3 => Just(End::Closed), 1 => Just(End::Broken), 1 => Just(End::Silent)]
}

/// What the turn makes of a response: the assistant's message, and a result for each call.
fn history(deltas: &[ModelDelta]) -> Option<Vec<ChatMessage>> {
    let mut text = String::new();
    let mut opaque: Vec<OpaqueBlock> = Vec::new();
    let mut asked = None;
    for delta in deltas {
        match delta {
            ModelDelta::Text(part) => text.push_str(part),
            ModelDelta::Opaque(block) => opaque.push(block.clone()),
            ModelDelta::Ended { calls, .. } => asked = Some(calls),
            ModelDelta::Thinking(_) | ModelDelta::Usage(_) => {}
        }
    }
    let calls: Vec<ToolCall> = asked?
        .iter()
        .zip(1..)
        .map(|(raw, id)| ToolCall {
            id: CallId(Uuid::from_u128(id)),
            provider_id: raw.provider_id.clone(),
            name: raw.name.clone(),
            arguments: Arguments::parse(&raw.arguments),
        })
        .collect();
    if text.trim().is_empty() && calls.is_empty() {
        // A failed attempt; nothing of it is kept.
        return None;
    }
    let results: Vec<ChatMessage> = calls.iter().map(|call| result(call, "done")).collect();
    let opaque = if calls.is_empty() { Vec::new() } else { opaque };
    let said = ChatMessage::Assistant { text, calls, interrupted: false, opaque };
    Some([vec![ChatMessage::user("go"), said], results, vec![ChatMessage::user("next")]].concat())
}

fn calls_of(message: &ChatMessage) -> usize {
    match message {
        ChatMessage::Assistant { calls, .. } => calls.len(),
        _ => 0,
    }
}

/// The next request of every provider is sendable.
fn stands_in_a_history(deltas: &[ModelDelta]) -> Result<(), TestCaseError> {
    let Some(messages) = history(deltas) else { return Ok(()) };
    // As every request is prepared: ids that a provider gave twice are told apart (A047), all else stands.
    let asked: Vec<usize> = messages.iter().map(calls_of).collect();
    let (messages, _) =
        wire_check::prepared(messages).map_err(|fault| TestCaseError::fail(format!("{fault}")))?;
    prop_assert_eq!(messages.iter().map(calls_of).collect::<Vec<_>>(), asked);
    let (settings, tools) = (settings("m"), [tool("f")]);
    let ease = Ease::default();
    for sent in [
        sent::<OpenAi>(&settings, &messages, &tools, ease),
        sent::<Anthropic>(&settings, &messages, &tools, ease),
        sent::<Responses>(&settings, &messages, &tools, ease),
        sent::<Gemini>(&settings, &messages, &tools, ease),
        sent::<Ollama>(&settings, &messages, &tools, ease),
    ] {
        prop_assert!(sent.is_ok(), "{:?}: {messages:?}", sent.err());
    }
    Ok(())
}

fn size(deltas: &[ModelDelta]) -> usize {
    let of = |delta: &ModelDelta| match delta {
        ModelDelta::Text(text) | ModelDelta::Thinking(text) => text.len(),
        ModelDelta::Opaque(block) => block.block.to_string().len(),
        ModelDelta::Usage(_) => 0,
        ModelDelta::Ended { calls, .. } => {
            calls.iter().map(|call| call.name.len() + call.arguments.len()).sum()
        }
    };
    deltas.iter().map(of).sum()
}

// A034, A037, V-L16, V-L20, I4
#[test]
fn whatever_a_provider_sends_is_a_message_for_the_history_or_a_typed_error() {
    let cuts = prop::collection::vec(any::<Index>(), 0..8);
    let inputs = (0_usize..5, prop::collection::vec(change(), 0..8), cuts, ends());
    let ended = std::cell::Cell::new(0);
    let ran = Generated::Streams.check(200_000, &inputs, |(which, changes, cuts, end)| {
        let Recorded { name, read, .. } = recorded().swap_remove(which);
        let bytes = changed(which, &changes);
        let with_end = |mut pieces: Vec<Piece>| {
            pieces.extend(end.piece());
            pieces
        };
        let whole = played(read, with_end(vec![Piece::Bytes(bytes.clone())]));
        // The same, however the bytes came.
        prop_assert_eq!(&played(read, with_end(pieces(&bytes, &cuts))), &whole, "{}", name);
        let (deltas, error) = &whole;
        let ends = deltas.iter().filter(|delta| is_end(delta)).count();
        prop_assert_eq!(ends, usize::from(error.is_none()), "{}: an end, or an error", name);
        prop_assert!(size(deltas) <= 8 * bytes.len() + 1_024, "{}: {} bytes", name, size(deltas));
        ended.set(ended.get() + ends);
        stands_in_a_history(deltas)
    });
    // Damage that nothing survives would test the errors alone.
    assert!(ended.get() * 20 > ran as usize, "{} of {ran}", ended.get());
}

// A034, B5
#[test]
fn a_stream_that_never_ends_is_given_up_within_bounds() {
    let inputs = (0_usize..5, any::<Index>(), prop::collection::vec(change(), 0..3), 0_usize..3);
    Generated::Streams.check(40, &inputs, |(which, at, changes, how)| {
        let Recorded { name, read, .. } = recorded().swap_remove(which);
        let list = events(&changed(which, &changes));
        if list.is_empty() {
            return Ok(());
        }
        let one = &list[at.index(list.len())];
        // One event for ever; one that never ends; a call's arguments for ever.
        let unit = match how {
            0 => one.clone(),
            1 => one.iter().copied().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect(),
            _ => list[list.len() / 2].clone(),
        };
        let block = unit.repeat((256 << 10) / unit.len() + 1);
        // More than anything that is kept: 40 MiB, then silence.
        let count = (40 << 20) / block.len();
        let mut pieces: Vec<Piece> = list.iter().cloned().map(Piece::Bytes).collect();
        pieces.truncate(list.len() / 2);
        pieces.extend((0..count).map(|_| Piece::Bytes(block.clone())));
        pieces.push(Piece::Silence);
        let (deltas, error) = played(read, pieces);
        prop_assert!(size(&deltas) <= 40 << 20, "{}: {} bytes", name, size(&deltas));
        let ends = deltas.iter().filter(|delta| is_end(delta)).count();
        prop_assert_eq!(ends, usize::from(error.is_none()), "{}", name);
        if let Some(class) = error {
            let typed = matches!(
                class,
                ModelErrorClass::Protocol
                    | ModelErrorClass::IdleTimeout
                    | ModelErrorClass::Overloaded
                    | ModelErrorClass::Server
                    | ModelErrorClass::Truncated
                    | ModelErrorClass::Empty
                    | ModelErrorClass::MalformedCall
            );
            prop_assert!(typed, "{}: {:?}", name, class);
        }
        Ok(())
    });
}
