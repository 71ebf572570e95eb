//! A hook behind an HTTP address: the question is posted, the body of the answer is the answer.

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use rookery_messages::hook::HookError;
use rookery_messages::settings::Secret;

use super::external::MAX_ANSWER_BYTES;
use crate::outbound;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Where a hook listens.
pub(super) struct Endpoint {
    url: reqwest::Url,
    token: Option<Secret>,
    client: reqwest::Client,
}

impl Endpoint {
    /// Redirects are not followed: what is shown to a hook goes where the configuration says.
    pub(super) fn new(url: &str, token: Option<&Secret>) -> Result<Self, String> {
        let url =
            reqwest::Url::parse(url).map_err(|error| format!("its `url` is wrong: {error}"))?;
        let client = outbound::client()
            .no_proxy()
            .connect_timeout(CONNECT_LIMIT)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { url, token: token.cloned(), client })
    }

    pub(super) async fn post(&self, question: Vec<u8>) -> Result<Vec<u8>, HookError> {
        let mut request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(question);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        let mut response = request.send().await.map_err(failed)?;
        outbound::heard(&response);
        if !response.status().is_success() {
            return Err(HookError(format!("it answered with status {}", response.status())));
        }
        let mut answer = Vec::new();
        while let Some(part) = response.chunk().await.map_err(failed)? {
            if answer.len() + part.len() > MAX_ANSWER_BYTES {
                return Err(HookError(format!(
                    "its answer has more than {MAX_ANSWER_BYTES} bytes"
                )));
            }
            answer.extend_from_slice(&part);
        }
        Ok(answer)
    }
}

/// The cause without the address, which may hold a secret.
fn failed(error: reqwest::Error) -> HookError {
    HookError(format!("it can't be reached: {}", error.without_url()))
}
