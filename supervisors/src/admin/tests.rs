use parking_lot::Mutex;
use rookery_messages::child::{ChildPolicy, Strategy};
use rookery_messages::tree::ActorStatus;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::testing::*;

struct Answer {
    status: u16,
    body: Value,
}

impl Answer {
    fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }
}

/// The routes on a port of their own, with or without a caller.
struct Served {
    port: u16,
    server: tokio::task::JoinHandle<()>,
    audit: Arc<Mutex<Vec<AuditRow>>>,
}

impl Served {
    async fn start(rig: &Rig, role: Option<AuthRole>) -> Self {
        let audit: Arc<Mutex<Vec<AuditRow>>> = Arc::default();
        let rows = Arc::clone(&audit);
        let hook: AuditHook = Arc::new(move |row| {
            let rows = Arc::clone(&rows);
            // Not at once: an act that did not wait for its row would be seen done without one.
            Box::pin(async move {
                tokio::task::yield_now().await;
                rows.lock().push(row);
            })
        });
        let mut served = Self::with(rig, role, hook).await;
        served.audit = audit;
        served
    }

    async fn with(rig: &Rig, role: Option<AuthRole>, hook: AuditHook) -> Self {
        let inspector = Inspector::new(Arc::clone(rig.directory()));
        let mut app = router(inspector, rig.spawner.world().clone(), hook);
        if let Some(role) = role {
            let caller = Caller { name: "ann".into(), role, via: "http".into() };
            app = app.layer(Extension(caller));
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        #[allow(clippy::disallowed_methods, reason = "the test's own server, not an actor's task")]
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { port, server, audit: Arc::default() }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{kind}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, body: serde_json::from_str(body).unwrap_or(Value::Null) }
    }

    fn audited(&self) -> Vec<String> {
        let line = |row: &AuditRow| {
            format!("{} {} {} {} {}", row.who, row.via, row.action, row.target, row.detail)
        };
        self.audit.lock().iter().map(line).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[tokio::test]
async fn an_admin_reads_the_tree_and_acts_on_it_and_each_act_is_audited() {
    let rig = Rig::new();
    let (root, [a]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    let served = Served::start(&rig, Some(AuthRole::Admin)).await;
    let tree = served.ask("GET", "/admin/v1/tree", "").await;
    assert_eq!((tree.status, &tree.body["root"]["children"][0]["path"]), (200, &"root/a".into()));
    let node = served.ask("GET", "/admin/v1/actors/root/a", "").await;
    assert_eq!((node.status, &node.body["detail"]["name"]), (200, &"a".into()));

    let restart = "/admin/v1/actors/root/a/restart";
    let done = served.ask("POST", restart, r#"{"reason":"new token"}"#).await;
    assert_eq!(done.status, 202);
    until(|| a.generation() == 2).await;
    ping(&a).await;
    assert_eq!(served.ask("POST", "/admin/v1/actors/root/a/pause", "").await.status, 202);
    assert_eq!(rig.status("root/a"), Some(ActorStatus::Paused));

    let root_kill = served.ask("POST", "/admin/v1/actors/root/kill", "").await;
    assert_eq!((root_kill.status, root_kill.code()), (409, "root_protected"));
    let nobody = served.ask("POST", "/admin/v1/actors/root/x/stop", "").await;
    assert_eq!((nobody.status, nobody.code()), (404, "no_such_actor"));
    assert!(nobody.body["error"]["hint"].is_string());
    assert_eq!(
        served.audited(),
        [
            r#"ann http actor.restart root/a {"reason":"new token","result":"done"}"#,
            r#"ann http actor.pause root/a {"reason":null,"result":"done"}"#,
            r#"ann http actor.kill root {"reason":null,"result":"root_protected"}"#,
            r#"ann http actor.stop root/x {"reason":null,"result":"no_such_actor"}"#,
        ]
    );
    rig.finish(&root).await;
}

#[tokio::test]
async fn each_role_may_do_its_own_and_no_more() {
    let rig = Rig::new();
    let (root, _) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    let asked = [
        ("GET", "/admin/v1/tree"),
        ("GET", "/admin/v1/actors/root/a"),
        ("POST", "/admin/v1/actors/root/a/pause"),
        ("POST", "/admin/v1/actors/root/a/resume"),
        ("POST", "/admin/v1/actors/root/a/restart"),
    ];
    let expected = [
        (None, [401, 401, 401, 401, 401]),
        (Some(AuthRole::Chat), [403, 403, 403, 403, 403]),
        (Some(AuthRole::Viewer), [200, 200, 403, 403, 403]),
        (Some(AuthRole::Operator), [200, 200, 202, 202, 403]),
        (Some(AuthRole::Admin), [200, 200, 202, 202, 202]),
    ];
    for (role, statuses) in expected {
        let served = Served::start(&rig, role).await;
        for ((method, path), status) in asked.iter().zip(statuses) {
            let answer = served.ask(method, path, "").await;
            assert_eq!(answer.status, status, "{role:?} {method} {path}: {}", answer.body);
            if status == 403 {
                assert_eq!(answer.code(), "forbidden");
                assert!(answer.body["error"]["hint"].is_string());
            }
        }
        // A refused act by somebody known leaves its trace.
        let acts = if role.is_some() { 3 } else { 0 };
        assert_eq!(served.audit.lock().len(), acts, "{role:?}");
    }
    rig.finish(&root).await;
}

#[tokio::test]
async fn bad_bodies_and_unknown_operations_are_refused_clearly_and_change_nothing() {
    let rig = Rig::new();
    let (root, [a]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    let served = Served::start(&rig, Some(AuthRole::Admin)).await;
    let stop = "/admin/v1/actors/root/a/stop";
    let [json, field] = ["invalid_json", "invalid_field"];
    for (body, code) in [("{", json), (r#"{"reason":1}"#, field), (r#"{"why":"x"}"#, field)] {
        let answer = served.ask("POST", stop, body).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{body}");
    }
    for path in ["/admin/v1/actors/root/a/explode", "/admin/v1/actors/stop"] {
        let answer = served.ask("POST", path, "").await;
        assert_eq!((answer.status, answer.code()), (404, "no_such_operation"), "{path}");
    }
    for method in ["GET", "POST"] {
        let answer = served.ask(method, "/admin/v1/actors/root/%ff/stop", "").await;
        assert_eq!((answer.status, answer.code()), (400, "bad_path"), "{method}");
    }
    ping(&a).await;
    assert_eq!(a.generation(), 1);
    assert_eq!(served.audited(), [""; 0]);
    rig.finish(&root).await;
}

#[tokio::test]
async fn nothing_is_done_before_its_row_is_written() {
    let rig = Rig::new();
    let (root, [a]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    let written: Arc<tokio::sync::Notify> = Arc::default();
    let (writes, asked) = (Arc::clone(&written), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&asked);
    let hook: AuditHook = Arc::new(move |row| {
        seen.lock().push(row.action);
        let written = Arc::clone(&writes);
        Box::pin(async move { written.notified().await })
    });
    let served = Served::with(&rig, Some(AuthRole::Admin), hook).await;
    let kill = served.ask("POST", "/admin/v1/actors/root/a/kill", "");
    tokio::pin!(kill);
    tokio::select! {
        answer = &mut kill => panic!("answered before the row: {}", answer.status),
        () = until(|| !asked.lock().is_empty()) => {}
    }
    ping(&a).await;
    assert_eq!(a.generation(), 1, "it lives while the row is on its way");
    written.notify_one();
    assert_eq!(kill.await.status, 202);
    until(|| a.generation() == 2).await;
    rig.finish(&root).await;
}
