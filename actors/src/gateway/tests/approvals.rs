use reqwest::StatusCode;
use rookery_messages::session::RouterMsg;
use serde_json::{Value, json};

use super::rig::*;
use rookery_messages::approval::Approval;
use rookery_messages::ids::AgentName;

async fn asked(rig: &mut Rig, id: &str) -> Approval {
    let (_, accepted) = rig.say("c", id).await;
    rig.base.routed.recv().await.unwrap();
    let claim = rig.base.claim(rig.conversation_of(&accepted["turn"]).await).await;
    rig.base.ask(&claim).await
}

fn path(approval: &Approval) -> String {
    format!("/admin/v1/approvals/{}", approval.id)
}

// I7
#[tokio::test]
async fn of_two_deciders_the_first_wins_and_the_other_learns_what_stands() {
    let mut rig = Rig::new().await;
    let approval = asked(&mut rig, "1").await;
    let (_, list) = rig.get_as(ADMIN, "/admin/v1/approvals?pending=true").await;
    let shown = &list[0];
    for field in [
        "id",
        "turn",
        "call",
        "tool",
        "arguments",
        "risk",
        "reason",
        "asked_at",
        "expires_at",
        "approvers",
        "state",
    ] {
        assert!(!shown[field].is_null(), "{field}: {shown}");
    }
    let path = path(&approval);
    let (yes, no) =
        (json!({ "decision": "approve" }), json!({ "decision": "deny", "reason": "no" }));
    let (a, b) = tokio::join!(rig.post_as(ADMIN, &path, &yes), rig.post_as(ADMIN, &path, &no));
    let (won, lost) = if a.0 == StatusCode::OK { (a, b) } else { (b, a) };
    assert_eq!((won.0, lost.0), (StatusCode::OK, StatusCode::CONFLICT), "{won:?} {lost:?}");
    assert_eq!(lost.1["error"]["code"], "already_decided");
    // A084: both are told what is stored.
    assert_eq!(lost.1["approval"]["state"], won.1["state"]);
    let stored = rig.base.store.approval(approval.id).await.unwrap().unwrap();
    assert_eq!(json!(stored), won.1);
    let hint = rig.base.routed.recv().await.unwrap();
    assert!(matches!(hint, RouterMsg::ApprovalHint { approval: id, .. } if id == approval.id));
    assert!(rig.base.routed.try_recv().is_err());
    assert_eq!(rig.get_as(ADMIN, "/admin/v1/approvals?pending=true").await.1, json!([]));
    assert_eq!(rig.get_as(ADMIN, "/admin/v1/approvals").await.1, json!([stored]));
    rig.end().await;
}

#[tokio::test]
async fn always_gives_a_grant_for_exactly_this_call_in_this_conversation() {
    // V-H5
    let mut rig = Rig::new().await;
    let approval = asked(&mut rig, "1").await;
    let (status, decided) =
        rig.post_as(ADMIN, &path(&approval), &json!({ "decision": "always" })).await;
    assert_eq!((status, &decided["state"]), (StatusCode::OK, &json!("approved")));
    let offer = approval.offer.clone().unwrap();
    let grant = async |tool: &str, key: &str| {
        let (conversation, now) = (approval.conversation_id, rig.base.world.now());
        let (agent, tool, key) = (AgentName::new("home"), tool.to_owned(), key.to_owned());
        rig.base.store.grant(conversation, agent, tool, key, now).await.unwrap()
    };
    let given = grant("file_write", &offer.key).await.unwrap();
    assert_eq!((given.granted_by.who.as_str(), &given.pattern), ("admin", &offer.pattern));
    assert_eq!(grant("file_write", "other").await, None);
    assert_eq!(grant("shell", &offer.key).await, None);
    // It is listed, and taken back once.
    let (_, list) = rig.get_as(ADMIN, "/admin/v1/grants").await;
    assert_eq!((&list[0]["id"], &list[0]["scope"]), (&json!(given.id), &json!("conversation")));
    let path = format!("/admin/v1/grants/{}", given.id);
    let (status, revoked) = rig.delete_as(ADMIN, &path).await;
    assert_eq!((status, &revoked["revoked_by"]["who"]), (StatusCode::OK, &json!("admin")));
    assert_eq!(rig.delete_as(ADMIN, &path).await.1, revoked);
    assert_eq!(grant("file_write", &offer.key).await, None);
    assert_eq!(rig.get_as(ADMIN, "/admin/v1/grants").await.1, json!([]));
    assert_eq!(rig.get_as(ADMIN, "/admin/v1/grants?all=true").await.1, json!([revoked]));
    let unknown = format!("/admin/v1/grants/{}", approval.id);
    assert_eq!(rig.delete_as(ADMIN, &unknown).await.0, StatusCode::NOT_FOUND);
    let (_, rows) = rig.get_as(ADMIN, "/admin/v1/audit").await;
    let actions: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["action"]).collect();
    assert_eq!(actions, ["grant.revoke", "grant.give", "approval.always"]);
    rig.end().await;
}

