//! What the Bot API sends, as far as it concerns us. Unknown fields are left alone.

use serde::Deserialize;

#[derive(Deserialize, Debug)]
pub(super) struct Update {
    pub message: Option<Message>,
    pub channel_post: Option<Message>,
    pub callback_query: Option<CallbackQuery>,
}

#[derive(Deserialize, Debug)]
pub(super) struct User {
    pub id: i64,
    #[serde(default)]
    pub is_bot: bool,
    #[serde(default)]
    pub first_name: String,
    pub last_name: Option<String>,
    pub username: Option<String>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Chat {
    pub id: i64,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub title: Option<String>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Message {
    pub message_id: i64,
    pub chat: Chat,
    pub from: Option<User>,
    pub sender_chat: Option<Chat>,
    pub message_thread_id: Option<i64>,
    #[serde(default)]
    pub is_topic_message: bool,
    pub media_group_id: Option<String>,
    pub reply_to_message: Option<Box<Message>>,
    pub forum_topic_created: Option<serde_json::Value>,
    pub text: Option<String>,
    pub caption: Option<String>,
    #[serde(default)]
    pub photo: Vec<File>,
    pub document: Option<File>,
    pub voice: Option<File>,
    pub audio: Option<File>,
    pub video: Option<File>,
    pub video_note: Option<File>,
    pub sticker: Option<Sticker>,
    pub location: Option<Location>,
}

#[derive(Deserialize, Debug)]
pub(super) struct File {
    pub file_id: String,
    pub file_name: Option<String>,
    pub mime_type: Option<String>,
    pub file_size: Option<u64>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Sticker {
    pub emoji: Option<String>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Location {
    pub latitude: f64,
    pub longitude: f64,
}

#[derive(Deserialize, Debug)]
pub(super) struct CallbackQuery {
    pub id: String,
    pub from: Option<User>,
    pub message: Option<Message>,
    pub data: Option<String>,
}

/// What `getFile` says.
#[derive(Deserialize, Debug)]
pub(super) struct FilePath {
    pub file_path: Option<String>,
}

/// What a send says.
#[derive(Deserialize, Debug)]
pub(super) struct SentMessage {
    pub message_id: i64,
}
