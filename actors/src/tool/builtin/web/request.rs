//! `http_request`: one HTTP request, its answer as it came.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rookery_messages::BoxFuture;
use rookery_messages::tool::{CallEffects, Effects, Tool, ToolContext, ToolResult, ToolSpec, head};
use serde_json::{Value, json};

use super::super::args::{self, Arguments};
use super::body::{self, Body};
use super::{CALL_TIME, REQUEST_TIME, Web};
use crate::policy::network::client::{WebAnswer, WebRequest};

/// Most bytes of an answer's body.
const MAX_BODY: usize = 1_048_576;
/// Most bytes of the answer's headers shown.
const MAX_HEADERS: usize = 8_192;
/// Headers a call may not set: they say where the request goes, or how it is framed.
const OWN_HEADERS: [&str; 9] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "keep-alive",
    "expect",
];

/// The tool.
pub(super) struct HttpRequest {
    spec: Arc<ToolSpec>,
    web: Web,
}

impl HttpRequest {
    pub(super) fn new(web: Web) -> Self {
        let spec = super::super::spec(
            "http_request",
            "Sends one HTTP request and gives status, headers and body. Redirects of GET and HEAD are followed.",
            json!({
                "url": {"type": "string", "description": "The address: http:// or https://."},
                "method": {"type": "string", "enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"], "description": "Default: GET."},
                "headers": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Headers to send."},
                "body": {"type": "string", "description": "The body, as it is to be sent. Not for GET and HEAD."},
            }),
            &["url"],
        );
        Self { spec, web }
    }
}

impl Tool for HttpRequest {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
    }

    fn effects(&self, arguments: &Arguments) -> CallEffects {
        let (Ok(url), Ok(method)) = (args::required(arguments, "url"), method(arguments)) else {
            return CallEffects::unknown();
        };
        let reads = matches!(method, Method::GET | Method::HEAD);
        // What a server does on a write is not ours to know, nor whether it may be repeated.
        super::reaching(if reads { Effects::ReadOnly } else { Effects::Once }, Some(url))
    }

    fn timeout(&self, _: &Arguments) -> Duration {
        CALL_TIME
    }

    fn execute<'a>(
        &'a self,
        arguments: &'a Arguments,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let request = match request(arguments) {
                Ok(request) => request,
                Err(failed) => return failed,
            };
            match self.web.send(cx, request).await {
                Ok(answer) => {
                    let shown = shown(&answer);
                    ToolResult::ok(self.web.framer.frame(cx.turn, answer.url.as_str(), &shown))
                }
                Err(failed) => failed,
            }
        })
    }
}

fn method(arguments: &Arguments) -> Result<Method, ToolResult> {
    let name = args::optional(arguments, "method")?.unwrap_or("GET").to_ascii_uppercase();
    match name.as_str() {
        "GET" => Ok(Method::GET),
        "HEAD" => Ok(Method::HEAD),
        "POST" => Ok(Method::POST),
        "PUT" => Ok(Method::PUT),
        "PATCH" => Ok(Method::PATCH),
        "DELETE" => Ok(Method::DELETE),
        _ => Err(args::invalid("method", "GET, HEAD, POST, PUT, PATCH or DELETE")),
    }
}

fn request(arguments: &Arguments) -> Result<WebRequest, ToolResult> {
    let url = args::required(arguments, "url")?.to_owned();
    let method = method(arguments)?;
    let body = args::optional(arguments, "body")?.map(|text| text.as_bytes().to_vec());
    if body.is_some() && matches!(method, Method::GET | Method::HEAD) {
        return Err(args::invalid("body", "left out for GET and HEAD"));
    }
    let headers = headers(arguments)?;
    Ok(WebRequest { method, url, headers, body, limit: MAX_BODY, time: REQUEST_TIME })
}

fn headers(arguments: &Arguments) -> Result<HeaderMap, ToolResult> {
    let wrong =
        || args::invalid("headers", "an object of texts, with names and values HTTP allows");
    let given = match arguments.get("headers") {
        None | Some(Value::Null) => return Ok(HeaderMap::new()),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(wrong()),
    };
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        if OWN_HEADERS.contains(&name.as_str()) || name.as_str().starts_with("proxy-") {
            return Err(args::invalid(
                "headers",
                &format!("without `{name}`, which the service sets"),
            ));
        }
        let value = value.as_str().and_then(|text| HeaderValue::from_str(text).ok());
        headers.insert(name, value.ok_or_else(wrong)?);
    }
    Ok(headers)
}

/// Status, headers, an empty line, the body.
fn shown(answer: &WebAnswer) -> String {
    let mut lines = format!("HTTP {}\n", answer.status);
    let mut headers = String::new();
    for (name, value) in &answer.headers {
        headers.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    }
    lines.push_str(head(&headers, MAX_HEADERS));
    lines.push('\n');
    match body::read(&answer.headers, &answer.body, answer.cut) {
        Body::Html(text) | Body::Text(text) => lines.push_str(&text),
        Body::Binary(_) if answer.body.is_empty() => {}
        Body::Binary(what) => {
            lines.push_str(&format!("[{} bytes, {what}; not shown]", answer.body.len()));
        }
    }
    if answer.cut {
        lines.push_str(&format!("\n[the body goes on; only {MAX_BODY} bytes were read]"));
    }
    lines
}