#[tokio::test]
async fn a_replacement_is_cleaned_and_nonsense_is_refused_by_name() {
    // V-H11, V-H12
    let mut rig = Rig::new().await;
    let approval = asked(&mut rig, "1").await;
    let path = path(&approval);
    let cases: [(Value, &str); 6] = [
        (json!({ "decision": "approve", "scope": "agent" }), "`scope`"),
        (json!({ "decision": "replace" }), "`replacement`"),
        (json!({ "decision": "approve", "replacement": "x" }), "`replacement`"),
        (json!({ "decision": "maybe" }), "`maybe`"),
        (json!({}), "`decision`"),
        (json!({ "decision": "approve", "force": true }), "`force`"),
    ];
    for (body, names) in cases {
        let (status, answer) = rig.post_as(ADMIN, &path, &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(names), "{answer}");
    }
    let body = json!({ "decision": "replace", "replacement": "a\u{1b}[31mred\u{0}\nb" });
    let (status, decided) = rig.post_as(ADMIN, &path, &body).await;
    assert_eq!((status, &decided["state"]), (StatusCode::OK, &json!("denied")));
    assert_eq!(decided["decision"], json!({ "decision": "replace", "replacement": "ared\nb" }));
    rig.end().await;
}

#[tokio::test]
async fn a_reason_is_kept_up_to_its_limit() {
    let mut rig = Rig::new().await;
    let approval = asked(&mut rig, "1").await;
    let body = json!({ "decision": "deny", "reason": "no".repeat(5_000) });
    let (status, denied) = rig.post_as(ADMIN, &path(&approval), &body).await;
    assert_eq!(status, StatusCode::OK, "{denied}");
    assert_eq!(denied["decision"]["reason"].as_str().map(str::len), Some(4_096));
    rig.end().await;
}

// A086, A088
#[tokio::test]
async fn over_a_socket_the_sender_decides_in_its_conversation_and_sees_it_again_until_then() {
    let mut rig = Rig::new().await;
    let mut socket = rig.socket("conversation=c").await;
    let turn = socket.say("1", "hi").await;
    rig.base.routed.recv().await.unwrap();
    let claim = rig.base.claim(rig.conversation_of(&turn).await).await;
    assert_eq!(claim.sender, "local");
    let approval = rig.base.ask(&claim).await;
    drop(socket);
    let mut other = rig.socket("conversation=other").await;
    other.say("1", "hi").await;
    rig.base.routed.recv().await.unwrap();
    let approve = json!({ "type": "approval", "id": approval.id, "decision": "approve" });
    other.send(approve.clone()).await;
    assert_eq!(other.next_of("error").await["code"], "not_found");
    let mut back = rig.socket("conversation=c").await;
    let shown = back.next_of("approval").await;
    let at = |field: &str| shown[field].clone();
    assert_eq!((at("id"), at("turn"), at("tool")), (json!(approval.id), turn, json!("file_write")));
    assert_eq!(shown["approval"]["id"], shown["id"]);
    back.send(approve.clone()).await;
    let notice = back.next_of("notice").await;
    assert_eq!(
        (&notice["approval"], &notice["text"]),
        (&json!(approval.id), &json!("file_write: approved"))
    );
    back.send(approve).await;
    assert_eq!(back.next_of("error").await["code"], "already_decided");
    let stored = rig.base.store.approval(approval.id).await.unwrap().unwrap();
    let decider = stored.decided_by.unwrap();
    assert_eq!((decider.who.as_str(), decider.via.as_str()), ("local", "ws"));
    assert!(matches!(rig.base.routed.recv().await, Some(RouterMsg::ApprovalHint { .. })));
    rig.end().await;
}
