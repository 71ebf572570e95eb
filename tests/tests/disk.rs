//! The disk and the files on it: full, locked, gone, copied. Nothing that was acknowledged is lost.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reqwest::Method;
use rookery_tests::api::{fresh_id, message};
use rookery_tests::wait::until;
use rookery_tests::{Config, Reply, World, program};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// Waits until `/readyz` answers as wanted; gives what it says.
async fn readiness(world: &World, ready: bool) -> String {
    let said = std::sync::Mutex::new(String::new());
    until(&format!("ready: {ready}"), || async {
        let answer = world.api.send(world.api.request(Method::GET, "/readyz")).await;
        *said.lock().unwrap() = answer.body.to_string();
        match (answer.status == 200) == ready {
            true => Ok(()),
            false => Err(answer.body.to_string()),
        }
    })
    .await;
    said.into_inner().unwrap()
}

/// Posts messages until one is not acknowledged, and gives the acknowledged turns and the refusal's body.
async fn fill(world: &World) -> (Vec<String>, String) {
    let text = "x".repeat(60_000);
    let mut taken = Vec::new();
    for n in 0..400 {
        let answer = world.api.webhook(&message(&fresh_id(), &format!("c{n}"), &text), "").await;
        match answer.status {
            202 => taken.push(answer.body["turn"].as_str().unwrap().to_owned()),
            503 => return (taken, answer.body.to_string()),
            other => panic!("{other}: {answer:?}"),
        }
    }
    panic!("the disk never got full");
}

/// The limit of a process for the size of files: what lies above it is a disk without room.
fn limit_files(pid: u32, most: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let maximum = getrlimit(Resource::Fsize).maximum;
    prlimit(Some(pid), Resource::Fsize, Rlimit { current: most.or(maximum), maximum }).unwrap();
}

// B5, I1: what was acknowledged is answered, what was not is refused with its cause, and it goes on by itself
#[tokio::test]
async fn without_room_for_its_files_it_is_not_ready_and_loses_nothing_and_goes_on_once_there_is_some()
 {
    let world = World::start(program!(), Config::new()).await;
    world.api.say("before", "hello").await;
    limit_files(world.service.pid(), Some(600_000));
    let (taken, refusal) = fill(&world).await;
    assert!(refusal.contains("database"), "{refusal}");
    let said = readiness(&world, false).await;
    assert!(said.contains("disk") && said.contains("database"), "{said}");
    limit_files(world.service.pid(), None);
    readiness(&world, true).await;
    for turn in &taken {
        assert_eq!(world.api.ended(turn).await.result(), "answered");
    }
    assert_eq!(world.api.say("after", "hello").await.result(), "answered");
    world.finish().await;
}

/// A small file system of its own, where the system lets us make one.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o"]).arg(format!("size={size}"));
        let made = mount.arg("rookery-test").arg(at).output();
        made.is_ok_and(|made| made.status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

// B5, I1: the same on a disk that is really full. Where nobody may mount one, the limit above stands for it.
#[tokio::test]
async fn on_a_full_disk_readiness_names_it_and_space_makes_it_ready_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("small");
    let Some(small) = Small::mount(&at, "6m") else { return };
    let config = Config::new().store(&format!("path = \"{}/rookery.db\"", at.display()));
    let mut world = World::start(program!(), config).await;
    let ballast = at.join("ballast");
    std::fs::write(&ballast, vec![0_u8; 4_000_000]).unwrap();
    let (mut taken, _) = fill(&world).await;
    // What the log gave back when it was moved into the database goes too.
    let rest = at.join("rest");
    use_up(&rest);
    let (more, refusal) = fill(&world).await;
    taken.extend(more);
    assert!(refusal.contains("is full"), "{refusal}");
    let said = readiness(&world, false).await;
    assert!(said.contains("is full") && said.contains(&at.display().to_string()), "{said}");
    std::fs::remove_file(&ballast).unwrap();
    std::fs::remove_file(&rest).unwrap();
    readiness(&world, true).await;
    for turn in &taken {
        assert_eq!(world.api.ended(turn).await.result(), "answered");
    }
    // Its database is not where the closing look expects it.
    let ended = world.stop().await;
    assert_eq!(ended.code, Some(0), "{}", world.service.log_tail(40));
    world.over();
    drop(small);
}

/// Writes a file until the disk takes no more.
fn use_up(path: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[0; 4_096]).is_ok() {}
}

