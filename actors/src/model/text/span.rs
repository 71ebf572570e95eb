//! Code spans: text between backticks in one line is shown as it is, whatever it contains.

use super::form::Verdict;

/// Longest span that is waited for. Beyond it a backtick is a backtick.
const MAX_SPAN: usize = 512;
/// Longest run of backticks that is one mark.
const MAX_RUN: usize = 64;

/// How many times the first character stands at the start; none while that is open.
pub(super) fn run(text: &str, end: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let mark = *bytes.first()?;
    let run = bytes.iter().take(MAX_RUN).take_while(|byte| **byte == mark).count();
    (run < bytes.len() || run == MAX_RUN || end).then_some(run)
}

/// Reads a span that begins with `run` backticks.
pub(super) fn read(text: &str, run: usize, end: bool) -> Verdict {
    let bytes = text.as_bytes();
    let limit = run + MAX_SPAN;
    let mut at = run;
    while at < bytes.len().min(limit) {
        match bytes[at] {
            b'\n' => return Verdict::Text(run),
            b'`' => {
                let run_here = bytes[at..].iter().take(MAX_RUN + 1);
                let length = run_here.take_while(|byte| **byte == b'`').count();
                if length <= MAX_RUN && at + length == bytes.len() && !end {
                    return Verdict::More;
                }
                at += length;
                if length == run {
                    return Verdict::Text(at);
                }
            }
            _ => at += 1,
        }
    }
    if end || bytes.len() >= limit { Verdict::Text(run) } else { Verdict::More }
}
