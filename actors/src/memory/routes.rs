//! The operators' routes: list, search, show, forget.
//!
//! Viewers read, operators forget; what is forgotten is audited, its text is not.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use rookery_messages::caller::Caller;
use rookery_messages::ids::{AgentName, ConversationId, MemoryId};
use rookery_messages::memory::{
    Forget, Forgotten, ListQuery, MAX_ANSWER, Memory, MemoryError, MemoryFilter, MemoryScope,
    RecallQuery,
};
use rookery_messages::settings::AuthRole;
use rookery_messages::store::AuditRow;
use rookery_messages::time::World;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::gateway::{ApiError, ApiQuery};

/// Entries, if the caller doesn't say.
const DEFAULT_LIMIT: u32 = 100;

/// Takes a row for the audit. Must not block.
pub type AuditHook = Arc<dyn Fn(AuditRow) + Send + Sync>;

struct Routes {
    memory: Arc<dyn Memory>,
    world: World,
    audit: AuditHook,
}

/// The routes. Nothing is answered without a [`Caller`] in the request's extensions.
pub fn router(memory: Arc<dyn Memory>, world: World, audit: AuditHook) -> Router {
    Router::new()
        .route("/admin/v1/memory", get(list).delete(forget))
        .route("/admin/v1/memory/coverage", get(coverage))
        .route("/admin/v1/memory/{id}", get(show).delete(forget_one))
        .with_state(Arc::new(Routes { memory, world, audit }))
}

/// Which entries are meant.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    agent: Option<String>,
    /// `agent` or `session`.
    scope: Option<String>,
    /// Our id of the conversation, for the scope `session`.
    conversation_id: Option<String>,
    category: Option<String>,
    source: Option<String>,
    key: Option<String>,
    /// Words to look for; then the answer has scores, the best first.
    query: Option<String>,
    /// Superseded versions too.
    #[serde(default)]
    all: bool,
    before: Option<String>,
    limit: Option<u32>,
}

impl Params {
    fn filter(&self) -> Result<MemoryFilter, ApiError> {
        let session = parsed::<ConversationId>("conversation_id", self.conversation_id.as_deref())?;
        let scopes = match (self.scope.as_deref(), session) {
            (None, None) => None,
            (Some("agent"), None) => Some(vec![MemoryScope::Agent]),
            (None | Some("session"), Some(id)) => Some(vec![MemoryScope::Session(id)]),
            _ => {
                let message = "`scope` is `agent`, or `session` with a `conversation_id`";
                return Err(ApiError::bad_request("invalid_query", message));
            }
        };
        Ok(MemoryFilter {
            agent: self.agent.clone().map(AgentName),
            scopes,
            category: parsed("category", self.category.as_deref())?,
            source: parsed("source", self.source.as_deref())?,
            ..MemoryFilter::default()
        })
    }

    fn limit(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_ANSWER)
    }
}

fn parsed<T: FromStr>(field: &str, text: Option<&str>) -> Result<Option<T>, ApiError>
where
    T::Err: std::fmt::Display,
{
    text.map(str::parse).transpose().map_err(|error| {
        ApiError::bad_request("invalid_query", format!("`{field}` can't be used: {error}"))
    })
}

type AnyCaller = Option<Extension<Caller>>;

fn authorise(caller: AnyCaller, least: AuthRole, what: &str) -> Result<Caller, ApiError> {
    let Some(Extension(caller)) = caller else {
        let message = format!("a token is needed to {what}");
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
            .hint("send `Authorization: Bearer <token>`"));
    };
    if caller.role < least {
        let message = format!("role {} may not {what}", caller.role.as_str());
        return Err(ApiError::forbidden(message)
            .hint(format!("use a token of role {} or above", least.as_str())));
    }
    Ok(caller)
}

fn error(error: MemoryError) -> ApiError {
    let status = match &error {
        MemoryError::Invalid(_) => StatusCode::BAD_REQUEST,
        MemoryError::Full { .. } => StatusCode::CONFLICT,
        MemoryError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        MemoryError::Busy
        | MemoryError::Timeout
        | MemoryError::Unavailable(_)
        | MemoryError::Closed
        | MemoryError::Corrupt(_)
        | MemoryError::Newer { .. } => StatusCode::SERVICE_UNAVAILABLE,
    };
    ApiError::new(status, error.code(), error.to_string())
}

