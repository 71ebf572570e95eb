//! Posts replies to `reply_url`, signed like the messages that come in.

use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{StatusCode, Url};
use rookery_messages::BoxFuture;
use rookery_messages::channel::{ChannelAdapter, Outgoing, SendAttempt};
use rookery_messages::ids::ChannelId;
use rookery_messages::settings::Secret;
use rookery_messages::store::{OutboxPayload, OutboxRow};
use rookery_messages::time::World;
use serde_json::{Value, json};

use super::signature;
use crate::channel::scope;
use crate::outbound;

/// Connecting may take so long.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// A whole post may take so long.
const POST_LIMIT: Duration = Duration::from_secs(20);

/// The sending half of one webhook.
pub struct WebhookAdapter {
    id: ChannelId,
    url: Url,
    secret: Option<Secret>,
    client: reqwest::Client,
    world: World,
}

impl WebhookAdapter {
    /// For one webhook. The error says what is wrong with the address.
    pub fn new(
        id: ChannelId,
        reply_url: &str,
        secret: Option<Secret>,
        world: World,
    ) -> Result<Self, String> {
        let wrong = |why: String| {
            format!(
                "channels.{id}.reply_url can't be used: {why}; write an http:// or https:// address"
            )
        };
        let url = Url::parse(reply_url).map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(format!("`{}` is no scheme for it", url.scheme())));
        }
        let client = outbound::client()
            .no_proxy()
            .connect_timeout(CONNECT_LIMIT)
            .timeout(POST_LIMIT)
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self { id, url, secret, client, world })
    }

    async fn post(&self, row: &OutboxRow) -> SendAttempt {
        let body = body(row).to_string();
        let mut request = self
            .client
            .post(self.url.clone())
            .header("content-type", "application/json")
            .header("idempotency-key", row.message.id.to_string());
        if let Some(secret) = &self.secret {
            let signed = signature::sign(secret.expose(), self.world.now(), body.as_bytes());
            request = request.header(signature::HEADER, signed);
        }
        match request.body(body).send().await {
            Ok(answer) => {
                outbound::heard(&answer);
                judge_status(answer.status(), retry_after(&answer))
            }
            Err(error) => judge_error(&error),
        }
    }
}

impl ChannelAdapter for WebhookAdapter {
    fn id(&self) -> &ChannelId {
        &self.id
    }

    fn send<'a>(&'a self, message: &'a Outgoing<'a>) -> BoxFuture<'a, SendAttempt> {
        Box::pin(async {
            match message.row {
                // The receiver gets the row as it is, and tells copies by its key.
                Some(row) => self.post(row).await,
                None => SendAttempt::Refused { cause: "a webhook takes replies alone".to_owned() },
            }
        })
    }
}

/// `{turn, conversation, outcome, reply}`, or a notice; marked if it may be a copy.
fn body(row: &OutboxRow) -> Value {
    let conversation = scope::bare(&row.message.address.conversation);
    let mut body = match &row.message.payload {
        OutboxPayload::Reply { turn, outcome, text } => json!({
            "turn": turn, "conversation": conversation, "outcome": outcome, "reply": text,
        }),
        OutboxPayload::Notice { turn, text } => json!({
            "turn": turn, "conversation": conversation, "outcome": null, "reply": null,
            "notice": text,
        }),
        // Shown with buttons, where there are some; never posted.
        OutboxPayload::Approval { turn, approval } => json!({
            "turn": turn, "conversation": conversation, "outcome": null, "reply": null,
            "approval": approval,
        }),
    };
    if row.possibly_repeated {
        body["possibly_repeated"] = Value::Bool(true);
    }
    body
}

fn judge_status(status: StatusCode, retry_after: Option<Duration>) -> SendAttempt {
    let cause = format!("the receiver answered {status}");
    if status.is_success() {
        SendAttempt::Sent { external_id: None }
    } else if status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
    {
        SendAttempt::Failed { cause, retry_after }
    } else if status.is_redirection() {
        SendAttempt::Refused { cause: format!("{cause}; redirects are not followed") }
    } else {
        SendAttempt::Refused { cause }
    }
}

fn judge_error(error: &reqwest::Error) -> SendAttempt {
    // The address may hold a token: it is left out of what people read.
    if error.is_builder() {
        SendAttempt::Refused { cause: "the request could not be built".to_owned() }
    } else if error.is_connect() {
        let cause = "no connection to the receiver".to_owned();
        SendAttempt::Failed { cause, retry_after: None }
    } else if error.is_timeout() {
        SendAttempt::Unknown { cause: "the receiver did not answer in time".to_owned() }
    } else {
        SendAttempt::Unknown { cause: "the connection broke before the answer".to_owned() }
    }
}

/// `Retry-After` in seconds (RFC 9110, section 10.2.3); a date is left to our own delays.
fn retry_after(answer: &reqwest::Response) -> Option<Duration> {
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests;
