//! The table of routes, and the layers around them.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};

use super::deps::Shared;
use super::error::ApiError;
use super::{
    admin, approvals, conversations, events, grants, guard, hooks, page, pairings, probes,
    receipts, send, turns, ws,
};

/// Everything the gateway serves.
pub(super) fn build(shared: &Arc<Shared>) -> Router {
    let mut app = Router::new()
        .route("/livez", get(probes::livez))
        .route("/readyz", get(probes::readyz))
        .route("/metrics", get(probes::metrics))
        .route("/v1/channels/webhook/{alias}", post(hooks::receive))
        .route("/v1/turns", get(turns::list))
        .route("/v1/turns/{id}", get(turns::show))
        .route("/v1/turns/{id}/events", get(events::stream))
        .route("/v1/turns/{id}/cancel", post(turns::cancel))
        .route("/v1/conversations/{channel}/{conversation}/messages", get(conversations::messages))
        .route("/v1/conversations", get(conversations::list))
        .route("/v1/ws", get(ws::upgrade))
        .route("/admin/v1/approvals", get(approvals::list))
        .route("/admin/v1/approvals/{id}", post(approvals::decide))
        .route("/admin/v1/grants", get(grants::list))
        .route("/admin/v1/grants/{id}", delete(grants::revoke))
        .route("/admin/v1/pairings", get(pairings::list).post(pairings::code))
        .route("/admin/v1/pairings/{channel}/{sender}", delete(pairings::revoke))
        .route("/admin/v1/channels", get(pairings::channels))
        .route("/admin/v1/channels/{channel}/send", post(send::send))
        .route("/admin/v1/deadletters", get(admin::dead_letters))
        .route("/admin/v1/deadletters/{id}/retry", post(admin::retry_dead_letter))
        .route("/admin/v1/deadletters/{id}/purge", post(admin::purge_dead_letter))
        .route("/admin/v1/crashes", get(admin::crashes))
        .route("/admin/v1/receipts/verify", post(receipts::verify))
        .route("/admin/v1/ledger", get(admin::ledger))
        .route("/admin/v1/audit", get(admin::audit))
        .route("/admin/v1/conversations", get(conversations::list))
        .route("/admin/v1/conversations/{id}", delete(conversations::forget))
        .with_state(Arc::clone(shared))
        .merge(page::routes());
    for extra in &shared.deps.extra {
        app = app.merge(extra.clone());
    }
    app.fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(shared.deps.settings.gateway.body_limit_bytes))
        .layer(from_fn_with_state(Arc::clone(shared), guard::outermost))
}

async fn unknown(uri: Uri) -> ApiError {
    let message = format!("there is nothing at {}", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
        .hint("the routes are listed in deploy/README.md")
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{method} is not for {}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
        .hint("the `allow` header names what is")
}
