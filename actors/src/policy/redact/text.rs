//! Secrets in running text, found by what stands around them.

use super::{REDACTED, is_secret_key};

/// Longest key that is looked back for, in bytes.
const MAX_KEY_BYTES: usize = 64;
/// A run of token characters shorter than this is no key of a known make.
const MIN_TOKEN_CHARS: usize = 16;

/// Beginnings that well-known services give their keys.
const TOKEN_PREFIXES: [&str; 18] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "AIza",
    "hf_",
];

/// `text` with secret-like parts replaced: `key=value` and `key: value` under a secret key, the password
/// of a URL, keys of well-known makes, bearer tokens, private key blocks.
pub fn clean_text(text: &str) -> String {
    let text = private_keys(text);
    let text = assignments(&text);
    let text = url_passwords(&text);
    tokens(&text)
}

fn private_keys(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("-----BEGIN ") {
        let block = &rest[at..];
        let line = block.lines().next().unwrap_or(block);
        clean.push_str(&rest[..at]);
        if !line.contains("PRIVATE KEY-----") {
            clean.push_str(&block[..11]);
            rest = &block[11..];
            continue;
        }
        clean.push_str(REDACTED);
        // A block that was cut off is closed to the end.
        rest = match block.find("-----END ") {
            Some(end) => {
                let after = &block[end..];
                after.find("KEY-----").map_or("", |stop| &after[stop + 8..])
            }
            None => "",
        };
    }
    clean.push_str(rest);
    clean
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// The key that ends at `end`, with one quote allowed after it.
fn key_before(text: &str, end: usize) -> &str {
    let before = text[..end].trim_end_matches([' ', '"', '\'']);
    let start = before
        .char_indices()
        .rev()
        .take_while(|(at, c)| is_key_char(*c) && before.len() - at <= MAX_KEY_BYTES)
        .last()
        .map_or(before.len(), |(at, _)| at);
    &before[start..]
}

/// The value that begins at `text`, as (what stands before it, its length).
fn value_span(text: &str) -> (usize, usize) {
    let mut start = text.len() - text.trim_start_matches([' ', '\t']).len();
    let quote = text[start..].chars().next().filter(|c| matches!(c, '"' | '\'' | '`'));
    if let Some(quote) = quote {
        start += 1;
        let len = text[start..].find([quote, '\n']).unwrap_or(text.len() - start);
        return (start, len);
    }
    // `Authorization: Bearer x` is one value of two words.
    for scheme in ["bearer ", "basic ", "token ", "digest "] {
        let word = text[start..].get(..scheme.len());
        if word.is_some_and(|word| word.eq_ignore_ascii_case(scheme)) {
            start += scheme.len();
            break;
        }
    }
    let ends =
        |c: char| c.is_whitespace() || matches!(c, '&' | ';' | ',' | '"' | '\'' | '}' | ']' | ')');
    (start, text[start..].find(ends).unwrap_or(text.len() - start))
}

fn assignments(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut done = 0;
    for (at, sign) in text.match_indices(['=', ':']) {
        if at < done || !is_secret_key(key_before(text, at)) {
            continue;
        }
        let after = at + sign.len();
        let (skip, len) = value_span(&text[after..]);
        // `token:` at the end of a line names nothing; `==` compares.
        if len == 0 || text[after..].starts_with('=') {
            continue;
        }
        clean.push_str(&text[done..after + skip]);
        clean.push_str(REDACTED);
        done = after + skip + len;
    }
    clean.push_str(&text[done..]);
    clean
}

fn url_passwords(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices("://") {
        if at < done {
            continue;
        }
        let host = at + 3;
        let end = text[host..]
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\''))
            .map_or(text.len(), |len| host + len);
        let Some(sign) = text[host..end].rfind('@').map(|len| host + len) else { continue };
        let Some(colon) = text[host..sign].find(':').map(|len| host + len) else { continue };
        clean.push_str(&text[done..=colon]);
        clean.push_str(REDACTED);
        done = sign;
    }
    clean.push_str(&text[done..]);
    clean
}

fn tokens(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut bearer = false;
    let is_token_char =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/' | '=');
    let mut rest = text;
    while !rest.is_empty() {
        let len = rest.find(|c| !is_token_char(c)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(len);
        if looks_like_key(run) || (bearer && run.len() >= 8) {
            clean.push_str(REDACTED);
        } else {
            clean.push_str(run);
        }
        if !run.is_empty() {
            bearer = run.eq_ignore_ascii_case("bearer");
        }
        let other = after.find(is_token_char).unwrap_or(after.len());
        let (between, next) = after.split_at(other);
        if between != " " {
            bearer = false;
        }
        // `123456789:AA…` is a Telegram bot's token: the number before the colon only says whose.
        let digits = run.len() - run.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        if between == ":" && digits >= 6 {
            let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let len = next.find(|c| !inside(c)).unwrap_or(next.len());
            if len >= 30 {
                clean.push(':');
                clean.push_str(REDACTED);
                rest = &next[len..];
                continue;
            }
        }
        clean.push_str(between);
        rest = next;
    }
    clean
}

fn looks_like_key(run: &str) -> bool {
    if run.len() < MIN_TOKEN_CHARS {
        return false;
    }
    // Paths and URLs are runs too: a key may stand after a slash or an equals sign.
    let last = run.rsplit(['/', '=']).next().unwrap_or(run);
    let known = |text: &str| {
        text.len() >= MIN_TOKEN_CHARS
            && TOKEN_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
            && text.bytes().any(|c| c.is_ascii_digit())
    };
    let jwt = |text: &str| text.starts_with("eyJ") && text.matches('.').count() == 2;
    known(run) || known(last) || jwt(run) || jwt(last)
}