/// `GET /admin/v1/memory`: the newest first; with `query` the best match first.
async fn list(
    State(routes): State<Arc<Routes>>,
    caller: AnyCaller,
    ApiQuery(params): ApiQuery<Params>,
) -> Result<Response, ApiError> {
    authorise(caller, AuthRole::Viewer, "read the memory")?;
    let (filter, limit) = (params.filter()?, params.limit());
    if let Some(text) = params.query {
        if params.key.is_some() || params.before.is_some() || params.all {
            let message = "`query` does not go with `key`, `before` and `all`";
            return Err(ApiError::bad_request("invalid_query", message));
        }
        let found =
            routes.memory.recall(RecallQuery { filter, text, limit }).await.map_err(error)?;
        return Ok(Json(found).into_response());
    }
    let before = parsed("before", params.before.as_deref())?;
    let query = ListQuery { filter, key: params.key, superseded: params.all, before, limit };
    Ok(Json(routes.memory.list(query).await.map_err(error)?).into_response())
}

/// `GET /admin/v1/memory/<id>`.
async fn show(
    State(routes): State<Arc<Routes>>,
    caller: AnyCaller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    authorise(caller, AuthRole::Viewer, "read the memory")?;
    let unknown = || ApiError::not_found("memory");
    let id: MemoryId = id.parse().map_err(|_| unknown())?;
    let entry = routes.memory.get(id).await.map_err(error)?.ok_or_else(unknown)?;
    Ok(Json(entry).into_response())
}

/// `GET /admin/v1/memory/coverage`: `{entries, meanings: {model, read, refused, missing, trouble?} | null}`;
/// null if the backend can't tell.
async fn coverage(
    State(routes): State<Arc<Routes>>,
    caller: AnyCaller,
) -> Result<Response, ApiError> {
    authorise(caller, AuthRole::Viewer, "read the memory")?;
    Ok(Json(routes.memory.coverage().await.map_err(error)?).into_response())
}

/// `DELETE /admin/v1/memory/<id>`: the entry with all its versions.
async fn forget_one(
    State(routes): State<Arc<Routes>>,
    caller: AnyCaller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let caller = authorise(caller, AuthRole::Operator, "forget")?;
    let unknown = || ApiError::not_found("memory");
    let id: MemoryId = id.parse().map_err(|_| unknown())?;
    let what = Forget { filter: MemoryFilter::default(), what: Forgotten::Id(id) };
    match routes.forget(&caller, what, id.to_string(), json!({})).await? {
        0 => Err(unknown()),
        gone => Ok(Json(json!({ "forgotten": gone }))),
    }
}

/// `DELETE /admin/v1/memory?…`: all that the query names, with all versions. It has to name something.
async fn forget(
    State(routes): State<Arc<Routes>>,
    caller: AnyCaller,
    ApiQuery(params): ApiQuery<Params>,
) -> Result<Json<Value>, ApiError> {
    let caller = authorise(caller, AuthRole::Operator, "forget")?;
    if params.query.is_some() || params.before.is_some() || params.limit.is_some() || params.all {
        let message = "what is forgotten is named by agent, scope, category, source and key alone";
        return Err(ApiError::bad_request("invalid_query", message));
    }
    let filter = params.filter()?;
    if filter == MemoryFilter::default() && params.key.is_none() {
        let message = "nothing is named that is to be forgotten";
        return Err(ApiError::bad_request("invalid_query", message)
            .hint("name an agent, a scope, a category, a source or a key"));
    }
    let detail = json!({
        "agent": params.agent,
        "scope": params.scope,
        "conversation_id": params.conversation_id,
        "category": params.category,
        "source": params.source,
    });
    let target = params.key.clone().unwrap_or_else(|| "*".to_owned());
    let what = params.key.map_or(Forgotten::All, Forgotten::Key);
    let gone = routes.forget(&caller, Forget { filter, what }, target, detail).await?;
    Ok(Json(json!({ "forgotten": gone })))
}

impl Routes {
    async fn forget(
        &self,
        caller: &Caller,
        what: Forget,
        target: String,
        mut detail: Value,
    ) -> Result<u64, ApiError> {
        let gone = self.memory.forget(what).await.map_err(error)?;
        detail["forgotten"] = json!(gone);
        (self.audit)(AuditRow {
            at: self.world.now(),
            who: caller.name.clone(),
            via: caller.via.clone(),
            action: "memory.forget".to_owned(),
            target,
            detail,
        });
        Ok(gone)
    }
}
