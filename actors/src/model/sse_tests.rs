use proptest::prelude::*;

use super::*;

fn event(data: &str) -> SseEvent {
    SseEvent { event: None, data: data.to_owned() }
}

fn read_chunks(chunks: &[&[u8]]) -> (Vec<SseEvent>, Result<(), SseError>, bool) {
    let mut parser = SseParser::default();
    let mut out = Vec::new();
    for chunk in chunks {
        if let Err(error) = parser.push(chunk, &mut out) {
            return (out, Err(error), parser.is_unfinished());
        }
    }
    (out, Ok(()), parser.is_unfinished())
}

fn read(stream: &[u8]) -> (Vec<SseEvent>, Result<(), SseError>, bool) {
    read_chunks(&[stream])
}

const RECORDED: &[&[u8]] = &[
    b"data: {\"a\":1}\n\ndata: {\"a\":2}\n\n",
    b"data: {\"a\":1}\r\n\r\ndata: {\"a\":2}\r\n\r\n",
    b"data: {\"a\":1}\r\rdata: {\"a\":2}\r\r",
    b"\xEF\xBB\xBFevent: error\r\ndata: x\r\ndata: y\r\n\r\n: ping\r\n\r\ndata:z\r\n\r\n",
    "data: {\"c\":\"Ö🚀\"}\n\n: Ü\n\ndata: [DONE]\n\n".as_bytes(),
    b": ping\n\n: OPENROUTER PROCESSING\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n:\n\ndata: [DONE]\n\n",
    b"id: 7\nretry: 10\nunknown\nevent\ndata\ndata:\n\ndata: cut",
    b"data: good\n\ndata: bad \xFF byte\n\ndata: never\n\n",
];

// A037
#[test]
fn every_line_ending_gives_the_same_events() {
    let want = vec![event("{\"a\":1}"), event("{\"a\":2}")];
    for stream in &RECORDED[..3] {
        assert_eq!(read(stream), (want.clone(), Ok(()), false));
    }
}

// A037
#[test]
fn a_carriage_return_at_a_chunk_border_is_one_line_end_with_the_line_feed_after_it() {
    let chunks: [&[u8]; 3] = [b"data: 1\r", b"\n\r", b"\ndata: 2\r\n\r\n"];
    assert_eq!(read_chunks(&chunks), (vec![event("1"), event("2")], Ok(()), false));
}

// A038
#[test]
fn comments_are_counted_and_make_no_event() {
    let mut parser = SseParser::default();
    let mut out = Vec::new();
    parser.push(RECORDED[5], &mut out).unwrap();
    assert_eq!(parser.comments(), 3);
    assert_eq!(out.len(), 2);
    assert_eq!(out[1], event("[DONE]"));
    assert!(!parser.is_unfinished());
}

// A039
#[test]
fn a_character_cut_by_a_chunk_border_is_read_whole() {
    let stream = "data: {\"c\":\"Ö🚀\"}\n\n".as_bytes();
    for at in 0..=stream.len() {
        let (head, tail) = stream.split_at(at);
        let (events, end, _) = read_chunks(&[head, tail]);
        assert_eq!((events, end), (vec![event("{\"c\":\"Ö🚀\"}")], Ok(())), "split at {at}");
    }
}

#[test]
fn fields_follow_the_standard() {
    let (events, end, unfinished) = read(RECORDED[6]);
    assert_eq!(events, vec![event("\n")], "two empty data fields, joined");
    assert_eq!(end, Ok(()));
    assert!(unfinished, "the stream ended inside an event");
    let (events, _, _) = read(RECORDED[3]);
    assert_eq!(
        events,
        vec![SseEvent { event: Some("error".to_owned()), data: "x\ny".to_owned() }, event("z")]
    );
}

// V-L20
#[test]
fn invalid_utf8_is_a_typed_error_and_stays_one() {
    let mut parser = SseParser::default();
    let mut out = Vec::new();
    let want = Err(SseError::InvalidUtf8 { offset: 10 });
    assert_eq!(parser.push(RECORDED[7], &mut out), want);
    assert_eq!(out, vec![event("good")]);
    assert_eq!(parser.push(b"data: more\n\n", &mut out), want);
    assert_eq!(out.len(), 1);
}

// V-L20
#[test]
fn a_line_and_an_event_over_their_caps_are_typed_errors() {
    let endless = vec![b'a'; MAX_LINE_BYTES + 1];
    assert_eq!(read(&endless).1, Err(SseError::LineTooLong));
    let mut ended = endless;
    ended.push(b'\n');
    assert_eq!(read(&ended).1, Err(SseError::LineTooLong));
    let half = format!("data:{}\n", "b".repeat(MAX_EVENT_BYTES / 2));
    let (events, end, _) = read(half.repeat(2).as_bytes());
    assert_eq!((events.len(), end), (0, Err(SseError::EventTooLong)), "two halves and a line feed");
    let fits = format!("data:{}\n\n", "c".repeat(MAX_LINE_BYTES - 5));
    assert_eq!(read(fits.as_bytes()).0.len(), 1);
}

// A037, A038, A039, V-L20
#[test]
fn every_pair_of_splits_of_every_recorded_stream_reads_the_same() {
    for stream in RECORDED {
        let whole = read(stream);
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let chunks = [&stream[..first], &stream[first..second], &stream[second..]];
                assert_eq!(read_chunks(&chunks), whole, "split at {first} and {second}");
            }
        }
    }
}

proptest! {
    // A037, A039, V-L20
    #[test]
    fn any_bytes_in_any_split_read_the_same(
        bytes in prop::collection::vec(
            prop_oneof![
                Just(b'\n'), Just(b'\r'), Just(b':'), Just(b' '), Just(b'd'), any::<u8>(),
            ],
            0..200,
        ),
        lines in prop::collection::vec("(data|event|id|)(:| |: )[a-zÖ🚀]{0,6}(\n|\r|\r\n)?(\n|\r\n|\r)?", 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut stream: Vec<u8> = lines.concat().into_bytes();
        stream.extend(bytes);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        at.extend([0, stream.len()]);
        at.sort_unstable();
        let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read_chunks(&chunks), read(&stream));
    }
}
