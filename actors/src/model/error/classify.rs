//! What kind of failure a provider's error is. Decided from status and code first, wording last.

use rookery_messages::model::ModelErrorClass;
use serde_json::Value;

/// An error as a provider wrote it, in whichever of the usual forms.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ErrorObject {
    /// A status inside the object.
    pub status: Option<u16>,
    /// Its `type`, `code` and `status` words, in lower case.
    pub kinds: Vec<String>,
    /// Its text.
    pub message: String,
}

impl ErrorObject {
    /// From the value of an `error` field, or an object that is an error itself.
    pub fn from_value(value: &Value) -> Self {
        let mut object = Self::default();
        match value {
            Value::Object(_) => object.read(value),
            Value::String(text) => text.clone_into(&mut object.message),
            _ => {}
        }
        if object.message.is_empty() {
            object.message = value.to_string();
        }
        object
    }

    /// From the body of an answer with an error status: JSON in some form, or any text.
    pub fn from_body(body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            return Self { message: body.to_owned(), ..Self::default() };
        };
        let value = match &value {
            Value::Array(items) => items.first().unwrap_or(&value),
            _ => &value,
        };
        match error_field(value) {
            Some(error) => {
                let mut object = Self::from_value(error);
                // Some write `{"error": "short", "message": "long"}`.
                if error.is_string()
                    && let Some(more) = value.get("message").and_then(Value::as_str)
                {
                    object.message = format!("{}: {more}", object.message);
                }
                object
            }
            None => Self::from_value(value),
        }
    }

    /// The class, given the answer's own status if that was an error.
    pub fn class(&self, status: Option<u16>) -> ModelErrorClass {
        let status = status.or(self.status).filter(|status| *status >= 400);
        let words = self.message.to_lowercase();
        let said = |list: &[&str]| list.iter().any(|phrase| words.contains(phrase));
        let kind = |list: &[&str]| {
            self.kinds.iter().any(|kind| list.iter().any(|part| kind.contains(part)))
        };
        let refused = matches!(status, Some(401..=403));
        if said(&["api key not valid"]) {
            return ModelErrorClass::Auth;
        }
        if said(&["credit balance is too low"]) {
            return ModelErrorClass::Quota;
        }
        if !refused && (kind(&CONTEXT_KINDS) || said(&CONTEXT_WORDS)) {
            return ModelErrorClass::ContextTooLong;
        }
        let limit = kind(&RATE_KINDS);
        // A plain rate limit often points to the billing page (V-L4 means the plan is used up).
        let plan_words = matches!(status, Some(401 | 403 | 429))
            && words
                .split(|c: char| !c.is_alphanumeric())
                .any(|word| matches!(word, "plan" | "balance" | "credits"));
        if status == Some(402)
            || kind(&QUOTA_KINDS)
            || !limit && (plan_words || status.is_none_or(may_be_quota) && said(&QUOTA_WORDS))
        {
            return ModelErrorClass::Quota;
        }
        if status != Some(429) && !refused && (kind(&["overloaded"]) || said(&["overloaded"])) {
            return ModelErrorClass::Overloaded;
        }
        match status {
            Some(401 | 403) => ModelErrorClass::Auth,
            Some(408) => ModelErrorClass::Server,
            Some(429) => ModelErrorClass::RateLimited,
            Some(529) => ModelErrorClass::Overloaded,
            Some(400..500) => ModelErrorClass::InvalidRequest,
            Some(_) => ModelErrorClass::Server,
            None if kind(&AUTH_KINDS) => ModelErrorClass::Auth,
            None if limit => ModelErrorClass::RateLimited,
            None if kind(&INVALID_KINDS) => ModelErrorClass::InvalidRequest,
            None => ModelErrorClass::Server,
        }
    }

    fn read(&mut self, value: &Value) {
        for name in ["type", "code", "status"] {
            match value.get(name) {
                Some(Value::String(text)) => match text.parse() {
                    Ok(status) => self.status = Some(status),
                    Err(_) => self.kinds.push(text.to_lowercase()),
                },
                Some(Value::Number(number)) => {
                    self.status = number.as_u64().and_then(|status| u16::try_from(status).ok());
                }
                _ => {}
            }
        }
        if let Some(text) = ["message", "detail", "error", "msg"]
            .into_iter()
            .find_map(|name| value.get(name).and_then(Value::as_str))
        {
            text.clone_into(&mut self.message);
        }
        // A router's own text says little; the real provider's stands beside it.
        if let Some(raw) = value.pointer("/metadata/raw").and_then(Value::as_str) {
            self.message = format!("{}: {raw}", self.message);
        }
    }
}

/// The `error` field, if it holds an error: null, false, `""` and `{}` are none.
pub(crate) fn error_field(value: &Value) -> Option<&Value> {
    let error = value.get("error")?;
    match error {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if text.is_empty() => None,
        Value::Object(map) if map.is_empty() => None,
        error => Some(error),
    }
}

fn may_be_quota(status: u16) -> bool {
    matches!(status, 401 | 403 | 429)
}

