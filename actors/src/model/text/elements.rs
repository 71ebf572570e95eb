//! Sibling elements in a call's body: a lenient reading of the little XML that models write.

use super::attributes::{Attributes, attributes};

/// One element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Element<'a> {
    pub(super) name: &'a str,
    /// `<parameter=key>`: the key.
    pub(super) value: Option<&'a str>,
    pub(super) attributes: Attributes,
    pub(super) inner: &'a str,
}

impl Element<'_> {
    /// The name without namespace, in lower case.
    pub(super) fn local(&self) -> String {
        self.name.rsplit(':').next().unwrap_or(self.name).to_ascii_lowercase()
    }

    /// The text inside, without the line breaks around it.
    pub(super) fn text(&self) -> &str {
        let text = self.inner.strip_prefix("\r\n").or_else(|| self.inner.strip_prefix('\n'));
        let text = text.unwrap_or(self.inner);
        let end = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text));
        end.unwrap_or(text)
    }
}

/// The elements a body consists of; none if it is anything else. The last one may be unclosed if it holds
/// elements.
pub(super) fn read(body: &str) -> Option<Vec<Element<'_>>> {
    let mut found = Vec::new();
    let mut rest = body.trim_start();
    while !rest.is_empty() {
        if rest.starts_with("</") {
            // A stray closing tag.
            let (_, after) = rest.split_once('>')?;
            rest = after.trim_start();
            continue;
        }
        let inside = rest.strip_prefix('<')?;
        let length = inside.find(|c: char| !c.is_ascii_alphanumeric() && !"_-.:".contains(c))?;
        if length == 0 {
            return None;
        }
        let (name, after) = inside.split_at(length);
        let (head, body) = split_tag(after)?;
        let closed = head.ends_with('/');
        let head = head.trim_end_matches('/').trim();
        let value = head.strip_prefix('=').map(|value| value.trim().trim_matches(['"', '\'']));
        let attributes = if value.is_some() { Vec::new() } else { attributes(head) };
        let split = if closed { Some(("", body)) } else { split_close(body, name) };
        let (inner, after) = match split {
            Some(split) => split,
            // An element around others may go unclosed; where a text ends would be a guess.
            None if body.trim_start().starts_with('<') => (body, ""),
            None => return None,
        };
        found.push(Element { name, value, attributes, inner });
        rest = after.trim_start();
    }
    Some(found)
}

/// At the `>` that ends an opening tag, outside of quotes.
fn split_tag(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), byte) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'>') => return Some((&text[..at], &text[at + 1..])),
            (None, b'<') => return None,
            (None, _) => {}
        }
    }
    None
}

/// At the first closing tag of this name.
fn split_close<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    for (at, _) in text.match_indices("</") {
        let tag = &text[at + 2..];
        let Some(found) = tag.get(..name.len()) else { continue };
        if found.eq_ignore_ascii_case(name)
            && let Some(after) = tag[name.len()..].trim_start().strip_prefix('>')
        {
            return Some((&text[..at], after));
        }
    }
    None
}
