use reqwest::{Method, StatusCode};
use rookery_messages::settings::AuthRole;
use serde_json::{Value, json};

use super::rig::*;

async fn configured() -> Rig {
    let mut settings = settings();
    settings.gateway.tokens = vec![
        token("cat", AuthRole::Chat),
        token("dog", AuthRole::Chat),
        token("vic", AuthRole::Viewer),
        token("ops", AuthRole::Operator),
        token("adm", AuthRole::Admin),
    ];
    Rig::with(settings).await
}

#[tokio::test]
async fn each_role_may_do_what_the_matrix_says() {
    let rig = configured().await;
    let some = "0190a000-0000-7000-8000-000000000000";
    let (approval, cancel) =
        (format!("/admin/v1/approvals/{some}"), format!("/v1/turns/{some}/cancel"));
    // nobody, wrong token, chat, viewer, operator, admin
    let table: [(Method, &str, [u16; 6]); 12] = [
        (Method::GET, "/livez", [200, 200, 200, 200, 200, 200]),
        (Method::GET, "/metrics", [200, 200, 200, 200, 200, 200]),
        (Method::GET, "/", [200, 200, 200, 200, 200, 200]),
        (Method::GET, "/v1/turns", [401, 401, 200, 200, 200, 200]),
        (Method::GET, "/admin/v1/ledger", [401, 401, 403, 200, 200, 200]),
        (Method::GET, "/admin/v1/tree", [401, 401, 403, 200, 200, 200]),
        (Method::POST, &approval, [401, 401, 403, 403, 404, 404]),
        (Method::POST, &cancel, [401, 401, 404, 404, 404, 404]),
        (Method::POST, "/admin/v1/actors/root/kill", [401, 401, 403, 403, 403, 404]),
        (Method::GET, "/admin/v1/pairings", [401, 401, 403, 200, 200, 200]),
        (Method::POST, "/admin/v1/pairings", [401, 401, 403, 403, 400, 400]),
        (Method::POST, "/admin/v1/channels/ws/send", [401, 401, 403, 403, 400, 400]),
    ];
    let callers = [None, Some("nobody"), Some("cat"), Some("vic"), Some("ops"), Some("adm")];
    for (method, path, expected) in table {
        for (caller, expected) in callers.iter().zip(expected) {
            let mut request = rig.request(method.clone(), path);
            if let Some(name) = caller {
                request = request.bearer_auth(token_of(name));
            }
            if method == Method::POST {
                request = request.json(&json!({ "decision": "approve" }));
            }
            let (status, body) = answer(request).await;
            assert_eq!(status.as_u16(), expected, "{method} {path} as {caller:?}: {body}");
        }
    }
    rig.end().await;
}

#[tokio::test]
async fn a_chat_token_owns_what_it_created_and_nothing_else() {
    let rig = configured().await;
    let (cat, dog, ops) = (token_of("cat"), token_of("dog"), token_of("ops"));
    let hook = "/v1/channels/webhook/ci";
    let (status, first) = rig.post_as(&cat, hook, &message("c", "1")).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    // The same name of another token is another conversation.
    let (_, second) = rig.post_as(&dog, hook, &message("c", "2")).await;
    assert_ne!(first["turn"], second["turn"]);
    assert_ne!(
        rig.conversation_of(&first["turn"]).await,
        rig.conversation_of(&second["turn"]).await
    );
    // An operator's names are the stored ones.
    let (status, third) = rig.post_as(&ops, hook, &message("c", "3")).await;
    assert!(status == StatusCode::ACCEPTED && third["turn"] != first["turn"]);
    let path = format!("/v1/turns/{}", first["turn"].as_str().unwrap());
    let (status, turn) = rig.get_as(&cat, &path).await;
    assert_eq!((status, &turn["conversation"]), (StatusCode::OK, &json!("c")));
    for suffix in ["", "/events"] {
        assert_eq!(rig.get_as(&dog, &format!("{path}{suffix}")).await.0, StatusCode::NOT_FOUND);
    }
    let cancel = format!("{path}/cancel");
    assert_eq!(rig.post_as(&dog, &cancel, &json!({})).await.0, StatusCode::NOT_FOUND);
    assert_eq!(rig.post_as(&token_of("vic"), &cancel, &json!({})).await.0, StatusCode::FORBIDDEN);
    let ids = |list: Value| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|turn| turn["id"].clone()).collect()
    };
    assert_eq!(ids(rig.get_as(&cat, "/v1/turns?conversation=c").await.1), [first["turn"].clone()]);
    assert_eq!(ids(rig.get_as(&dog, "/v1/turns").await.1), [second["turn"].clone()]);
    assert_eq!(ids(rig.get_as(&ops, "/v1/turns").await.1).len(), 3);
    let names = async |token: &str| {
        let rows = rig.get_as(token, "/v1/conversations").await.1;
        rows.as_array().unwrap().iter().map(|row| row["conversation"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&cat).await, [json!("c")]);
    assert_eq!(names(&ops).await.len(), 3);
    let claim = rig.base.claim(rig.conversation_of(&first["turn"]).await).await;
    rig.base.answer(&claim, "for cat").await;
    let history = "/v1/conversations/webhook.ci/c/messages";
    let (_, mine) = rig.get_as(&cat, history).await;
    assert_eq!(mine["messages"][1]["content"], "for cat");
    let (_, theirs) = rig.get_as(&dog, history).await;
    assert_eq!(theirs["messages"], json!([]));
    assert_eq!(rig.post_as(&cat, &cancel, &json!({})).await.0, StatusCode::ACCEPTED);
    rig.end().await;
}

