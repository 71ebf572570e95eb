//! Admin routes on the tree: look, stop, kill, restart, pause, resume (DESIGN.md, section 7).
//!
//! The gateway authenticates and puts a [`Caller`] into each request; here its role is judged. Viewers
//! read, operators pause and resume, admins stop, kill and restart. Every operation is audited, whether
//! it was done or refused.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Extension, FromRequest, Json, Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{RequestExt, Router};
use rookery_messages::BoxFuture;
use rookery_messages::caller::Caller;
use rookery_messages::settings::AuthRole;
use rookery_messages::store::AuditRow;
use rookery_messages::time::World;
use rookery_messages::tool::head;
use serde::Deserialize;
use serde_json::json;

use crate::inspect::{InspectError, Inspector, Operation};

/// Most characters of a reason that are kept.
const REASON: usize = 500;

/// Writes a row for the audit; resolves when it is written, or can't be. Bounded in time: an order has to get
/// through where the store is what is broken.
pub type AuditHook = Arc<dyn Fn(AuditRow) -> BoxFuture<'static, ()> + Send + Sync>;

struct Admin {
    inspector: Inspector,
    world: World,
    audit: AuditHook,
}

/// The routes. Nothing is answered without a [`Caller`] in the request's extensions.
pub fn router(inspector: Inspector, world: World, audit: AuditHook) -> Router {
    Router::new()
        .route("/admin/v1/tree", get(tree))
        .route("/admin/v1/actors/{*path}", get(actor).post(operate))
        .with_state(Arc::new(Admin { inspector, world, audit }))
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(default)]
    reason: Option<String>,
}

/// An answer that is not the wanted one: `{error: {code, message, hint?}}`.
struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<InspectError> for Refusal {
    fn from(error: InspectError) -> Self {
        let status = match &error {
            InspectError::NotFound(_) => StatusCode::NOT_FOUND,
            InspectError::Unreachable(_) => StatusCode::SERVICE_UNAVAILABLE,
            InspectError::Root(_)
            | InspectError::Lifeline(_)
            | InspectError::NotPausable(_)
            | InspectError::NotRestartable(_)
            | InspectError::Down { .. } => StatusCode::CONFLICT,
        };
        Self::new(status, error.code(), error.to_string()).hint(error.hint())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(hint) = self.hint {
            error["hint"] = hint.into();
        }
        (self.status, Json(json!({ "error": error }))).into_response()
    }
}

type AnyCaller = Option<Extension<Caller>>;

fn authorise(caller: AnyCaller, needed: AuthRole, what: &str) -> Result<Caller, Refusal> {
    let Some(Extension(caller)) = caller else {
        let message = format!("a token is needed to {what}");
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
            .hint("send `Authorization: Bearer <token>`"));
    };
    if caller.role < needed {
        let message = format!("role {} may not {what}", caller.role.as_str());
        return Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", message)
            .hint(format!("use a token of role {} or above", needed.as_str())));
    }
    Ok(caller)
}

async fn tree(State(admin): State<Arc<Admin>>, caller: AnyCaller) -> Result<Response, Refusal> {
    authorise(caller, AuthRole::Viewer, "read the tree")?;
    let snapshot = admin.inspector.snapshot().ok_or_else(|| {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "no_tree", "the tree has not started")
            .hint("try again in a moment")
    })?;
    Ok(Json(snapshot).into_response())
}

async fn actor(
    State(admin): State<Arc<Admin>>,
    caller: AnyCaller,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, Refusal> {
    authorise(caller, AuthRole::Viewer, "read an actor")?;
    let path = readable(path)?;
    Ok(Json(admin.inspector.node(path.trim_end_matches('/')).await?).into_response())
}

async fn operate(
    State(admin): State<Arc<Admin>>,
    caller: AnyCaller,
    target: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let target = match readable(target) {
        Ok(target) => target,
        Err(refusal) => {
            authorise(caller, AuthRole::Viewer, "act on an actor")?;
            return Err(refusal);
        }
    };
    let split = target.rsplit_once('/');
    let known = split.and_then(|(path, word)| Some((path, Operation::parse(word)?)));
    let Some((path, operation)) = known else {
        authorise(caller, AuthRole::Viewer, "act on an actor")?;
        let message = format!("no operation at the end of {}", head(&target, REASON));
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_such_operation", message)
            .hint("end the path with stop, kill, restart, pause or resume"));
    };
    let needed = match operation {
        Operation::Pause | Operation::Resume => AuthRole::Operator,
        Operation::Stop | Operation::Kill | Operation::Restart => AuthRole::Admin,
    };
    let name = caller.as_ref().map(|Extension(caller)| caller.clone());
    let caller = match authorise(caller, needed, &format!("{} an actor", operation.as_str())) {
        Ok(caller) => caller,
        Err(refusal) => {
            // An attempt by somebody known is worth a row; one by nobody is the gateway's to count.
            if let Some(caller) = name {
                admin.note(&caller, operation, path, None, refusal.code).await;
            }
            return Err(refusal);
        }
    };
    let reason = read_body(request).await?.reason;
    let reason = reason.as_deref().map(|reason| head(reason, REASON));
    // The row comes first: what is ended may be what would write it.
    let judged = admin.inspector.judge(operation, path);
    let result = judged.as_ref().map_or_else(InspectError::code, |_| "done");
    admin.note(&caller, operation, path, reason, result).await;
    if let Err(error) = judged?.perform(&caller.name) {
        admin.note(&caller, operation, path, reason, error.code()).await;
        return Err(error.into());
    }
    let accepted = json!({ "path": path, "operation": operation, "accepted": true });
    Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
}

fn readable(path: Result<Path<String>, PathRejection>) -> Result<String, Refusal> {
    path.map(|Path(path)| path).map_err(|rejection| {
        Refusal::new(rejection.status(), "bad_path", rejection.body_text())
            .hint("use a path as the tree shows it, percent-encoded UTF-8")
    })
}

impl Admin {
    async fn note(
        &self,
        caller: &Caller,
        operation: Operation,
        path: &str,
        reason: Option<&str>,
        result: &str,
    ) {
        (self.audit)(AuditRow {
            at: self.world.now(),
            who: caller.name.clone(),
            via: caller.via.clone(),
            action: format!("actor.{}", operation.as_str()),
            target: head(path, REASON).to_owned(),
            detail: json!({ "reason": reason, "result": result }),
        })
        .await;
    }
}

/// The body may be left out; if it is there it has to be right.
async fn read_body(request: Request) -> Result<Body, Refusal> {
    let typed = request.headers().contains_key(CONTENT_TYPE);
    let bad = |rejection: JsonRejection| {
        let (status, code) = match &rejection {
            JsonRejection::JsonDataError(_) => (StatusCode::BAD_REQUEST, "invalid_field"),
            JsonRejection::JsonSyntaxError(_) => (StatusCode::BAD_REQUEST, "invalid_json"),
            JsonRejection::MissingJsonContentType(_) => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
            }
            other => (other.status(), "body_broken"),
        };
        Refusal::new(status, code, rejection.body_text())
            .hint("send {\"reason\": \"…\"} as application/json, or nothing")
    };
    if typed {
        return Json::<Body>::from_request(request, &()).await.map(|Json(body)| body).map_err(bad);
    }
    let bytes = request.extract::<Bytes, _>().await.map_err(|rejection| {
        Refusal::new(rejection.status(), "body_broken", rejection.body_text())
    })?;
    if bytes.is_empty() {
        return Ok(Body::default());
    }
    Json::<Body>::from_bytes(&bytes).map(|Json(body)| body).map_err(bad)
}

#[cfg(test)]
mod tests;
