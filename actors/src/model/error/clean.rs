//! Takes secrets, markup and length out of what a provider said.

use rookery_messages::tool::head;

/// Most bytes of a provider's own words in an error.
pub const MAX_WORDS: usize = 500;

const REDACTED: &str = "[redacted]";
/// A configured key shorter than this is no secret (`none`, `x`), and redacting it would garble the text.
const MIN_KEY: usize = 5;
/// How the keys of well-known services begin.
const KEY_PREFIXES: [&str; 17] = [
    "sk-",
    "sk_",
    "pk-",
    "rk_",
    "xai-",
    "gsk_",
    "AIza",
    "ya29.",
    "hf_",
    "ghp_",
    "gho_",
    "github_pat_",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "eyJ",
    "nvapi-",
];
/// Names whose value is a secret, at the end of a word.
const SECRET_NAMES: [&str; 10] = [
    "api_key",
    "apikey",
    "api-key",
    "key",
    "token",
    "secret",
    "password",
    "authorization",
    "signature",
    "credential",
];
/// What may follow "bearer" or "basic" in a sentence without being a credential.
const SCHEME_WORDS: [&str; 9] = [
    "auth",
    "authentication",
    "authorization",
    "credentials",
    "header",
    "realm",
    "scheme",
    "token",
    "tokens",
];

/// `text` in one line of at most [`MAX_WORDS`] bytes: tags and control characters gone, and in place of
/// `key`, bearer tokens, well-known forms of keys, and the user part and query of URLs, a mark.
pub fn clean(text: &str, key: Option<&str>) -> String {
    let mut text = text.to_owned();
    if let Some(key) = key.map(str::trim).filter(|key| key.len() >= MIN_KEY) {
        text = text.replace(key, REDACTED);
    }
    if text.trim_start().starts_with('<') {
        text = without_tags(&text);
    }
    let words = redact_words(&text);
    if words.len() <= MAX_WORDS {
        return words;
    }
    format!("{}…", head(&words, MAX_WORDS - '…'.len_utf8()).trim_end())
}

fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        match c {
            '<' => inside = true,
            '>' if inside => {
                inside = false;
                out.push(' ');
            }
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

fn is_border(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '"' | '\'' | '`' | '<' | '>' | '(' | ')' | '{' | '}' | ',' | ';')
}

/// What the words before the current one promise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Nothing,
    /// A name of a secret stood there; a value follows if a colon or an equals sign comes first.
    Separator,
    Value,
    /// The word "bearer" or "basic".
    Credential,
}

fn redact_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(4 * MAX_WORDS));
    let mut expect = Expect::Nothing;
    let mut rest = text;
    // The output is cut later; past this much there is nothing to gain.
    while !rest.is_empty() && out.len() <= 2 * MAX_WORDS {
        let end = rest.find(is_border).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if !word.is_empty() {
            expect = push_word(&mut out, word, expect);
        }
        let mut borders = after.chars();
        if let Some(border) = borders.next() {
            if border.is_whitespace() || border.is_control() {
                if !out.is_empty() && !out.ends_with(' ') {
                    out.push(' ');
                }
            } else {
                out.push(border);
            }
        }
        rest = borders.as_str();
    }
    out.truncate(out.trim_end().len());
    out
}

fn push_word(out: &mut String, word: &str, expect: Expect) -> Expect {
    let lower = word.to_ascii_lowercase();
    let bare = lower.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if matches!(bare, "bearer" | "basic") {
        out.push_str(word);
        return Expect::Credential;
    }
    if expect == Expect::Separator && matches!(word, ":" | "=") {
        out.push_str(word);
        return Expect::Value;
    }
    if expect == Expect::Credential && !SCHEME_WORDS.contains(&bare)
        || expect == Expect::Value
        || looks_like_key(word)
    {
        out.push_str(REDACTED);
        return Expect::Nothing;
    }
    if let Some(at) = word.find("://") {
        push_url(out, word, at);
        return Expect::Nothing;
    }
    if let Some(at) = word.find(['=', ':']) {
        let (name, value) = word.split_at(at + 1);
        if names_secret(&lower[..at]) {
            out.push_str(name);
            if value.is_empty() {
                return Expect::Value;
            }
            out.push_str(REDACTED);
            return Expect::Nothing;
        }
    }
    out.push_str(word);
    if names_secret(&lower) { Expect::Separator } else { Expect::Nothing }
}

fn names_secret(lower: &str) -> bool {
    SECRET_NAMES.iter().any(|name| lower.ends_with(name))
}

fn looks_like_key(word: &str) -> bool {
    let core = word.trim_matches(|c: char| matches!(c, '.' | ':' | '!' | '?' | '[' | ']'));
    let value = core.rsplit(['=', ':']).next().unwrap_or(core);
    if value.len() >= 12 && KEY_PREFIXES.iter().any(|prefix| value.starts_with(prefix)) {
        return true;
    }
    if !value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+')) {
        return false;
    }
    let has = |kind: fn(&char) -> bool| value.chars().any(|c| kind(&c));
    let mixed = has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase);
    let digits = has(char::is_ascii_digit);
    let hex = value.chars().all(|c| c.is_ascii_hexdigit());
    digits && (mixed && value.len() >= 32 || hex && value.len() >= 40)
}

/// The URL without user, password, query and fragment.
fn push_url(out: &mut String, word: &str, scheme_end: usize) {
    let (scheme, rest) = word.split_at(scheme_end + 3);
    out.push_str(scheme);
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    out.push_str(host.rsplit('@').next().unwrap_or(host));
    out.push_str(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    // V-L24
    #[test]
    fn secrets_are_taken_out_of_a_providers_words() {
        let key = Some("my-configured-key");
        for (said, want) in [
            ("bad key my-configured-key!", "bad key [redacted]!"),
            (
                "Incorrect API key provided: sk-abcdefgh12345678.",
                "Incorrect API key provided: [redacted]",
            ),
            ("header Authorization: Bearer abc.def", "header Authorization: Bearer [redacted]"),
            ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]"),
            ("a bearer token is missing", "a bearer token is missing"),
            (r#"{"api_key": "abc", "n": 1}"#, r#"{"api_key": "[redacted]", "n": 1}"#),
            ("x-api-key=abc next", "x-api-key=[redacted] next"),
            (
                "see https://user:pw@api.example.com/v1/x?key=abc#f for more",
                "see https://api.example.com/v1/x for more",
            ),
            ("id req_011CSHoEeqs5C35K2UUqR7Fy", "id req_011CSHoEeqs5C35K2UUqR7Fy"),
            ("Aa1234567890123456789012345678901234", "[redacted]"),
            ("line\nbreak\u{0}\u{1b}[31mred", "line break [31mred"),
            ("<html><title>502 Bad</title><body>x</body>", "502 Bad x"),
            ("Model `gpt-4o-mini` not found", "Model `gpt-4o-mini` not found"),
        ] {
            assert_eq!(clean(said, key), want, "{said}");
        }
    }

    // V-L24, A136
    #[test]
    fn words_are_bounded_at_a_character() {
        let text = clean(&"ö ".repeat(1_000), None);
        assert!(text.len() <= MAX_WORDS && text.ends_with('…'), "{} bytes", text.len());
        assert!(clean(&"x".repeat(10_000), Some("none")).len() <= MAX_WORDS);
    }

    // V-L24
    #[test]
    fn a_short_placeholder_key_does_not_garble_the_text() {
        assert_eq!(clean("there is none", Some("none")), "there is none");
    }
}