#[tokio::test]
async fn a_local_caller_without_a_token_chats_and_no_more() {
    let rig = Rig::new().await;
    let (_, open) = rig.say("c", "1").await;
    let path = |accepted: &Value| format!("/v1/turns/{}", accepted["turn"].as_str().unwrap());
    assert_eq!(rig.get(&path(&open)).await.0, StatusCode::OK);
    // What came signed is not the machine's.
    let body = message("c", "1").to_string();
    let signed =
        crate::channel::webhook::signature::sign(SECRET, rig.base.world.now(), body.as_bytes());
    let request = rig
        .request(Method::POST, "/v1/channels/webhook/signed")
        .header("x-rookery-signature", signed)
        .header("content-type", "application/json")
        .body(body);
    let (status, closed) = answer(request).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(rig.get(&path(&closed)).await.0, StatusCode::NOT_FOUND);
    assert_eq!(
        rig.get("/v1/conversations/webhook.signed/c/messages").await.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(rig.get_as(ADMIN, &path(&closed)).await.0, StatusCode::OK);
    assert_eq!(rig.get("/v1/turns").await.1.as_array().unwrap().len(), 1);
    // A wrong token is not the same as none.
    assert_eq!(rig.get_as("wrong", "/v1/turns").await.0, StatusCode::UNAUTHORIZED);
    let reasons: Vec<_> = rig.refusals().into_iter().map(|(_, reason)| reason).collect();
    assert!(reasons.contains(&"token"), "{reasons:?}");
    rig.end().await;
}

#[tokio::test]
async fn the_probes_say_what_they_are_told() {
    let rig = Rig::new().await;
    assert_eq!(rig.get("/livez").await, (StatusCode::OK, json!({ "status": "alive" })));
    let (status, ready) = rig.get("/readyz").await;
    let expected = json!({
        "ready": false,
        "components": [{ "name": "store", "ready": false, "reason": "starting" }],
    });
    assert_eq!((status, ready), (StatusCode::SERVICE_UNAVAILABLE, expected));
    assert_eq!(rig.get("/metrics").await.1, json!("rookery_up 1\n"));
    let page = rig.client.get(rig.url("/")).send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    assert!(page.text().await.unwrap().contains("/page/app.js"));
    for part in ["app.js", "socket.js", "view.js", "app.css"] {
        assert_eq!(rig.get(&format!("/page/{part}")).await.0, StatusCode::OK, "{part}");
    }
    rig.end().await;
}

// I2: who posts a message is no part of its key.
#[tokio::test]
async fn an_id_is_one_message_whoever_posts_it_and_only_who_may_see_it_is_told_of_it() {
    let rig = configured().await;
    let (cat, dog, ops) = (token_of("cat"), token_of("dog"), token_of("ops"));
    let hook = "/v1/channels/webhook/ci";
    let (_, first) = rig.post_as(&cat, hook, &message("c", "1")).await;
    let (status, again) = rig.post_as(&ops, hook, &message("c", "1")).await;
    assert_eq!(
        (status, &again["duplicate"], &again["turn"]),
        (StatusCode::OK, &json!(true), &first["turn"])
    );
    for path in [hook.to_owned(), format!("{hook}?wait=1")] {
        let (status, refused) = rig.post_as(&dog, &path, &message("c", "1")).await;
        assert_eq!((status, &refused["error"]["code"]), (StatusCode::CONFLICT, &json!("id_taken")));
        assert!(!refused.to_string().contains(first["turn"].as_str().unwrap()), "{refused}");
    }
    assert_eq!(rig.base.store.ledger().await.unwrap().accepted, 1);
    rig.end().await;
}

#[tokio::test]
async fn with_configured_tokens_a_webhook_without_a_secret_takes_nothing_without_one() {
    let rig = configured().await;
    let hook = "/v1/channels/webhook/ci";
    let (status, refused) = rig.post(hook, &message("c", "1")).await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::UNAUTHORIZED, &json!("no_token")));
    assert!(refused["error"]["hint"].as_str().unwrap().contains("`secret`"), "{refused}");
    assert_eq!(rig.base.store.ledger().await.unwrap().accepted, 0);
    assert_eq!(rig.post_as(&token_of("cat"), hook, &message("c", "1")).await.0, 202);
    rig.end().await;
}
