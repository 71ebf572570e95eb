//! People come in by a code, and are put out again.

use reqwest::{Method, StatusCode};
use rookery_messages::settings::{AuthRole, Settings};
use serde_json::{Value, json};

use super::rig::*;

const HOOK: &str = "/v1/channels/webhook/paired";

async fn rig() -> Rig {
    rig_with(settings()).await
}

async fn rig_with(mut settings: Settings) -> Rig {
    let mut hook = settings.channels.webhook["few"].clone();
    hook.pairing = true;
    settings.channels.webhook.insert("paired".to_owned(), hook);
    Rig::with(settings).await
}

impl Rig {
    async fn eve(&self, id: &str, text: &str) -> (StatusCode, Value) {
        self.post(HOOK, &json!({ "id": id, "sender": "eve", "conversation": "c", "text": text }))
            .await
    }
}

// R4
#[tokio::test]
async fn a_stranger_comes_in_by_a_code_until_it_is_taken_back() {
    let rig = rig().await;
    let (status, body) = rig.eve("1", "let me in").await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::FORBIDDEN, &json!("not_allowed")));
    assert!(body["error"]["hint"].as_str().unwrap().contains("code"), "{body}");
    // A076: nothing of it was kept, and commands pass the same gate.
    assert_eq!(rig.eve("2", "/status").await.0, StatusCode::FORBIDDEN);
    assert_eq!(rig.base.store.ledger().await.unwrap().accepted, 0);

    let wanted = json!({ "channel": "webhook.paired", "minutes": 5 });
    let (status, code) = rig.post_as(ADMIN, "/admin/v1/pairings", &wanted).await;
    assert_eq!(status, StatusCode::OK, "{code}");
    let (status, body) = rig.eve("3", code["code"].as_str().unwrap()).await;
    assert_eq!((status, &body["paired"]), (StatusCode::OK, &json!(true)), "{body}");
    assert_eq!(rig.eve("4", "hi").await.0, StatusCode::ACCEPTED);

    let (_, all) = rig.get_as(ADMIN, "/admin/v1/pairings").await;
    assert_eq!((&all[0]["channel"], &all[0]["sender"]), (&json!("webhook.paired"), &json!("eve")));
    let path = "/admin/v1/pairings/webhook.paired/eve";
    assert_eq!(rig.delete_as(ADMIN, path).await.0, StatusCode::OK);
    assert_eq!(rig.delete_as(ADMIN, path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(rig.eve("5", "hi again").await.0, StatusCode::FORBIDDEN);
    rig.end().await;
}

#[tokio::test]
async fn codes_are_for_operators_and_for_channels_that_pair() {
    let rig = rig().await;
    let ask = |channel: &str| json!({ "channel": channel });
    for (channel, status, code) in [
        ("webhook.nowhere", StatusCode::NOT_FOUND, "not_found"),
        ("webhook.few", StatusCode::BAD_REQUEST, "does_not_pair"),
    ] {
        let (found, body) = rig.post_as(ADMIN, "/admin/v1/pairings", &ask(channel)).await;
        assert_eq!((found, &body["error"]["code"]), (status, &json!(code)), "{channel}");
    }
    let long = json!({ "channel": "webhook.paired", "minutes": 100_000 });
    assert_eq!(rig.post_as(ADMIN, "/admin/v1/pairings", &long).await.0, StatusCode::BAD_REQUEST);
    // Whoever needs no token has role chat.
    let (status, _) = rig.post("/admin/v1/pairings", &ask("webhook.paired")).await;
    assert!(status.is_client_error(), "{status}");
    assert!(
        rig.request(Method::GET, "/admin/v1/channels")
            .send()
            .await
            .unwrap()
            .status()
            .is_client_error()
    );
    rig.end().await;
}

// R4: who decides approvals lets people in, and puts them out
#[tokio::test]
async fn an_operator_lets_somebody_in_and_a_viewer_only_sees_who_is() {
    let mut settings = settings();
    settings.gateway.tokens =
        vec![token("ops", AuthRole::Operator), token("vic", AuthRole::Viewer)];
    let rig = rig_with(settings).await;
    let (ops, vic) = (token_of("ops"), token_of("vic"));
    let wanted = json!({ "channel": "webhook.paired" });
    let refused = rig.post_as(&vic, "/admin/v1/pairings", &wanted).await;
    assert_eq!(refused.0, StatusCode::FORBIDDEN, "{}", refused.1);
    let (status, code) = rig.post_as(&ops, "/admin/v1/pairings", &wanted).await;
    assert_eq!(status, StatusCode::OK, "{code}");
    let knock = json!({ "id": "1", "sender": "eve", "conversation": "c", "text": code["code"] });
    let (status, body) = rig.post_as(&ops, HOOK, &knock).await;
    assert_eq!((status, &body["paired"]), (StatusCode::OK, &json!(true)), "{body}");
    for who in [&ops, &vic] {
        let (status, all) = rig.get_as(who, "/admin/v1/pairings").await;
        assert_eq!((status, &all[0]["made_by"]), (StatusCode::OK, &json!("ops")), "{all}");
    }
    let path = "/admin/v1/pairings/webhook.paired/eve";
    assert_eq!(rig.delete_as(&vic, path).await.0, StatusCode::FORBIDDEN);
    assert_eq!(rig.delete_as(&ops, path).await.0, StatusCode::OK);
    rig.end().await;
}

// R1: no silent fallback: what nobody owns is shown as that, and takes nothing in
#[tokio::test]
async fn the_channels_are_listed_with_their_owner_or_without() {
    let rig = rig().await;
    let (_, rows) = rig.get_as(ADMIN, "/admin/v1/channels").await;
    let row = |id: &str| {
        let found = rows.as_array().unwrap().iter().find(|row| row["id"] == id);
        found.unwrap_or_else(|| panic!("{id} in {rows}")).clone()
    };
    let paired = row("webhook.paired");
    assert_eq!((&paired["state"], &paired["agent"]), (&json!("unowned"), &Value::Null));
    assert_eq!((&paired["pairs"], &row("webhook.few")["pairs"]), (&json!(true), &json!(false)));
    let (status, body) = rig
        .post(
            "/v1/channels/webhook/ghost",
            &json!({ "id": "1", "sender": "a", "conversation": "c", "text": "t" }),
        )
        .await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::NOT_FOUND, &json!("unknown_alias")));
    rig.end().await;
}
