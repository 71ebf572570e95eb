//! Form 1: the whole reply is JSON.
//!
//! Held back until the JSON ends and nothing but white space follows to the end of the reply. JSON amid
//! prose is no call (V-F8), and neither is JSON that is something else (V-E10): both are released as
//! they are.

use rookery_messages::tool::head;
use serde_json::Value;

use super::calls::{self, Marked, Read};
use super::form::{CUT, Found, MAX_HELD, TOO_LONG, Verdict};
use super::json::{JsonScan, Scan};
use super::known::Known;

/// Most white space after the JSON.
const MAX_SPACE: usize = 4_096;

#[derive(Debug)]
pub(super) struct Whole {
    scan: JsonScan,
    /// Where the JSON ends.
    end: Option<usize>,
}

impl Whole {
    pub(super) fn new() -> Self {
        Self { scan: JsonScan::at(0), end: None }
    }

    pub(super) fn feed(&mut self, text: &str, end: bool, known: &Known) -> Verdict {
        let json = match self.end {
            Some(at) => at,
            None => match self.scan.scan(text) {
                Scan::Broken => return Verdict::Text(0),
                Scan::Complete(at) => {
                    if serde_json::from_str::<Value>(&text[..at]).is_err() {
                        return Verdict::Text(0);
                    }
                    self.end = Some(at);
                    at
                }
                Scan::More => return open(text, end),
            },
        };
        let after = head(&text[json..], MAX_SPACE);
        if !after.trim_start().is_empty() || text.len() - json > MAX_SPACE {
            return Verdict::Text(json);
        }
        if !end {
            return Verdict::More;
        }
        let value = serde_json::from_str::<Value>(&text[..json]).unwrap_or_default();
        let len = text.len();
        match calls::read(&value, known, Marked::No) {
            Read::Calls { calls, text } => {
                Verdict::Form { len, found: Found::Calls { calls, text } }
            }
            Read::Malformed => {
                let why = "some entries of tool_calls have no name".to_owned();
                Verdict::Form { len, found: Found::Malformed(why) }
            }
            Read::Other => Verdict::Text(len),
        }
    }
}

/// The JSON is not at its end.
fn open(text: &str, end: bool) -> Verdict {
    let full = text.len() >= MAX_HELD;
    if !end && !full {
        return Verdict::More;
    }
    let has = |key: &str| text.contains(key);
    let like_a_call = has("\"tool_calls\"")
        || (has("\"name\"") && (has("\"arguments\"") || has("\"parameters\"")));
    if !like_a_call {
        return Verdict::Text(0);
    }
    let why = if end { CUT } else { TOO_LONG };
    Verdict::Form { len: text.len(), found: Found::Malformed(why.to_owned()) }
}
