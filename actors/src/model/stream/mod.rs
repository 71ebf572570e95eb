//! Drives one response of any provider: bytes from the network through the line machine and the
//! provider's reader, with the timers of a stream. Owns the body; whatever ends the response drops it,
//! and with it the connection (V-L19, A111).

mod lines;
pub(super) mod reading;

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use rookery_messages::model::{ModelDelta, ModelError, ModelErrorClass, ModelStream};
use rookery_messages::tool::head;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use self::lines::LineParser;
pub(super) use self::reading::{
    Bounds, Framing, MAX_CALLS, Phase, Reading, nothing, object, silent, too_many_calls, truncated,
    whole_arguments,
};
use super::error::{ErrorObject, Upstream, error_field};
use super::sse::{SseEvent, SseParser};

/// How long a finished response is given for its usage or `[DONE]` (V-L17).
const LINGER: Duration = Duration::from_millis(250);
/// How long a response that has all is given to end its body, so that the connection can be used again.
const DRAIN: Duration = Duration::from_millis(20);
/// Most bytes of a body that is one JSON document.
const MAX_JSON_BYTES: usize = 4 << 20;
/// What is read of a body that is neither a stream nor JSON, for the error's text.
const MAX_EXCERPT_BYTES: usize = 4 << 10;

/// What a body turned out to be, by its first bytes: servers often mislabel theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Body {
    /// Not enough came to tell.
    Unknown,
    Stream,
    /// One JSON document: an error, or a completion that was not streamed.
    Json,
    /// HTML or the like.
    Foreign,
}

struct Driver<S, R> {
    /// None once the response is over.
    bytes: Option<Pin<Box<S>>>,
    upstream: Upstream,
    /// The answer calls itself an event stream.
    declared_sse: bool,
    body: Body,
    /// Bytes of a body that is not, or not yet, read as a stream.
    kept: Vec<u8>,
    frames: Frames,
    events: Vec<SseEvent>,
    /// None once its end was taken.
    reader: Option<R>,
    out: VecDeque<ModelDelta>,
    /// Comes after what is in `out`.
    failure: Option<ModelError>,
    idle: Duration,
    /// How long was waited since the last progress. Only waiting counts: a slow reader is not an idle
    /// provider.
    waited: Duration,
    /// Bytes came since the last progress.
    pinged: bool,
    /// When a finished response ends, whatever comes.
    until: Option<Instant>,
}

/// What cuts the bytes into events.
enum Frames {
    Sse(SseParser),
    Lines(LineParser),
}

impl Frames {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), String> {
        match self {
            Self::Sse(parser) => parser.push(bytes, out).map_err(|error| error.to_string()),
            Self::Lines(parser) => parser.push(bytes, out).map_err(|error| error.to_string()),
        }
    }

    fn is_unfinished(&self) -> bool {
        match self {
            Self::Sse(parser) => parser.is_unfinished(),
            Self::Lines(parser) => parser.is_unfinished(),
        }
    }
}

/// The deltas of a response whose body is `bytes`. Fails after `idle` without progress (A023).
pub(super) fn run<R: Reading>(
    bytes: impl Stream<Item = Result<Bytes, ModelError>> + Send + 'static,
    reader: R,
    upstream: Upstream,
    declared_sse: bool,
    idle: Duration,
) -> ModelStream {
    let driver = Driver {
        bytes: Some(Box::pin(bytes)),
        reader: Some(reader),
        upstream,
        declared_sse,
        body: Body::Unknown,
        kept: Vec::new(),
        frames: match R::FRAMING {
            Framing::Sse => Frames::Sse(SseParser::default()),
            Framing::Lines => Frames::Lines(LineParser::default()),
        },
        events: Vec::new(),
        out: VecDeque::new(),
        failure: None,
        idle,
        waited: Duration::ZERO,
        pinged: false,
        until: None,
    };
    stream::unfold(driver, Driver::next).boxed()
}

