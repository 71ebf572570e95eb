//! What differs between the wire protocols.

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, InvalidHeaderValue};
use rookery_messages::attachment::Images;
use rookery_messages::chat::{ChatMessage, Origin};
use rookery_messages::settings::{ProviderSettings, Secret};
use serde_json::Value;

use super::Ease;
use crate::model::error::Upstream;
use crate::model::offer::Offer;
use crate::model::schema::{Lowered, lower};
use crate::model::stream::Reading;

/// One request, before it has a form.
pub(in crate::model) struct Ask<'a> {
    /// Who is asked: its model, and whose opaque blocks may go there.
    pub(in crate::model) origin: &'a Origin,
    /// The conversation, well-formed.
    pub(in crate::model) messages: &'a [ChatMessage],
    /// The images that go along, by the paths of the messages' attachments.
    pub(in crate::model) images: &'a Images,
    /// The tools on offer.
    pub(in crate::model) offers: &'a [Offer],
    /// What is left out.
    pub(in crate::model) ease: &'a Ease,
}

/// Why a request can't be sent.
#[derive(Debug, thiserror::Error)]
pub(in crate::model) enum Unsendable {
    /// It has no JSON form.
    #[error("the request has no JSON form ({0})")]
    Json(#[from] serde_json::Error),
    /// The provider would refuse it (I4).
    #[error("the request is malformed: {0}")]
    Malformed(String),
}

/// A wire protocol.
pub(in crate::model) trait Dialect: Send + Sync + Sized + 'static {
    /// Its name in the configuration.
    const KIND: &'static str;
    /// Reads its streams.
    type Reader: Reading;

    /// From the profile's settings.
    fn new(settings: &ProviderSettings) -> Self;

    /// The address of its one call. None if `base` is unusable.
    fn endpoint(base: Option<&str>, model: &str) -> Option<Url>;

    /// Puts the key, and what else the API wants, into the headers.
    fn sign(key: Option<&Secret>, headers: &mut HeaderMap) -> Result<(), InvalidHeaderValue> {
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(())
    }

    /// A tool's schema as the API takes it.
    fn lower(schema: &Value) -> Lowered {
        lower(schema)
    }

    /// The body's bytes, checked as the last thing before they are sent (I4). Deterministic.
    fn body(&self, ask: &Ask<'_>) -> Result<Vec<u8>, Unsendable>;

    /// A reader for one response.
    fn reader(&self, upstream: Upstream, origin: &Origin) -> Self::Reader;
}

/// An address below `base`, whose query is kept (some gateways need one). A base without a path gets
/// `version` first; one that ends in the call already is left as it is.
pub(in crate::model) fn endpoint_in(base: &str, version: &str, call: &[&str]) -> Option<Url> {
    let mut url = Url::parse(base.trim()).ok()?;
    if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
        return None;
    }
    let bare = url.path().trim_matches('/').is_empty();
    if !url.path().trim_end_matches('/').ends_with(&format!("/{}", call.join("/"))) {
        let mut path = url.path_segments_mut().ok()?;
        path.pop_if_empty();
        if bare && !version.is_empty() {
            path.push(version);
        }
        path.extend(call);
    }
    Some(url)
}
