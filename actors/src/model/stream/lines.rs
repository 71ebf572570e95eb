//! The line machine of newline-delimited JSON: one event a line, with a size cap.

use crate::model::sse::{MAX_LINE_BYTES, SseEvent};

/// Why a stream can't be read on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("a line longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
    #[error("a line that is not UTF-8 at byte {offset}")]
    InvalidUtf8 { offset: usize },
}

/// The machine. How the bytes are split makes no difference; blank lines say nothing.
#[derive(Debug, Default)]
pub(super) struct LineParser {
    line: Vec<u8>,
    failed: Option<LineError>,
}

impl LineParser {
    /// Takes the next bytes and appends the lines they complete to `out`. After an error every further
    /// call gives the same error.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), LineError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let read = self.read(bytes, out);
        if let Err(error) = &read {
            self.failed = Some(error.clone());
            self.line = Vec::new();
        }
        read
    }

    /// Whether the stream, if it ends now, ends inside a line that is not blank.
    pub(super) fn is_unfinished(&self) -> bool {
        !self.line.trim_ascii().is_empty()
    }

    fn read(&mut self, bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), LineError> {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            self.keep(&rest[..at])?;
            rest = &rest[at + 1..];
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            let line = std::str::from_utf8(line)
                .map_err(|error| LineError::InvalidUtf8 { offset: error.valid_up_to() })?;
            if !line.trim().is_empty() {
                out.push(SseEvent { event: None, data: line.to_owned() });
            }
        }
        self.keep(rest)
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), LineError> {
        if self.line.len() + part.len() > MAX_LINE_BYTES {
            return Err(LineError::TooLong);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&[u8]]) -> (Vec<String>, Result<(), LineError>, bool) {
        let (mut parser, mut out, mut end) = (LineParser::default(), Vec::new(), Ok(()));
        for part in parts {
            end = parser.push(part, &mut out);
        }
        (out.into_iter().map(|event| event.data).collect(), end, parser.is_unfinished())
    }

    // A039
    #[test]
    fn lines_are_read_as_they_were_written_however_they_are_split() {
        let text = "{\"a\":\"ü\"}\r\n\n{\"b\":1}\n{\"c\"".as_bytes();
        for at in 0..=text.len() {
            let got = lines(&[&text[..at], &text[at..]]);
            assert_eq!(
                got,
                (vec!["{\"a\":\"ü\"}".to_owned(), "{\"b\":1}".to_owned()], Ok(()), true)
            );
        }
    }

    // V-L20
    #[test]
    fn what_is_no_text_or_too_long_is_an_error_from_then_on() {
        assert_eq!(lines(&[b"a\n\xff\n", b"b\n"]).1, Err(LineError::InvalidUtf8 { offset: 0 }));
        assert_eq!(lines(&[&vec![b'x'; MAX_LINE_BYTES + 1], b"\n"]).1, Err(LineError::TooLong));
    }
}
