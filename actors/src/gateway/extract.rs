//! Bodies and queries, with errors in the API's form that name the field or the position.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use crate::channel::text::is_object;

/// A body has to be there within this time.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// The limit of a request's body, put into its extensions by the outer layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimit(pub usize);

/// Too large, by its announced or real length.
pub(super) fn too_large(limit: usize) -> ApiError {
    let message = format!("the body is larger than {limit} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
        .hint("send less, or raise gateway.body_limit_bytes")
}

/// Reads a body within its limits of size and time.
pub(super) async fn read_body(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    tokio::time::timeout(BODY_LIMIT, collect(body, limit)).await.unwrap_or_else(|_| {
        let message = "the body did not arrive in time; send the request again";
        Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message))
    })
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let mut chunks = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| {
            ApiError::bad_request("body_broken", "the body broke off; send the request again")
        })?;
        if whole.len() + chunk.len() > limit {
            return Err(too_large(limit));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}

/// Refuses bodies that don't call themselves JSON. A browser can't send that to a foreign page's taste
/// without asking first.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
    {
        return Ok(());
    }
    let shown = if essence.is_empty() { "no content type" } else { &essence };
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        format!("the body has {shown}"),
    )
    .hint("send `content-type: application/json`"))
}

/// Parses JSON; the error names the field or the position.
pub(super) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|_| {
        ApiError::bad_request("invalid_utf8", "the body is not valid UTF-8; send JSON in UTF-8")
    })?;
    if !is_object(text) {
        return Err(ApiError::bad_request(
            "invalid_field",
            "the body is not a JSON object, line 1",
        ));
    }
    serde_json::from_str(text).map_err(|error| json_error(&error))
}

/// A JSON error as clients read it.
pub(super) fn json_error(error: &serde_json::Error) -> ApiError {
    let code = match error.classify() {
        serde_json::error::Category::Data => "invalid_field",
        _ => "invalid_json",
    };
    ApiError::bad_request(code, format!("the body can't be used: {error}"))
}

/// A JSON body: 415, 413, 408 or 400 say what is wrong with it.
#[derive(Clone, Debug)]
pub struct ApiJson<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        require_json(request.headers())?;
        let limit = request.extensions().get::<BodyLimit>().map_or(65_536, |limit| limit.0);
        let bytes = read_body(request.into_body(), limit).await?;
        parse_json(&bytes).map(Self)
    }
}

/// The query: 400 names what is wrong with it.
#[derive(Clone, Debug)]
pub struct ApiQuery<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(rejection) => {
                let text = rejection.body_text();
                let what = text.strip_prefix("Failed to deserialize query string: ");
                let message = format!("the query can't be used: {}", what.unwrap_or(&text));
                Err(ApiError::bad_request("invalid_query", message)
                    .hint("parameters and their values are listed in messages/WIRE.md"))
            }
        }
    }
}
