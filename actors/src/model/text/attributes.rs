//! Attributes: of an opening tag, or as pairs in a body.

/// A tag's attributes; the first value of a key counts.
pub(super) type Attributes = Vec<(String, String)>;

/// The end of an opening tag, found byte by byte.
#[derive(Debug)]
pub(super) struct TagEnd {
    at: usize,
    quote: Option<u8>,
    /// Right after a `=`: a quote opens a value here only.
    value: bool,
}

impl TagEnd {
    /// From the end of the tag's name on.
    pub(super) fn new(at: usize) -> Self {
        Self { at, quote: None, value: false }
    }

    /// Some(end) behind the `>`; `Err` if this is no tag.
    pub(super) fn scan(&mut self, text: &str) -> Result<Option<usize>, ()> {
        let bytes = text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            self.at += 1;
            match (self.quote, byte) {
                (Some(quote), byte) if quote == byte => self.quote = None,
                (Some(_), _) => {}
                (None, b'>') => return Ok(Some(self.at)),
                (None, b'<') => return Err(()),
                (None, b'"' | b'\'') if self.value => {
                    self.quote = Some(byte);
                    self.value = false;
                }
                (None, b'=') => self.value = true,
                (None, b' ' | b'\t' | b'\r' | b'\n') => {}
                (None, _) => self.value = false,
            }
        }
        Ok(None)
    }
}

pub(super) fn attributes(text: &str) -> Attributes {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(separates);
    while let Some(equals) = rest.find('=') {
        let key = rest[..equals].trim();
        let Some(key) = key.rsplit(|c: char| c.is_whitespace() || c == ',').next() else { break };
        let value = rest[equals + 1..].trim_start();
        let (text, after) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => match value[1..].split_once(quote) {
                Some((text, after)) => (text, after),
                None => (&value[1..], ""),
            },
            _ => {
                let end = value.find(separates).unwrap_or(value.len());
                value.split_at(end)
            }
        };
        found.push((key.to_owned(), text.to_owned()));
        rest = after.trim_start_matches(separates);
    }
    found
}

fn separates(c: char) -> bool {
    c.is_whitespace() || c == ','
}
