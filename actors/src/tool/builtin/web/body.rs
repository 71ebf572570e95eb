//! An answer's body as text, by its type and its charset.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use rookery_messages::tool::head;

/// Where a page may name its charset (HTML, section 4.2.5.4).
const SNIFFED_BYTES: usize = 1_024;

/// What a body is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Body {
    /// A page.
    Html(String),
    /// Other text.
    Text(String),
    /// Nothing a model can read: what it says of itself.
    Binary(String),
}

/// Reads a body. `cut` says that it goes on.
pub(super) fn read(headers: &HeaderMap, bytes: &[u8], cut: bool) -> Body {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(encoding) = header(CONTENT_ENCODING).filter(|e| !e.eq_ignore_ascii_case("identity"))
    {
        return Body::Binary(format!("encoded as {}", head(encoding, 40)));
    }
    let kind = header(CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let html = match essence.as_str() {
        "text/html" | "application/xhtml+xml" => true,
        "" => looks_like_html(bytes),
        _ => false,
    };
    let textual = html
        || essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || matches!(
            essence.as_str(),
            "application/json"
                | "application/xml"
                | "application/javascript"
                | "application/x-ndjson"
                | "application/yaml"
                | "application/toml"
                | "application/x-www-form-urlencoded"
        );
    if !textual && (!essence.is_empty() || bytes.contains(&0)) {
        return Body::Binary(if essence.is_empty() {
            "unnamed binary data".into()
        } else {
            essence
        });
    }
    let text = decoded(bytes, charset(kind), html, cut);
    if html { Body::Html(text) } else { Body::Text(text) }
}

fn looks_like_html(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).to_ascii_lowercase();
    let start = start.trim_start();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// The charset a content type names.
fn charset(content_type: &str) -> Option<&'static Encoding> {
    let named = content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then_some(value)
    })?;
    Encoding::for_label(named.trim().trim_matches('"').as_bytes())
}

/// The charset a page names within itself.
fn charset_of_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let (_, after) = start.split_once("charset=")?;
    let name = after.trim_start_matches(['"', '\'', ' ']);
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_')));
    Encoding::for_label(&name.as_bytes()[..end.unwrap_or(name.len())])
}

fn decoded(bytes: &[u8], named: Option<&'static Encoding>, html: bool, cut: bool) -> String {
    let named = named.or_else(|| if html { charset_of_page(bytes) } else { None });
    let fallback = || match std::str::from_utf8(bytes) {
        Ok(_) => UTF_8,
        // Only the cut itself is not UTF-8.
        Err(error) if cut && error.error_len().is_none() => UTF_8,
        Err(_) => WINDOWS_1252,
    };
    // A byte order mark beats both.
    let (text, _, _) = named.unwrap_or_else(fallback).decode(bytes);
    let text = text.into_owned();
    if cut { text.trim_end_matches('\u{fffd}').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(kind: &str, bytes: &[u8]) -> Body {
        let mut headers = HeaderMap::new();
        if !kind.is_empty() {
            headers.insert(CONTENT_TYPE, kind.parse().unwrap());
        }
        read(&headers, bytes, false)
    }

    #[test]
    fn the_charset_is_taken_from_header_page_or_bytes() {
        let text = |text: &str| Body::Text(text.to_owned());
        let html = |text: &str| Body::Html(text.to_owned());
        assert_eq!(read_as("text/plain", "é".as_bytes()), text("é"));
        assert_eq!(read_as("text/plain; charset=ISO-8859-1", b"\xe9"), text("é"));
        assert_eq!(read_as("text/plain; Charset=\"utf-8\"", "é".as_bytes()), text("é"));
        assert_eq!(read_as("text/plain", b"\xe9t\xe9"), text("été"));
        assert_eq!(read_as("text/plain", b"\xff\xfeh\0i\0"), text("hi"));
        let page = b"<meta charset='shift_jis'>\x93\xfa\x96\x7b";
        assert_eq!(read_as("text/html", page), html("<meta charset='shift_jis'>日本"));
        assert_eq!(read_as("", b" <!DOCTYPE HTML><p>x"), html(" <!DOCTYPE HTML><p>x"));
        assert_eq!(read_as("application/problem+json", b"{}"), text("{}"));
        assert_eq!(read_as("text/plain; charset=nonsense", b"x"), text("x"));
    }

    #[test]
    fn what_is_no_text_is_named_and_not_shown() {
        for (kind, bytes) in
            [("image/png", b"\x89PNG".as_slice()), ("application/octet-stream", b"x"), ("", b"a\0")]
        {
            assert!(matches!(read_as(kind, bytes), Body::Binary(_)), "{kind}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "text/html".parse().unwrap());
        headers.insert(CONTENT_ENCODING, "gzip".parse().unwrap());
        assert_eq!(read(&headers, b"x", false), Body::Binary("encoded as gzip".into()));
    }

    #[test]
    fn a_cut_body_ends_at_a_whole_character() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "text/plain".parse().unwrap());
        let cut = &"aé".as_bytes()[..2];
        assert_eq!(read(&headers, cut, true), Body::Text("a".into()));
    }
}
