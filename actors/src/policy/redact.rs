//! Secrets taken out of what is shown: by the name they stand under, by the look of the text around them,
//! and by what is configured (I12, T25).

mod stream;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use rookery_messages::tool::head;
use serde_json::{Map, Value};

use super::display::visible;

pub use stream::ScrubStream;
pub use text::clean_text;

/// What stands in a secret's place.
pub const REDACTED: &str = "[redacted]";
/// Longest string shown of one value.
const MAX_SHOWN_BYTES: usize = 65_536;
/// Longest value in a summary, in bytes.
const MAX_SUMMARY_VALUE_BYTES: usize = 200;
/// How deep a value is shown; deeper is left out.
const MAX_DEPTH: usize = 32;
/// A shorter secret is in too many innocent words to be looked for.
const MIN_SECRET_BYTES: usize = 4;

/// Whether a key names a secret, in any case and with any separator: `api_key`, `X-Api-Key`,
/// `dbPassword`, `AWS_SECRET_ACCESS_KEY`. Counts such as `max_tokens` are none.
pub fn is_secret_key(key: &str) -> bool {
    let words = words(key);
    let joined = words.concat();
    words.iter().any(|word| {
        matches!(
            word.as_str(),
            "password"
                | "passwd"
                | "passphrase"
                | "pwd"
                | "secret"
                | "secrets"
                | "token"
                | "authorization"
                | "cookie"
                | "cookies"
                | "credential"
                | "credentials"
                | "bearer"
                | "signature"
                | "jwt"
        )
    }) || ["password", "passwd", "secret", "token", "apikey", "authtoken"]
        .iter()
        .any(|end| joined.ends_with(end))
        || ["apikey", "accesskey", "privatekey", "signingkey", "encryptionkey", "sessionid"]
            .iter()
            .any(|part| joined.contains(part))
}

/// The words of a key: split at what is no letter or digit, and where a capital follows a small letter.
fn words(key: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for c in key.chars() {
        let breaks = !c.is_alphanumeric() || (c.is_uppercase() && small);
        if breaks && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        small = c.is_lowercase() || c.is_numeric();
    }
    words
}

/// Knows the configured secrets and cleans what is shown of them. Its `Debug` shows none.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Every form a secret may be met in, the longest first.
    needles: Vec<String>,
    /// Finds whether a text holds any of them, in one pass: nearly every text holds none.
    any: Option<AhoCorasick>,
    /// The first bytes of each, sorted: tells quickly that a text's end begins no secret.
    heads: Vec<[u8; MIN_SECRET_BYTES]>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("needles", &self.needles.len()).finish()
    }
}

