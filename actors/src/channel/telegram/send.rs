//! Sending and changing messages, and what the platform's answers mean for them.

use std::time::Duration;

use rookery_messages::channel::{Outgoing, SendAttempt};
use rookery_messages::envelope::ReplyAddress;
use serde_json::{Value, json};

use super::api::{ApiError, BotApi};
use super::types::SentMessage;

/// One call may take so long.
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// The chat of an address: what stands before a topic's number.
pub(super) fn chat(address: &ReplyAddress) -> &str {
    address.conversation.split('/').next().unwrap_or_default()
}

/// An address that says two things, or nothing, is an error and not a guess (A016).
pub(super) fn check(address: &ReplyAddress) -> Result<(), &'static str> {
    let (chat, topic) = match address.conversation.split_once('/') {
        Some((chat, topic)) => (chat, Some(topic)),
        None => (address.conversation.as_str(), None),
    };
    if chat.parse::<i64>().is_err() {
        return Err("the reply address names no chat");
    }
    if topic != address.thread.as_deref() {
        return Err("the reply address names two topics");
    }
    Ok(())
}

/// Groups and channels have negative ids.
pub(super) fn is_group(address: &ReplyAddress) -> bool {
    address.conversation.starts_with('-')
}

/// Chat and topic, as every call takes them.
pub(super) fn place(address: &ReplyAddress) -> Value {
    let mut body = json!({ "chat_id": chat(address).parse::<i64>().ok() });
    if let Some(thread) = address.thread.as_ref().and_then(|thread| thread.parse::<i64>().ok()) {
        body["message_thread_id"] = json!(thread);
    }
    body
}

/// Sends or changes a message.
pub(super) async fn send(api: &BotApi, message: &Outgoing<'_>) -> SendAttempt {
    if let Err(cause) = check(message.address) {
        return SendAttempt::Refused { cause: cause.to_owned() };
    }
    let (method, mut body) = request(message);
    let mut answer = call(api, method, &body).await;
    if let Err(ApiError::Refused { code: 400, description, .. }) = &answer
        && description.contains("can't parse entities")
    {
        // A055: the words matter more than their marks.
        body["text"] = json!(message.plain);
        if let Some(body) = body.as_object_mut() {
            body.remove("parse_mode");
        }
        answer = call(api, method, &body).await;
    }
    if let Err(ApiError::Refused { migrate_to: Some(chat), .. }) = &answer {
        body["chat_id"] = json!(chat);
        answer = call(api, method, &body).await;
    }
    judge(answer, message.edit)
}

async fn call(api: &BotApi, method: &str, body: &Value) -> Result<SentMessage, ApiError> {
    api.call(method, body, CALL_LIMIT).await
}

fn request(message: &Outgoing<'_>) -> (&'static str, Value) {
    let mut body = match message.edit {
        Some(id) => json!({
            "chat_id": chat(message.address).parse::<i64>().ok(),
            "message_id": id.parse::<i64>().ok(),
        }),
        None => place(message.address),
    };
    body["text"] = json!(message.text);
    body["parse_mode"] = json!("HTML");
    body["link_preview_options"] = json!({ "is_disabled": true });
    if !message.buttons.is_empty() {
        let rows: Vec<Vec<Value>> = message
            .buttons
            .iter()
            .map(|row| {
                row.iter().map(|b| json!({ "text": b.label, "callback_data": b.data })).collect()
            })
            .collect();
        body["reply_markup"] = json!({ "inline_keyboard": rows });
    }
    // In a group it should be seen whom an answer is for; with two people it is.
    let answered = message.address.reply_to.as_ref().filter(|_| is_group(message.address));
    let answered = answered.and_then(|id| id.rsplit(':').next()?.parse::<i64>().ok());
    if let (None, Some(answered)) = (message.edit, answered) {
        body["reply_parameters"] =
            json!({ "message_id": answered, "allow_sending_without_reply": true });
    }
    (if message.edit.is_some() { "editMessageText" } else { "sendMessage" }, body)
}

fn judge(answer: Result<SentMessage, ApiError>, edit: Option<&str>) -> SendAttempt {
    match answer {
        Ok(sent) => SendAttempt::Sent { external_id: Some(sent.message_id.to_string()) },
        // A053: it is as it should be.
        Err(ApiError::Refused { code: 400, description, .. })
            if edit.is_some() && description.contains("message is not modified") =>
        {
            SendAttempt::Sent { external_id: edit.map(str::to_owned) }
        }
        Err(ApiError::Refused { code, description, retry_after, .. }) => {
            let cause = format!("Telegram answered {code}: {description}");
            match code {
                // With a revoked token the answer waits for a new one.
                401 | 408 | 429 | 500.. => SendAttempt::Failed { cause, retry_after },
                _ => SendAttempt::Refused { cause },
            }
        }
        Err(error @ ApiError::NotSent) => {
            SendAttempt::Failed { cause: error.to_string(), retry_after: None }
        }
        Err(error @ ApiError::Unknown(_)) => SendAttempt::Unknown { cause: error.to_string() },
    }
}