// I1: a database without a name is not written to
#[tokio::test]
async fn a_deleted_database_is_not_acknowledged_into_and_the_start_after_it_is_a_fresh_one() {
    let mut world = World::start(program!(), Config::new()).await;
    world.api.say("c", "hello").await;
    for name in ["rookery.db", "rookery.db-wal", "rookery.db-shm"] {
        std::fs::remove_file(world.dir().join("data").join(name)).unwrap();
    }
    let answer = world.api.webhook(&message(&fresh_id(), "c", "again"), "").await;
    assert_eq!((answer.status, answer.code()), (503, "store_unavailable"), "{answer:?}");
    assert!(answer.body.to_string().contains("moved, replaced or deleted"), "{answer:?}");
    let said = readiness(&world, false).await;
    assert!(said.contains("moved, replaced or deleted"), "{said}");
    world.service.kill_9().await;
    world.service.restart().await;
    assert_eq!(world.api.say("c", "once more").await.result(), "answered");
    world.stop().await;
    world.over();
}

// I1: without a write it is noticed too
#[tokio::test]
async fn an_idle_service_notices_that_its_database_is_gone_and_that_it_is_back() {
    let world = World::start(program!(), Config::new()).await;
    let (path, away) = (world.dir().join("data/rookery.db"), world.dir().join("away.db"));
    std::fs::rename(&path, &away).unwrap();
    readiness(&world, false).await;
    std::fs::rename(&away, &path).unwrap();
    readiness(&world, true).await;
    assert_eq!(world.api.say("c", "hello").await.result(), "answered");
    world.finish().await;
}

// A018
#[tokio::test]
async fn a_second_service_on_the_same_database_is_refused_though_the_lock_file_is_gone() {
    let world = World::start(program!(), Config::new()).await;
    std::fs::remove_file(world.dir().join("data/rookery.db.lock")).unwrap();
    let second = tempfile::tempdir().unwrap();
    let port = rookery_tests::service::free_port();
    let store = format!("path = \"{}/data/rookery.db\"", world.dir().display());
    let text = Config::new().store(&store).render(second.path(), port, &world.model.base_url());
    std::fs::create_dir(second.path().join("work")).unwrap();
    std::fs::write(second.path().join("rookery.toml"), text).unwrap();
    let program = Path::new(program!());
    let printed =
        rookery_tests::cli::run(program, second.path(), &["run", "--config", "rookery.toml"], &[])
            .await;
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.err.contains("in use by another process"), "{printed:?}");
    assert_eq!(world.api.say("c", "hello").await.result(), "answered");
    world.finish().await;
}

// I14
#[tokio::test]
async fn a_locked_database_holds_a_shutdown_up_for_little_more_than_the_drain() {
    let mut world = World::start(program!(), Config::new().shutdown("drain_secs = 1")).await;
    world.model.script("go", [Reply::stream().delta("half").hang(), Reply::text("whole")]);
    let id = world.api.tell("c", "go").await;
    world.model.counted(1).await;
    let lock = rusqlite::Connection::open(world.dir().join("data/rookery.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ended = world.service.term(Duration::from_secs(30)).await;
    assert!(ended.took < Duration::from_secs(14), "{ended:?}\n{}", world.service.log_tail(40));
    drop(lock);
    world.service.restart().await;
    assert_eq!(world.api.ended(&id).await.text(), "whole");
    world.finish().await;
}

// B12: a copy made while it runs is whole, private, and good to start from
#[tokio::test]
async fn a_backup_of_a_running_service_can_be_restored() {
    let mut world = World::start(program!(), Config::new()).await;
    let id = world.api.tell("c", "first").await;
    world.api.ended(&id).await;
    let to = world.dir().join("copies/one");
    let place = to.to_str().unwrap();
    let arguments = ["backup", place, "--json"];
    let (printed, _) = tokio::join!(world.cli(&arguments), world.api.say("d", "beside"));
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let names: Vec<String> = printed.json()["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["rookery.db", "memory.db"]);
    for name in &names {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(to.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
    let again = world.cli(&["backup", place]).await;
    assert!(again.code == Some(1) && again.err.contains("is there already"), "{again:?}");
    let later = world.api.tell("c", "after the copy").await;
    world.api.ended(&later).await;
    world.stop().await;
    let data = world.dir().join("data");
    for name in ["rookery.db", "memory.db"] {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(data.join(format!("{name}{suffix}")));
        }
        std::fs::copy(to.join(name), data.join(name)).unwrap();
    }
    world.service.restart().await;
    assert_eq!(world.api.turn(&id).await.result(), "answered");
    let gone = world.api.try_get(&format!("/v1/turns/{later}")).await;
    assert_eq!(gone.status, 404, "{gone:?}");
    assert_eq!(world.api.say("c", "goes on").await.result(), "answered");
    world.stop().await;
    world.over();
}