const CONTEXT_KINDS: [&str; 5] = [
    "context_length",
    "context_window",
    "exceed_context_size",
    "prompt_too_long",
    "request_too_large",
];
const CONTEXT_WORDS: [&str; 10] = [
    "context length",
    "context window",
    "context_length",
    "context size",
    "maximum context",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input token count",
    "request too large",
];
const RATE_KINDS: [&str; 4] = ["rate_limit", "ratelimit", "too_many_requests", "throttl"];
const QUOTA_KINDS: [&str; 4] =
    ["insufficient_quota", "quota_exceeded", "billing_", "insufficient_balance"];
const QUOTA_WORDS: [&str; 5] =
    ["quota", "insufficient balance", "insufficient credit", "credit balance", "out of credits"];
const AUTH_KINDS: [&str; 5] =
    ["api_key", "authentication", "permission", "unauthenticated", "unauthorized"];
const INVALID_KINDS: [&str; 4] = ["invalid", "not_found", "bad_request", "unsupported"];

#[cfg(test)]
mod tests {
    use super::*;
    use ModelErrorClass as Class;

    // V-L2, V-L3, V-L4, V-L24
    #[test]
    fn statuses_and_bodies_have_their_class() {
        for (status, body, want) in [
            (
                401,
                r#"{"error":{"message":"Incorrect API key","type":"invalid_request_error","code":"invalid_api_key"}}"#,
                Class::Auth,
            ),
            (403, "forbidden", Class::Auth),
            (403, r#"{"error":{"message":"Your plan does not include this model"}}"#, Class::Quota),
            (
                404,
                r#"{"error":{"code":"model_not_found","message":"no such model"}}"#,
                Class::InvalidRequest,
            ),
            (
                400,
                r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#,
                Class::ContextTooLong,
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens"}}"#,
                Class::ContextTooLong,
            ),
            (400, r#"{"error":{"type":"exceed_context_size_error"}}"#, Class::ContextTooLong),
            (400, r#"{"detail":"bad schema"}"#, Class::InvalidRequest),
            (
                400,
                r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
                Class::Auth,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#,
                Class::Quota,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
                Class::ContextTooLong,
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
                Class::ContextTooLong,
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Class::Overloaded,
            ),
            (422, "", Class::InvalidRequest),
            (402, "", Class::Quota),
            (408, "", Class::Server),
            (500, "<html>oops</html>", Class::Server),
            (
                503,
                r#"{"error":{"message":"The engine is currently overloaded"}}"#,
                Class::Overloaded,
            ),
            (503, "", Class::Server),
            (529, "", Class::Overloaded),
            (
                429,
                r#"{"error":{"message":"slow down","type":"tokens","code":"rate_limit_exceeded"}}"#,
                Class::RateLimited,
            ),
            (
                429,
                r#"{"error":{"message":"Rate limit reached. Add a payment method to raise your plan.","code":"rate_limit_exceeded"}}"#,
                Class::RateLimited,
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
                Class::Quota,
            ),
            (
                429,
                r#"[{"error":{"code":429,"message":"check your plan and billing details","status":"RESOURCE_EXHAUSTED"}}]"#,
                Class::Quota,
            ),
            (429, r#"{"message":"Insufficient balance"}"#, Class::Quota),
            (
                429,
                r#"{"error":{"message":"Request too large for the model: tokens per minute","code":"rate_limit_exceeded"}}"#,
                Class::ContextTooLong,
            ),
            (429, "too many", Class::RateLimited),
        ] {
            assert_eq!(ErrorObject::from_body(body).class(Some(status)), want, "{status} {body}");
        }
    }

    // A034
    #[test]
    fn objects_inside_a_stream_have_their_class() {
        for (object, want) in [
            (r#"{"type":"overloaded_error","message":"Overloaded"}"#, Class::Overloaded),
            (r#"{"type":"invalid_request_error","message":"no"}"#, Class::InvalidRequest),
            (r#"{"type":"invalid_request_error","code":"invalid_api_key"}"#, Class::Auth),
            (r#"{"type":"rate_limit_error"}"#, Class::RateLimited),
            (r#"{"code":502,"message":"x"}"#, Class::Server),
            (r#"{"code":"429","message":"x"}"#, Class::RateLimited),
            (r#"{"code":"insufficient_quota"}"#, Class::Quota),
            (r#"{"code":"context_length_exceeded"}"#, Class::ContextTooLong),
            (r#""boom""#, Class::Server),
        ] {
            let value = serde_json::from_str(object).unwrap();
            assert_eq!(ErrorObject::from_value(&value).class(None), want, "{object}");
        }
    }

    #[test]
    fn the_text_of_each_form_is_found() {
        for (body, want) in [
            (r#"{"error":"short","message":"long"}"#, "short: long"),
            (
                r#"{"error":{"message":"router","metadata":{"raw":"upstream said"}}}"#,
                "router: upstream said",
            ),
            (r#"{"detail":"d"}"#, "d"),
            ("plain", "plain"),
            (r#"{"x":1}"#, r#"{"x":1}"#),
        ] {
            assert_eq!(ErrorObject::from_body(body).message, want, "{body}");
        }
    }
}
