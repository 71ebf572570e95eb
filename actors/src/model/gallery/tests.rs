use std::path::Path;

use rookery_messages::settings::{ProviderKind, ProviderSettings, RiskProfile};

use super::*;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and more";
const JPEG: &[u8] = b"\xff\xd8\xff\xe0 and more";
const GIF: &[u8] = b"GIF89a and more";

fn attached(path: &str, media_type: &str, size: u64) -> Attachment {
    Attachment { name: "n".into(), path: path.into(), media_type: media_type.into(), size }
}

fn png(path: &str) -> Attachment {
    attached(path, "image/png", PNG.len() as u64)
}

fn said(attachments: Vec<Attachment>) -> ChatMessage {
    ChatMessage::User { text: "look".into(), kind: Default::default(), attachments }
}

fn sight(kind: ProviderKind) -> Sight {
    Sight::of(&ProviderSettings { vision: Some(true), ..ProviderSettings::new(kind, "m") })
}

fn folder(workspace: &Path, profile: RiskProfile) -> ImageFolder {
    ImageFolder::of(&Gate::new(Arc::new(profile), workspace, &[]), MOST_IMAGES)
}

fn request(messages: Vec<ChatMessage>) -> ModelRequest {
    ModelRequest { messages: Arc::new(messages), ..ModelRequest::default() }
}

/// A workspace with these files.
fn files(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn shown<'a>(gallery: &'a Gallery<'a>) -> Vec<&'a str> {
    gallery.shown.iter().map(|image| image.path.as_str()).collect()
}

#[test]
fn the_newest_images_of_the_last_turns_are_shown_up_to_a_number_and_a_size() {
    let old = |n: usize| said(vec![png(&format!("{n}.png"))]);
    let history: Vec<_> = (0..9).map(old).collect();
    assert_eq!(
        shown(&Gallery::of(&history, MOST_IMAGES)),
        ["8.png", "7.png", "6.png", "5.png", "4.png", "3.png"]
    );
    assert_eq!(shown(&Gallery::of(&history, 2)), ["8.png", "7.png"]);
    assert!(Gallery::of(&history, 0).is_empty());
    let album = [said(vec![
        png("a"),
        attached("b", "text/plain", 9),
        attached("c", "image/png", 20_000_000),
        png("d"),
        attached("e", "image/heic", 9),
    ])];
    let gallery = Gallery::of(&album, MOST_IMAGES);
    assert_eq!(shown(&gallery), ["d", "a"]);
    let left: Vec<_> = gallery.left_out.iter().map(|(one, _)| one.path.as_str()).collect();
    assert_eq!(left, ["c"]);
}

#[test]
fn what_is_said_into_a_turn_is_of_that_turn() {
    let mut history = vec![said(vec![png("first")])];
    for n in 0..9 {
        let attachments = vec![png(&n.to_string())];
        let kind = rookery_messages::chat::UserKind::Steering;
        history.push(ChatMessage::User { text: "and".into(), kind, attachments });
    }
    assert_eq!(Gallery::of(&history, MOST_IMAGES).shown.len(), 10);
}

// I4
#[tokio::test]
async fn a_request_gets_the_bytes_as_they_are_now_and_words_for_what_it_does_not_get() {
    let dir = files(&[("a.png", PNG), ("lie.png", JPEG), ("text.png", b"words"), ("g.gif", GIF)]);
    let large = std::fs::File::create(dir.path().join("grown.png")).unwrap();
    large.set_len(6 << 20).unwrap();
    let images = ["a.png", "lie.png", "text.png", "gone.png", "grown.png"].map(png);
    let gif = attached("g.gif", "image/gif", GIF.len() as u64);
    let asked = request(vec![said(images.into_iter().chain([gif]).collect())]);
    let folder = folder(dir.path(), RiskProfile::default());
    let filled = folder.fill(asked.clone(), sight(ProviderKind::Gemini)).await;
    let got: Vec<_> =
        filled.images.iter().map(|(path, one)| (path.as_str(), one.format.media_type())).collect();
    assert_eq!(got, [("a.png", "image/png"), ("lie.png", "image/jpeg")]);
    assert_eq!(STANDARD.decode(&*filled.images["a.png"].data).unwrap(), PNG);
    assert_eq!(
        filled.messages[0].text(),
        "look\n\
         [the image text.png is not shown: the file is no image any more]\n\
         [the image gone.png is not shown: the file is not there any more]\n\
         [the image grown.png is not shown: it has more than the 5242880 bytes that this model may be sent]\n\
         [the image g.gif is not shown: this model takes no image/gif]"
    );
    // The attachments themselves stay: the next request looks again.
    assert_eq!(filled.messages[0].attachments(), asked.messages[0].attachments());
    // One that sees nothing reads what it would read anyway.
    let blind = folder.fill(asked.clone(), Sight::default()).await;
    assert_eq!((blind.messages, blind.images.len()), (asked.messages, 0));
}

// A093
#[tokio::test]
async fn no_link_leads_out_of_the_workspace_and_what_is_closed_to_tools_is_closed_here() {
    let outside = files(&[("private.png", PNG)]);
    let dir = files(&[("closed.png", PNG), ("inside.png", PNG)]);
    let link = |target: &Path, name: &str| {
        std::os::unix::fs::symlink(target, dir.path().join(name)).unwrap();
    };
    link(&outside.path().join("private.png"), "out.png");
    link(Path::new("inside.png"), "in.png");
    let profile =
        RiskProfile { forbidden_paths: vec!["closed.png".into()], ..RiskProfile::default() };
    let paths = ["out.png", "../private.png", "closed.png", "in.png", "."];
    let asked = request(vec![said(paths.map(png).to_vec())]);
    let filled = folder(dir.path(), profile).fill(asked, sight(ProviderKind::Openai)).await;
    assert_eq!(filled.images.keys().collect::<Vec<_>>(), ["in.png"]);
    let text = filled.messages[0].text();
    assert_eq!(text.matches("is not shown").count(), 4, "{text}");
    assert_eq!(text.matches("leads out of the workspace").count(), 2, "{text}");
}
