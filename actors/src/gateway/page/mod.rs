//! The chat page: plain HTML, CSS and JavaScript of our own, embedded. Loads nothing from elsewhere.

use axum::Router;
use axum::http::{HeaderName, header};
use axum::response::IntoResponse;
use axum::routing::get;

/// Nothing inline, nothing foreign, nowhere to be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

const JS: &str = "text/javascript; charset=utf-8";

/// Path, media type, text.
const PARTS: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("index.html")),
    ("/page/app.css", "text/css; charset=utf-8", include_str!("app.css")),
    ("/page/icon.svg", "image/svg+xml", include_str!("icon.svg")),
    ("/page/app.js", JS, include_str!("app.js")),
    ("/page/socket.js", JS, include_str!("socket.js")),
    ("/page/view.js", JS, include_str!("view.js")),
];

/// The page and its parts. They hold no data, so they need no token.
pub(super) fn routes() -> Router {
    PARTS
        .into_iter()
        .fold(Router::new(), |router, (path, kind, text)| router.route(path, part(kind, text)))
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
    use super::PARTS;

    #[test]
    fn every_part_the_page_names_is_served() {
        let names: Vec<&str> = PARTS
            .iter()
            .flat_map(|(_, _, text)| text.split('"').filter(|quoted| quoted.starts_with("/page/")))
            .collect();
        assert!(names.contains(&"/page/icon.svg") && names.contains(&"/page/view.js"), "{names:?}");
        for name in names {
            assert!(PARTS.iter().any(|(path, _, _)| *path == name), "{name}");
        }
    }

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