impl<S: Stream<Item = Result<Bytes, ModelError>> + Send, R: Reading> Driver<S, R> {
    async fn next(mut self) -> Option<(Result<ModelDelta, ModelError>, Self)> {
        loop {
            if let Some(delta) = self.out.pop_front() {
                return Some((Ok(delta), self));
            }
            if let Some(error) = self.failure.take() {
                return Some((Err(error), self));
            }
            self.bytes.as_ref()?;
            if let Err(error) = self.advance().await {
                // Before the error is told, so that the provider stops at once (A111).
                self.bytes = None;
                // What it has cost so far is billed all the same.
                let spent = self.reader.as_mut().and_then(Reading::untold_usage);
                self.out.extend(spent.map(ModelDelta::Usage));
                self.failure = Some(error);
            }
        }
    }

    async fn advance(&mut self) -> Result<(), ModelError> {
        let Some(bytes) = &mut self.bytes else {
            return Ok(());
        };
        let from = Instant::now();
        let limit = match self.until {
            Some(until) => until.saturating_duration_since(from),
            None => self.idle.saturating_sub(self.waited),
        };
        let came = timeout(limit, bytes.next()).await;
        self.waited += from.elapsed();
        match came {
            Ok(Some(Ok(chunk))) => {
                self.pinged = true;
                self.feed(&chunk)
            }
            // The response is whole; how its connection ends is no matter.
            Ok(Some(Err(_))) if self.is_finished() => self.complete(),
            Ok(Some(Err(error))) => Err(error),
            Ok(None) => self.body_ended(),
            Err(_) if self.until.is_some() => self.body_ended(),
            Err(_) => Err(self.idle_error()),
        }
    }

    fn feed(&mut self, chunk: &[u8]) -> Result<(), ModelError> {
        if self.body == Body::Stream {
            return self.feed_stream(chunk);
        }
        self.kept.extend_from_slice(chunk);
        if self.body == Body::Unknown {
            self.body = kind_of(&self.kept, R::FRAMING, self.declared_sse);
        }
        match self.body {
            Body::Unknown => Ok(()),
            Body::Stream => {
                let kept = std::mem::take(&mut self.kept);
                self.feed_stream(&kept)
            }
            Body::Json => {
                self.progress();
                if self.kept.len() > MAX_JSON_BYTES {
                    let what = format!("sent a document longer than {MAX_JSON_BYTES} bytes");
                    return Err(self.upstream.error(ModelErrorClass::Protocol, &what));
                }
                Ok(())
            }
            Body::Foreign if self.kept.len() >= MAX_EXCERPT_BYTES => self.body_ended(),
            Body::Foreign => {
                self.until.get_or_insert(Instant::now() + LINGER);
                Ok(())
            }
        }
    }

    fn feed_stream(&mut self, chunk: &[u8]) -> Result<(), ModelError> {
        let read = self.frames.push(chunk, &mut self.events);
        let mut progress = false;
        if let Some(reader) = &mut self.reader {
            for event in self.events.drain(..) {
                progress |= reader.push(event.event.as_deref(), &event.data, &mut self.out)?;
            }
        }
        if progress {
            self.progress();
        }
        if let Err(error) = read {
            if self.is_finished() {
                return self.complete();
            }
            return Err(self.upstream.error(ModelErrorClass::Protocol, &format!("sent {error}")));
        }
        let wait = match self.phase() {
            Phase::Open => return Ok(()),
            Phase::Finished { with_usage: false } => LINGER,
            Phase::Finished { with_usage: true } | Phase::Done => DRAIN,
        };
        let until = Instant::now() + wait;
        self.until = Some(self.until.map_or(until, |earlier| earlier.min(until)));
        Ok(())
    }

    fn progress(&mut self) {
        self.waited = Duration::ZERO;
        self.pinged = false;
    }

    fn phase(&self) -> Phase {
        self.reader.as_ref().map_or(Phase::Done, Reading::phase)
    }

