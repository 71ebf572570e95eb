//! A server's result as a model reads it: parts in order, bytes and long texts as files with a handle
//! (A108).

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use rookery_messages::tool::{ToolContext, ToolResult, head};

use super::artifact::{extension, keep};
use super::client::{CallOutput, Part};

/// Longest text of one part that is given as it is, in bytes; more becomes a file.
const LONGEST_TEXT: usize = 128 * 1_024;
/// What is shown of a text that became a file, in bytes.
const SHOWN: usize = 4 * 1_024;
/// Most bytes of files a call may leave.
const MOST_BYTES: usize = 32 * 1_024 * 1_024;
/// Most parts of a result that are looked at.
const MOST_PARTS: usize = 500;
/// Longest address or media type that is shown, in bytes.
const LONGEST_WORD: usize = 300;

/// Servers differ about padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The result of a call of `server`.
pub(super) async fn rendered(output: CallOutput, server: &str, cx: &ToolContext) -> ToolResult {
    let mut keeper = Keeper { server, cx, number: 0, left: MOST_BYTES };
    let count = output.parts.len();
    let mut texts = Vec::with_capacity(count.min(MOST_PARTS));
    for part in output.parts.into_iter().take(MOST_PARTS) {
        texts.push(keeper.part(part).await);
    }
    if count > MOST_PARTS {
        texts.push(format!("[{} more parts are left out]", count - MOST_PARTS));
    }
    let text = texts.join("\n");
    if output.is_error {
        let error = Some("the tool reports that it failed".to_owned());
        ToolResult { success: false, output: text, error, unknown: false }
    } else {
        ToolResult::ok(text)
    }
}

struct Keeper<'a> {
    server: &'a str,
    cx: &'a ToolContext,
    number: usize,
    left: usize,
}

impl Keeper<'_> {
    async fn part(&mut self, part: Part) -> String {
        match part {
            Part::Text(text) => self.text("text", "txt", text).await,
            Part::Resource { uri, text } => {
                let text = self.text("resource", "txt", text).await;
                format!("[resource {}]\n{text}", word(&uri))
            }
            Part::Link { uri, name, mime } => {
                let mime = mime.map(|mime| format!(", {}", word(&mime))).unwrap_or_default();
                format!("[link to {}: {}{mime}]", word(&name), word(&uri))
            }
            Part::Bytes { what, data, mime } => {
                let kind = mime.as_deref().map_or("of unknown type", word).to_owned();
                // Some servers break the lines.
                let data: String = data.split_ascii_whitespace().collect();
                match BASE64.decode(data) {
                    Ok(bytes) => {
                        let size = size(bytes.len());
                        match self.keep(extension(mime.as_deref()), bytes).await {
                            Ok(path) => format!("[{what} {kind}, {size}: kept as {path}]"),
                            Err(why) => format!("[{what} {kind}, {size}: not kept: {why}]"),
                        }
                    }
                    Err(_) => format!("[{what} {kind}: left out, its base64 is not valid]"),
                }
            }
        }
    }

    async fn text(&mut self, what: &str, extension: &str, text: String) -> String {
        if text.len() <= LONGEST_TEXT {
            return text;
        }
        let (shown, size) = (head(&text, SHOWN).to_owned(), size(text.len()));
        match self.keep(extension, text.into_bytes()).await {
            Ok(path) => format!("{shown}\n[the {what} is cut here; all {size} are kept as {path}]"),
            Err(why) => format!("{shown}\n[the {what} of {size} is cut here; not kept: {why}]"),
        }
    }

    async fn keep(&mut self, extension: &str, bytes: Vec<u8>) -> Result<String, String> {
        if bytes.len() > self.left {
            return Err(format!("a call may leave {} at most", size(MOST_BYTES)));
        }
        self.left -= bytes.len();
        self.number += 1;
        keep(self.cx, self.server, self.number, extension, bytes).await
    }
}

fn word(text: &str) -> &str {
    head(text, LONGEST_WORD)
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes / 1_024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::tool::testing::context;

    fn bytes(what: &'static str, bytes: &[u8], mime: &str) -> Part {
        Part::Bytes { what, data: STANDARD.encode(bytes), mime: Some(mime.to_owned()) }
    }

    fn kept(text: &str) -> &str {
        text.rsplit_once("kept as ").unwrap().1.trim_end_matches(']')
    }

    // A108
    #[tokio::test]
    async fn parts_stay_in_order_and_bytes_become_files_of_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let (cx, _) = context(dir.path(), &[]);
        let picture = vec![7_u8; 2 * 1_024 * 1_024];
        let output = CallOutput {
            parts: vec![
                Part::Text("a".to_owned()),
                bytes("image", &picture, "image/png"),
                bytes("resource", b"blob", "application/x-odd"),
                Part::Text("z".to_owned()),
            ],
            is_error: false,
        };
        let result = rendered(output, "s", &cx).await;
        assert!(result.success);
        let lines: Vec<&str> = result.output.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[3]), (4, "a", "z"));
        assert!(lines[1].starts_with("[image image/png, 2 MiB: kept as artifacts/s-"), "{lines:?}");
        assert!(result.output.len() < 500);
        assert_eq!(std::fs::read(dir.path().join(kept(lines[1]))).unwrap(), picture);
        assert!(kept(lines[2]).ends_with("-2.bin"));
        assert_eq!(std::fs::read(dir.path().join(kept(lines[2]))).unwrap(), b"blob");
    }

    // A108
    #[tokio::test]
    async fn a_result_that_says_it_failed_stays_failed_with_all_its_parts() {
        let dir = tempfile::tempdir().unwrap();
        let (cx, _) = context(dir.path(), &[]);
        let parts = vec![Part::Text("no such city".to_owned()), bytes("audio", b"x", "audio/wav")];
        let result = rendered(CallOutput { parts, is_error: true }, "s", &cx).await;
        assert!(!result.success);
        let text = result.model_text();
        assert!(text.starts_with("no such city\n[audio audio/wav, 1 B: kept as "), "{text}");
        assert!(text.ends_with("error: the tool reports that it failed"), "{text}");
    }

    #[tokio::test]
    async fn what_is_too_large_or_no_base64_is_said_to_be_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let (cx, _) = context(dir.path(), &[]);
        let long = "ä".repeat(LONGEST_TEXT);
        let parts = vec![
            Part::Text(long.clone()),
            Part::Bytes { what: "image", data: "&&&".to_owned(), mime: None },
            bytes("image", &vec![0; MOST_BYTES], "image/png"),
        ];
        let result = rendered(CallOutput { parts, is_error: false }, "s", &cx).await;
        let lines: Vec<&str> = result.output.lines().collect();
        assert_eq!(lines[0].len(), SHOWN);
        assert_eq!(std::fs::read_to_string(dir.path().join(kept(lines[1]))).unwrap(), long);
        assert_eq!(lines[2], "[image of unknown type: left out, its base64 is not valid]");
        assert!(lines[3].ends_with("not kept: a call may leave 32 MiB at most]"), "{}", lines[3]);
    }

    // A108, A093
    #[tokio::test]
    async fn a_file_is_never_kept_through_a_link_that_leads_out_of_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("work"), dir.path().join("outside"));
        std::fs::create_dir(&inside).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("artifacts")).unwrap();
        let (cx, _) = context(&inside, &[]);
        let output = CallOutput { parts: vec![bytes("image", b"x", "image/png")], is_error: false };
        let result = rendered(output, "s", &cx).await;
        assert!(result.output.contains("not kept: "), "{}", result.output);
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }
}
