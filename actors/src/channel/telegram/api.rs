//! Calls of the Bot API. Its addresses hold the token, so that no error here holds an address (A098).

use std::time::Duration;

use futures_util::StreamExt;
use rookery_messages::channel::DownloadFault;
use rookery_messages::settings::Secret;
use rookery_messages::tool::head;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::outbound;
use crate::policy::display::visible;

/// Connecting may take so long.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Fetching a file may take so long.
const FILE_LIMIT: Duration = Duration::from_secs(60);
/// Largest answer that is read.
const MAX_ANSWER: usize = 16 * 1_024 * 1_024;
/// Longest description kept, in bytes.
const MAX_DESCRIPTION: usize = 300;

/// Why a call has no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// The platform says no.
    #[error("Telegram answered {code}: {description}")]
    Refused {
        /// Its error code.
        code: u16,
        /// Its words.
        description: String,
        /// When to come back.
        retry_after: Option<Duration>,
        /// The group has another id now.
        migrate_to: Option<i64>,
    },
    /// It surely was not asked.
    #[error("no connection to Telegram")]
    NotSent,
    /// It may have done what it was asked.
    #[error("{0}")]
    Unknown(&'static str),
}

#[derive(Deserialize)]
struct Answer {
    ok: bool,
    result: Option<Value>,
    error_code: Option<u16>,
    description: Option<String>,
    parameters: Option<Parameters>,
}

#[derive(Deserialize, Default)]
struct Parameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

/// One bot's way to the platform.
pub(super) struct BotApi {
    base: String,
    token: Secret,
    client: reqwest::Client,
}

impl BotApi {
    /// The error says what is wrong with the address.
    pub(super) fn new(base: &str, token: Secret) -> Result<Self, String> {
        let wrong = |why: String| {
            format!("api_base_url can't be used: {why}; write an http:// or https:// address")
        };
        let url = reqwest::Url::parse(base).map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(format!("`{}` is no scheme for it", url.scheme())));
        }
        // One client for all that goes to the platform: what connects the one connects the other (A135). A
        // connection that was given up is closed, which HTTP/1 makes sure of.
        let client = outbound::client()
            .http1_only()
            .connect_timeout(CONNECT_LIMIT)
            .tcp_keepalive(Duration::from_secs(30))
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self { base: base.trim_end_matches('/').to_owned(), token, client })
    }

    /// Calls a method; done, or given up, within `limit`.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        body: &Value,
        limit: Duration,
    ) -> Result<T, ApiError> {
        let url = format!("{}/bot{}/{method}", self.base, self.token.expose());
        let request = self.client.post(url).timeout(limit).json(body);
        let answer = request.send().await.map_err(|error| transport(&error))?;
        outbound::heard(&answer);
        let status = answer.status().as_u16();
        let bytes = read(answer).await?;
        let parsed: Result<Answer, _> = serde_json::from_slice(&bytes);
        let unreadable = || ApiError::Refused {
            code: status,
            description: "its answer can't be read".to_owned(),
            retry_after: None,
            migrate_to: None,
        };
        match parsed {
            Ok(Answer { ok: true, result: Some(result), .. }) => {
                serde_json::from_value(result).map_err(|_| unreadable())
            }
            Ok(answer) => {
                let parameters = answer.parameters.unwrap_or_default();
                let description = answer.description.unwrap_or_default();
                Err(ApiError::Refused {
                    code: answer.error_code.unwrap_or(status),
                    description: head(&visible(&description), MAX_DESCRIPTION).to_owned(),
                    retry_after: parameters.retry_after.map(Duration::from_secs),
                    migrate_to: parameters.migrate_to_chat_id,
                })
            }
            // A proxy's page: what its status says.
            Err(_) => Err(unreadable()),
        }
    }

    /// Fetches a file by its path there.
    pub(super) async fn file(&self, path: &str, limit: u64) -> Result<Vec<u8>, DownloadFault> {
        let fault = |cause: &str, again| DownloadFault { cause: cause.to_owned(), again };
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            let why = "the Bot API server keeps its files to itself (local mode)";
            return Err(fault(why, false));
        }
        let url = format!("{}/file/bot{}/{path}", self.base, self.token.expose());
        let answer = self.client.get(url).timeout(FILE_LIMIT).send().await;
        let answer = answer.map_err(|_| fault("Telegram could not be reached", true))?;
        outbound::heard(&answer);
        if !answer.status().is_success() {
            let again = answer.status().is_server_error();
            return Err(fault(&format!("Telegram answered {}", answer.status().as_u16()), again));
        }
        let mut bytes = Vec::new();
        let mut chunks = answer.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| fault("the file broke off on its way", true))?;
            if (bytes.len() + chunk.len()) as u64 > limit {
                let why = format!("it has more than the {limit} bytes that are allowed");
                return Err(fault(&why, false));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

async fn read(answer: reqwest::Response) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    let mut chunks = answer.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| transport(&error))?;
        if bytes.len() + chunk.len() > MAX_ANSWER {
            return Err(ApiError::Unknown("Telegram's answer is too long"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// What is known of a call that had no answer. Never the error itself: it names the address.
fn transport(error: &reqwest::Error) -> ApiError {
    if error.is_connect() || error.is_builder() {
        ApiError::NotSent
    } else if error.is_timeout() {
        ApiError::Unknown("Telegram did not answer in time")
    } else {
        ApiError::Unknown("the connection to Telegram broke before the answer")
    }
}
