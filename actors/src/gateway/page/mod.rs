//! The chat page: plain HTML, CSS and JavaScript of our own, embedded. Loads nothing from elsewhere.

use axum::Router;
use axum::http::{HeaderName, header};
use axum::response::IntoResponse;
use axum::routing::get;

/// Nothing inline, nothing foreign, nowhere to be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// The page and its parts. They hold no data, so they need no token.
pub(super) fn routes() -> Router {
    let html = "text/html; charset=utf-8";
    let js = "text/javascript; charset=utf-8";
    Router::new()
        .route("/", part(html, include_str!("index.html")))
        .route("/page/app.css", part("text/css; charset=utf-8", include_str!("app.css")))
        .route("/page/app.js", part(js, include_str!("app.js")))
        .route("/page/socket.js", part(js, include_str!("socket.js")))
        .route("/page/view.js", part(js, include_str!("view.js")))
}

fn part(kind: &'static str, text: &'static str) -> axum::routing::MethodRouter {
    let headers: [(HeaderName, &'static str); 4] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    get(move || async move { (headers, text).into_response() })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_loads_and_runs_nothing_that_is_not_ours() {
        let html = include_str!("index.html");
        let parts =
            [html, include_str!("app.js"), include_str!("socket.js"), include_str!("view.js")];
        for text in parts {
            for banned in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!text.contains(banned), "{banned}");
            }
            assert!(!text.contains("https://") && !text.contains("http://"));
        }
        for inline in ["onclick", "onload", "style=", "<style", "javascript:"] {
            assert!(!html.contains(inline), "{inline}");
        }
        assert_eq!(
            html.matches("<script").count(),
            html.matches("<script type=\"module\" src=").count()
        );
    }
}
