//! The line machine of server-sent events: bytes in, events out, no I/O.
//!
//! Follows the HTML standard, section 9.2.6 ("Interpreting an event stream"), with two differences that
//! a client of untrusted servers needs: lines and events have a size cap, and bytes that are not UTF-8
//! are an error instead of replacement characters. Lines are decoded whole, so a character that two
//! network chunks share is read as it was written (A039). Cost: one pass over the bytes; a line is
//! copied once if a chunk border cuts it.

/// Most bytes a line may have.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// Most bytes of data an event may have.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One dispatched event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SseEvent {
    /// The last `event:` field, if there was one.
    pub event: Option<String>,
    /// The `data:` fields, joined by line feeds.
    pub data: String,
}

/// Why a stream can't be read on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SseError {
    /// A line over its cap.
    #[error("a line of the event stream is longer than {MAX_LINE_BYTES} bytes")]
    LineTooLong,
    /// An event over its cap.
    #[error("an event of the stream is longer than {MAX_EVENT_BYTES} bytes")]
    EventTooLong,
    /// Bytes that are not UTF-8.
    #[error("a line of the event stream is not UTF-8 at byte {offset}")]
    InvalidUtf8 {
        /// Where in the line.
        offset: usize,
    },
}

/// The machine. Feed it with [`SseParser::push`]; how the bytes are split makes no difference.
#[derive(Debug, Default)]
pub struct SseParser {
    line: Vec<u8>,
    /// The last chunk ended with CR: a LF at the start of the next one belongs to it (A037).
    skip_lf: bool,
    /// A line was read: a byte order mark can't follow.
    begun: bool,
    event: Option<String>,
    data: Option<String>,
    comments: u64,
    failed: Option<SseError>,
}

impl SseParser {
    /// Takes the next bytes and appends the events they complete to `out`.
    ///
    /// After an error every further call gives the same error; events before the fault stay in `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), SseError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let read = self.read(bytes, out);
        if let Err(error) = &read {
            self.failed = Some(error.clone());
            self.line = Vec::new();
            self.data = None;
        }
        read
    }

    /// How many comments came. They show that the transport lives, not that there is progress (A038).
    pub fn comments(&self) -> u64 {
        self.comments
    }

    /// Whether the stream, if it ends now, ends inside an event. That event is not dispatched.
    pub fn is_unfinished(&self) -> bool {
        let partial_line = !self.line.is_empty() && !self.line.starts_with(b":");
        partial_line || self.data.is_some() || self.event.is_some()
    }

    fn read(&mut self, bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let mut rest = bytes;
        if self.skip_lf && !rest.is_empty() {
            self.skip_lf = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            if self.line.is_empty() {
                if at > MAX_LINE_BYTES {
                    return Err(SseError::LineTooLong);
                }
                self.end_line(&rest[..at], out)?;
            } else {
                self.keep(&rest[..at])?;
                let line = std::mem::take(&mut self.line);
                self.end_line(&line, out)?;
            }
            let was_cr = rest[at] == b'\r';
            rest = &rest[at + 1..];
            if was_cr {
                self.skip_lf = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
        }
        self.keep(rest)
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), SseError> {
        if self.line.len() + part.len() > MAX_LINE_BYTES {
            return Err(SseError::LineTooLong);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self, line: &[u8], out: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let line = if self.begun { line } else { line.strip_prefix(BOM).unwrap_or(line) };
        self.begun = true;
        if line.is_empty() {
            let event = self.event.take();
            if let Some(data) = self.data.take() {
                out.push(SseEvent { event, data });
            }
            return Ok(());
        }
        let line = std::str::from_utf8(line)
            .map_err(|error| SseError::InvalidUtf8 { offset: error.valid_up_to() })?;
        let (field, value) = match line.split_once(':') {
            Some((field, value)) => (field, value.strip_prefix(' ').unwrap_or(value)),
            None => (line, ""),
        };
        match field {
            "" => self.comments = self.comments.saturating_add(1),
            "data" => self.add_data(value)?,
            "event" => self.event = (!value.is_empty()).then(|| value.to_owned()),
            // `id` and `retry` serve reconnection, which a generation has none of; others are ignored.
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, value: &str) -> Result<(), SseError> {
        let had = self.data.as_ref().map_or(0, |data| data.len() + 1);
        if had + value.len() > MAX_EVENT_BYTES {
            return Err(SseError::EventTooLong);
        }
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
