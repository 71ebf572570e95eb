//! `{error: {code, message, hint?}}` with the right status, for everything that goes wrong.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rookery_messages::channel::IntakeError;
use rookery_messages::store::StoreError;
use serde_json::{Value, json};

use crate::channel::ReceiveError;
use crate::channel::text::TextError;

/// Seconds a caller is asked to wait when something is unavailable.
const RETRY_SECS: u64 = 2;

/// A refusal as clients read it.
#[derive(Clone, PartialEq, Debug)]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// Stable word.
    pub code: String,
    /// What was tried, and what is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// When to try again, in seconds.
    pub retry_after: Option<u64>,
    /// Further fields of the body, beside `error`.
    pub details: Option<Box<serde_json::Map<String, Value>>>,
}

impl ApiError {
    /// From its parts.
    pub fn new(status: StatusCode, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.into(),
            message: message.into(),
            hint: None,
            retry_after: None,
            details: None,
        }
    }

    /// With advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With a time to come back.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// With another field beside `error`.
    #[must_use]
    pub fn detail(mut self, key: &str, value: Value) -> Self {
        self.details.get_or_insert_default().insert(key.to_owned(), value);
        self
    }

    /// 400.
    pub fn bad_request(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 404 for a thing that is not there, or that the caller may not see.
    pub fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no such {what}"))
    }

    /// 403 for a role that does not suffice.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// The body.
    pub fn body(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(hint) = &self.hint {
            error["hint"] = Value::String(hint.clone());
        }
        let mut body = serde_json::Map::new();
        body.insert("error".to_owned(), error);
        body.extend(self.details.as_deref().cloned().unwrap_or_default());
        Value::Object(body)
    }

    /// The error of a status that something below us answered with, with what it said.
    pub fn of_status(status: StatusCode, said: &str) -> Self {
        let reason = status.canonical_reason().unwrap_or("error").to_lowercase();
        let said = said.trim();
        let message = if said.is_empty() { reason.clone() } else { said.to_owned() };
        let error = Self::new(status, reason.replace([' ', '-'], "_"), message);
        match status {
            StatusCode::NOT_FOUND => error.hint("the routes are listed in deploy/README.md"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                error.hint("send `content-type: application/json`")
            }
            _ => error,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"rookery\"");
            headers.insert(axum::http::header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let (code, message) = (error.code(), error.to_string());
        match error {
            StoreError::NotFound => Self::new(StatusCode::NOT_FOUND, code, message),
            StoreError::Conflict(_) | StoreError::Stale => {
                Self::new(StatusCode::CONFLICT, code, message)
            }
            StoreError::Failed(_) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, code, message),
            _ => Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message).retry_after(RETRY_SECS),
        }
    }
}

impl From<ReceiveError> for ApiError {
    fn from(error: ReceiveError) -> Self {
        let message = error.to_string();
        let unavailable = |code: &str, seconds| {
            Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message.clone()).retry_after(seconds)
        };
        match error {
            ReceiveError::Refused(IntakeError::Paused) => unavailable("paused", 10),
            ReceiveError::Refused(IntakeError::Draining) => unavailable("draining", 10),
            ReceiveError::Refused(IntakeError::Store(error)) => error.into(),
            ReceiveError::Busy => unavailable("busy", RETRY_SECS),
            ReceiveError::Down => unavailable("restarting", RETRY_SECS),
        }
    }
}

impl From<TextError> for ApiError {
    fn from(error: TextError) -> Self {
        Self::bad_request(error.code(), error.to_string())
    }
}
