//! Images as each API has them: right bytes, right kind, in the message they came with.

use rookery_messages::attachment::ImageFormat;
use rookery_messages::chat::{ChatMessage, UserKind};
use serde_json::{Value, json};

use super::anthropic::Anthropic;
use super::gemini::Gemini;
use super::http::{Dialect, Ease, Unsendable};
use super::ollama::Ollama;
use super::openai::OpenAi;
use super::responses::Responses;
use super::testing::{asks, call, image, result, sent, settings, tool};

/// A picture and a moving one, then a call, then a picture that is said into the loop.
fn history() -> Vec<ChatMessage> {
    let asked = call(1, Some("c1"), "time", "");
    let said =
        |kind, text: &str, attachments| ChatMessage::User { text: text.into(), kind, attachments };
    let first = vec![image("a.png", ImageFormat::Png), image("b.gif", ImageFormat::Gif)];
    vec![
        said(UserKind::Message, "look", first),
        asks("", std::slice::from_ref(&asked), Vec::new()),
        result(&asked, "noon"),
        said(UserKind::Steering, "this too", vec![image("c.jpg", ImageFormat::Jpeg)]),
    ]
}

fn body<D: Dialect>(ease: Ease) -> Value {
    sent::<D>(&settings("m"), &history(), &[tool("time")], ease).unwrap()
}

// The bytes of each are its path: a.png, b.gif, c.jpg.
const A: &str = "YS5wbmc=";
const B: &str = "Yi5naWY=";
const C: &str = "Yy5qcGc=";

#[test]
fn chat_completions_have_them_as_addresses_behind_the_text() {
    let messages = &body::<OpenAi>(Ease::default())["messages"];
    let url = |kind: &str, data: &str| json!({"type": "image_url", "image_url": {"url": format!("data:image/{kind};base64,{data}")}});
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(messages[0]["content"], json!([text("look"), url("png", A), url("gif", B)]));
    assert_eq!(messages[3]["content"], json!([text("this too"), url("jpeg", C)]));
}

#[test]
fn responses_have_them_as_parts_of_the_input() {
    let input = &body::<Responses>(Ease::default())["input"];
    let url = |kind: &str, data: &str| {
        let url = format!("data:image/{kind};base64,{data}");
        json!({"type": "input_image", "image_url": url, "detail": "auto"})
    };
    let text = |text: &str| json!({"type": "input_text", "text": text});
    assert_eq!(input[0]["content"], json!([text("look"), url("png", A), url("gif", B)]));
    assert_eq!(input[3]["content"], json!([text("this too"), url("jpeg", C)]));
}

#[test]
fn anthropic_has_them_as_blocks_before_the_text_and_behind_results() {
    let messages = &body::<Anthropic>(Ease::default())["messages"];
    let block = |kind: &str, data: &str| {
        json!({"type": "image",
            "source": {"type": "base64", "media_type": format!("image/{kind}"), "data": data}})
    };
    let first = json!([block("png", A), block("gif", B), {"type": "text", "text": "look"}]);
    assert_eq!(messages[0]["content"], first);
    let last = messages[2]["content"].as_array().unwrap();
    assert_eq!(last[0]["type"], "tool_result");
    assert_eq!(last[1], block("jpeg", C));
    assert_eq!(last[2]["text"], "this too");
}

#[test]
fn gemini_has_them_as_inline_data_before_the_text() {
    let contents = &body::<Gemini>(Ease::default())["contents"];
    let part = |kind: &str, data: &str| json!({"inlineData": {"mimeType": format!("image/{kind}"), "data": data}});
    assert_eq!(contents[0]["parts"], json!([part("png", A), part("gif", B), {"text": "look"}]));
    assert_eq!(contents[3]["parts"], json!([part("jpeg", C), {"text": "this too"}]));
}

#[test]
fn ollama_has_them_beside_the_text() {
    let messages = &body::<Ollama>(Ease::default())["messages"];
    assert_eq!(messages[0], json!({"role": "user", "content": "look", "images": [A, B]}));
    assert_eq!(messages[3], json!({"role": "user", "content": "this too", "images": [C]}));
}

// I4
#[test]
fn without_images_each_request_is_what_it_is_for_one_who_sees_nothing() {
    let words: Vec<ChatMessage> = history()
        .into_iter()
        .map(|message| match message {
            ChatMessage::User { text, kind, .. } => ChatMessage::of_kind(kind, text),
            other => other,
        })
        .collect();
    fn same<D: Dialect>(words: &[ChatMessage]) {
        let plain = sent::<D>(&settings("m"), words, &[tool("time")], Ease::default()).unwrap();
        let eased = body::<D>(Ease { no_images: true, ..Ease::default() });
        assert_eq!(eased, plain, "{}", D::KIND);
    }
    same::<OpenAi>(&words);
    same::<Responses>(&words);
    same::<Anthropic>(&words);
    same::<Gemini>(&words);
    same::<Ollama>(&words);
}

// I4
#[test]
fn an_image_without_bytes_is_not_sent() {
    let empty = image("", ImageFormat::Png);
    let kind = UserKind::Message;
    let history = [ChatMessage::User { text: "look".into(), kind, attachments: vec![empty] }];
    fn refused<D: Dialect>(history: &[ChatMessage]) {
        let got = sent::<D>(&settings("m"), history, &[], Ease::default());
        assert!(matches!(got, Err(Unsendable::Malformed(_))), "{}: {got:?}", D::KIND);
    }
    refused::<OpenAi>(&history);
    refused::<Responses>(&history);
    refused::<Anthropic>(&history);
    refused::<Gemini>(&history);
    refused::<Ollama>(&history);
}