    fn is_finished(&self) -> bool {
        self.phase() != Phase::Open
    }

    /// No more bytes are awaited.
    fn body_ended(&mut self) -> Result<(), ModelError> {
        match self.body {
            Body::Unknown if self.kept.iter().all(u8::is_ascii_whitespace) => self.complete(),
            Body::Unknown | Body::Foreign => {
                Err(self.foreign("answered with something else than an event stream"))
            }
            Body::Stream => {
                if self.phase() == Phase::Open && self.frames.is_unfinished() {
                    return Err(self.upstream.error(
                        ModelErrorClass::Truncated,
                        "ended its stream inside an event; nothing it asked for was run",
                    ));
                }
                self.complete()
            }
            Body::Json => self.read_json(),
        }
    }

    fn read_json(&mut self) -> Result<(), ModelError> {
        let Ok(document) = serde_json::from_slice::<Value>(trim_bom(&self.kept)) else {
            return Err(self.foreign("answered with neither an event stream nor a JSON document"));
        };
        // Some wrap it in a list.
        let first = document.as_array().and_then(|items| items.first()).unwrap_or(&document);
        let own = first.get("type").and_then(Value::as_str) == Some("error");
        if let Some(error) = error_field(first).or_else(|| own.then_some(first)) {
            return Err(self.upstream.object(&ErrorObject::from_value(error)));
        }
        let known = match &mut self.reader {
            Some(reader) => reader.document(&document, &mut self.out)?,
            None => false,
        };
        if !known {
            return Err(
                self.foreign("answered with a document that is no answer to what was asked")
            );
        }
        self.complete()
    }

    fn complete(&mut self) -> Result<(), ModelError> {
        self.bytes = None;
        match self.reader.take() {
            Some(mut reader) => {
                let ended = reader.end();
                self.out.extend(reader.untold_usage().map(ModelDelta::Usage));
                self.out.push_back(ended?);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn foreign(&self, what: &str) -> ModelError {
        let text = String::from_utf8_lossy(&self.kept);
        self.upstream.quoting(ModelErrorClass::Protocol, what, head(&text, MAX_EXCERPT_BYTES))
    }

    fn idle_error(&self) -> ModelError {
        let seconds = self.idle.as_secs_f64();
        let what = if self.pinged {
            format!("sent nothing but keep-alives for {seconds} s")
        } else {
            format!("sent nothing for {seconds} s")
        };
        self.upstream.error(ModelErrorClass::IdleTimeout, &what)
    }
}

const BOM: &[u8] = b"\xEF\xBB\xBF";

fn trim_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BOM).unwrap_or(bytes)
}

/// Tells a body's kind by its first bytes.
fn kind_of(bytes: &[u8], framing: Framing, declared_sse: bool) -> Body {
    if bytes.len() < BOM.len() && BOM.starts_with(bytes) {
        return Body::Unknown;
    }
    let start = trim_bom(bytes).trim_ascii_start();
    match start.first() {
        // Blank lines are allowed in an event stream; more of them than this say nothing new.
        None if bytes.len() > MAX_EXCERPT_BYTES => Body::Stream,
        None => Body::Unknown,
        Some(b'{') if framing == Framing::Lines => Body::Stream,
        Some(b'{' | b'[') => Body::Json,
        Some(_) if framing == Framing::Lines => Body::Foreign,
        Some(b'<') => Body::Foreign,
        Some(_) if declared_sse => Body::Stream,
        Some(b':') => Body::Stream,
        Some(_) => {
            let word = start.split(|byte| matches!(byte, b':' | b'\n' | b'\r')).next();
            let word = word.unwrap_or(start);
            let fields: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];
            if word.len() < start.len() {
                if fields.contains(&word) { Body::Stream } else { Body::Foreign }
            } else if fields.iter().any(|field| field.starts_with(word)) {
                Body::Unknown
            } else {
                Body::Foreign
            }
        }
    }
}

#[cfg(test)]
mod tests;
