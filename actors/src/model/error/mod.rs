//! Errors of one provider profile: classified, cleaned of secrets, bounded (V-L24).
//!
//! Everything a provider said passes through [`Upstream`] before it enters a [`ModelError`].

mod classify;
mod clean;
mod retry;

pub use classify::ErrorObject;
pub(crate) use classify::error_field;
pub use clean::{MAX_WORDS, clean};
pub use retry::{MAX_RETRY_AFTER, retry_after};

use std::error::Error as _;
use std::sync::Arc;

use reqwest::header::HeaderMap;
use rookery_messages::model::{ModelError, ModelErrorClass};
use rookery_messages::settings::Secret;

use crate::policy::redact::Redactor;

/// Makes the errors of one provider profile.
#[derive(Clone, Debug)]
pub struct Upstream {
    profile: Arc<str>,
    key: Option<Secret>,
    others: Arc<Redactor>,
}

impl Upstream {
    /// For the profile of that name; `key` never appears in an error.
    pub fn new(profile: &str, key: Option<Secret>) -> Self {
        Self { profile: profile.into(), key, others: Arc::default() }
    }

    /// The service's other secrets appear in none either. They are taken out before the words are cut: half
    /// a secret would not be known as one.
    pub fn hiding(self, others: &Arc<Redactor>) -> Self {
        Self { others: Arc::clone(others), ..self }
    }

    /// An error of ours: `what` happened, in our words.
    pub fn error(&self, class: ModelErrorClass, what: &str) -> ModelError {
        ModelError::new(class, format!("provider `{}` {what}", self.profile))
    }

    /// An error with the provider's own `words`, cleaned, behind ours.
    pub fn quoting(&self, class: ModelErrorClass, what: &str, words: &str) -> ModelError {
        let words = clean(&self.others.scrub(words), self.key.as_ref().map(Secret::expose));
        let mut message = format!("provider `{}` {what}", self.profile);
        if !words.is_empty() {
            message.push_str(": ");
            message.push_str(&words);
        }
        if let Some(advice) = advice(class) {
            message.push_str("; ");
            message.push_str(advice);
        }
        ModelError::new(class, message)
    }

    /// An answer with an error status.
    pub fn status(&self, status: u16, headers: &HeaderMap, body: &str) -> ModelError {
        let object = ErrorObject::from_body(body);
        let class = object.class(Some(status));
        let what = format!("answered HTTP {status}");
        let mut error = self.quoting(class, &what, &object.message);
        error.retry_after = retry_after(headers).or_else(|| retry::retry_delay(body));
        if status == 429 && class == ModelErrorClass::Quota && retry::retry_delay(body).is_some() {
            // Gemini speaks of a quota also where a minute's limit is meant: it then says for how long.
            error.class = ModelErrorClass::RateLimited;
        }
        error
    }

    /// An error object inside an answer of status 200 (A034).
    pub fn object(&self, object: &ErrorObject) -> ModelError {
        self.quoting(object.class(None), "reported an error", &object.message)
    }

    /// A transport failure: no connection, or it broke.
    pub fn network(&self, what: &str, error: reqwest::Error) -> ModelError {
        // The URL may carry a key; the sources say what went wrong.
        let error = error.without_url();
        let mut words = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !words.contains(&text) {
                words.push_str(": ");
                words.push_str(&text);
            }
            source = cause.source();
        }
        self.quoting(ModelErrorClass::Network, what, &words)
    }
}

fn advice(class: ModelErrorClass) -> Option<&'static str> {
    match class {
        ModelErrorClass::Auth => Some("check the profile's api_key"),
        ModelErrorClass::Quota => Some("check plan and balance at the provider"),
        ModelErrorClass::InvalidRequest => Some("check the profile's base_url and model"),
        ModelErrorClass::Protocol => Some(
            "check that base_url leads to a server of the profile's kind, up to and including /v1",
        ),
        ModelErrorClass::Network
        | ModelErrorClass::IdleTimeout
        | ModelErrorClass::RateLimited
        | ModelErrorClass::Overloaded
        | ModelErrorClass::Server
        | ModelErrorClass::ContextTooLong
        | ModelErrorClass::Truncated
        | ModelErrorClass::Empty
        | ModelErrorClass::MalformedCall
        | ModelErrorClass::Capability => None,
    }
}
