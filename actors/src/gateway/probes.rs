//! Health and metrics.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::deps::{Readiness, Shared};

/// Whether the process should be left running.
pub(super) async fn livez(State(shared): State<Arc<Shared>>) -> (StatusCode, Json<Value>) {
    if (shared.deps.probes.live)() {
        (StatusCode::OK, Json(json!({ "status": "alive" })))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "stuck" })))
    }
}

/// Whether it can take work, part by part.
pub(super) async fn readyz(State(shared): State<Arc<Shared>>) -> (StatusCode, Json<Readiness>) {
    let readiness = (shared.deps.probes.ready)();
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness))
}

/// The metrics as text.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let text = (shared.deps.probes.metrics)().await;
    // OpenMetrics ends with this line, the older text format has no such thing.
    let kind = if text.trim_end().ends_with("# EOF") {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain; version=0.0.4; charset=utf-8"
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