impl Redactor {
    /// Looks for these secrets: as they are, percent-encoded, as in JSON, and in base64, also in the middle
    /// of a longer encoded text. Secrets under four bytes are not looked for.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut needles: Vec<String> = secrets
            .into_iter()
            .map(str::trim)
            .filter(|secret| secret.len() >= MIN_SECRET_BYTES)
            .flat_map(forms)
            .filter(|form| form.len() >= MIN_SECRET_BYTES)
            .collect();
        needles.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        needles.dedup();
        let mut heads: Vec<_> = needles
            .iter()
            .filter_map(|needle| needle.as_bytes().first_chunk::<MIN_SECRET_BYTES>().copied())
            .collect();
        heads.sort_unstable();
        heads.dedup();
        // None only for more than memory holds; then each text is searched for each needle.
        let any = AhoCorasick::new(&needles).ok().filter(|_| !needles.is_empty());
        Self { needles, any, heads }
    }

    /// Whether a text holds a configured secret.
    pub fn holds_any(&self, text: &str) -> bool {
        match &self.any {
            Some(any) => any.is_match(text),
            None => self.needles.iter().any(|needle| text.contains(needle)),
        }
    }

    /// `text` without the configured secrets. Everything else stays as it is.
    pub fn scrub(&self, text: &str) -> String {
        if !self.holds_any(text) {
            return text.to_owned();
        }
        self.needles.iter().fold(text.to_owned(), |text, needle| {
            if text.contains(needle) { text.replace(needle, REDACTED) } else { text }
        })
    }

    /// A value without the configured secrets, in keys and texts at any depth. Everything else stays.
    pub fn scrub_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.scrub(text)),
            Value::Array(items) => items.iter().map(|item| self.scrub_value(item)).collect(),
            Value::Object(object) => object
                .iter()
                .map(|(key, value)| (self.scrub(key), self.scrub_value(value)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// `text` for display: without configured secrets and without what looks like one (V-I19).
    pub fn clean(&self, text: &str) -> String {
        clean_text(&self.scrub(text))
    }

    /// A value for display: secret keys closed at any depth, texts cleaned, size bounded (V-H16, V-H17).
    pub fn clean_value(&self, value: &Value) -> Value {
        self.clean_at(value, MAX_DEPTH)
    }

    /// Arguments for display: everything that will run is shown, but secrets.
    pub fn clean_arguments(&self, arguments: &Map<String, Value>) -> Map<String, Value> {
        self.clean_object(arguments, MAX_DEPTH)
    }

    /// One line about a call: the path first, then the command, then the rest; long values cut (V-H16).
    pub fn summary(&self, arguments: &Map<String, Value>) -> String {
        let rank = |key: &str| match key {
            "path" => 0,
            "command" => 1,
            _ => 2,
        };
        let clean = self.clean_arguments(arguments);
        let mut entries: Vec<(&String, &Value)> = clean.iter().collect();
        entries.sort_by_key(|(key, _)| rank(key));
        let parts: Vec<String> = entries
            .into_iter()
            .map(|(key, value)| {
                let text = match value {
                    Value::String(text) => visible(text),
                    other => visible(&other.to_string()),
                };
                let shown = head(&text, MAX_SUMMARY_VALUE_BYTES);
                let cut = if shown.len() < text.len() { "…" } else { "" };
                format!("{}={shown}{cut}", visible(key))
            })
            .collect();
        parts.join(" ")
    }

    fn clean_object(&self, object: &Map<String, Value>, depth: usize) -> Map<String, Value> {
        object
            .iter()
            .map(|(key, value)| {
                let value = match value {
                    Value::Null | Value::Bool(_) => value.clone(),
                    _ if is_secret_key(key) => Value::String(REDACTED.to_owned()),
                    other => self.clean_at(other, depth),
                };
                // A key can be a secret itself.
                (self.scrub(key), value)
            })
            .collect()
    }

    fn clean_at(&self, value: &Value, depth: usize) -> Value {
        let Some(deeper) = depth.checked_sub(1) else {
            return Value::String("[too deep to show]".to_owned());
        };
        match value {
            Value::String(text) => {
                let clean = self.clean(text);
                let shown = head(&clean, MAX_SHOWN_BYTES);
                let left_out = clean.len() - shown.len();
                Value::String(match left_out {
                    0 => clean,
                    n => format!("{shown}[{n} bytes more are not shown]"),
                })
            }
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.clean_at(item, deeper)).collect())
            }
            Value::Object(object) => Value::Object(self.clean_object(object, deeper)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

/// The spellings of one secret.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned(), percent(secret, true), percent(secret, false)];
    // JSON may stand in JSON, as a message's text in a line of the log does.
    let mut text = secret.to_owned();
    for _ in 0..2 {
        let json = Value::String(text).to_string();
        text = json.get(1..json.len() - 1).unwrap_or_default().to_owned();
        forms.push(text.clone());
    }
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        forms.push(engine.encode(secret));
        // Inside a longer text (`user:secret`) the encoding depends on where the secret begins. The
        // characters that mix it with its neighbours are left away.
        for before in 1..3_usize {
            let mut bytes = vec![0_u8; before];
            bytes.extend_from_slice(secret.as_bytes());
            let whole = bytes.len() / 3 * 4;
            let encoded = engine.encode(&bytes);
            if let Some(inner) = encoded.get(before + 1..whole) {
                forms.push(inner.to_owned());
            }
        }
        let whole = secret.len() / 3 * 4;
        if let Some(start) = engine.encode(secret).get(..whole) {
            forms.push(start.to_owned());
        }
    }
    // A fragment of a short secret would be found in innocent text.
    forms.retain(|form| form.len() + 4 >= secret.len().min(12));
    forms
}

/// Percent-encoding of everything but the unreserved characters (RFC 3986, section 2.3).
fn percent(text: &str, upper: bool) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ if upper => format!("%{byte:02X}"),
            _ => format!("%{byte:02x}"),
        })
        .collect()
}
