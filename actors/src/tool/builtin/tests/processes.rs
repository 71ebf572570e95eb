use std::time::Duration;

use rookery_messages::tool::ProcessRecord;
use tokio::time::Instant;

use super::*;
use crate::tool::process::{boot_id, process_start_ticks};
use crate::tool::testing::{Ledger, context_with};

/// Whether a process lives. A zombie doesn't.
fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The processes of a group that live or wait to be reaped.
fn group(pgid: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("Linux");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().to_owned();
        fields.split_whitespace().nth(2).and_then(|field| field.parse().ok()) == Some(pgid)
    })
    .collect()
}

/// Waits for a file that a command writes: the event a test goes on from.
async fn appears(path: &Path) -> String {
    let limit = Instant::now() + Duration::from_secs(20);
    loop {
        if let Ok(text) = fs::read_to_string(path)
            && text.ends_with('\n')
        {
            return text;
        }
        assert!(Instant::now() < limit, "{} did not appear", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// After the call no member of its group lives, and the record is closed.
fn assert_gone(ledger: &Ledger) {
    let started = ledger.started.lock().clone();
    assert_eq!(started.len(), 1);
    assert_eq!(*ledger.ended.lock(), started);
    let left: Vec<i32> = group(started[0].pgid).into_iter().filter(|pid| lives(*pid)).collect();
    assert_eq!(left, [] as [i32; 0]);
    // Reaped: the leader is no zombie either.
    assert!(!group(started[0].pgid).contains(&started[0].pgid));
}

// V-I8
#[tokio::test]
async fn a_command_gives_its_output_and_its_exit_code() {
    let world = World::new();
    assert_eq!(world.ok("shell", json!({"command": "echo 'a  b' c"})).await, "a  b c\n");
    let result = world.call("shell", json!({"command": "echo out; echo err >&2; exit 3"})).await;
    assert_eq!(
        result,
        ToolResult {
            success: false,
            output: "out\nerr\n".to_owned(),
            error: Some("exit code 3".to_owned()),
            unknown: false
        }
    );
    assert_eq!(world.call("shell", json!({"command": "true"})).await.model_text(), text::NO_OUTPUT);
    let unknown = world.call("shell", json!({"command": "no-such-program-here"})).await;
    assert_eq!(unknown.error.as_deref(), Some("exit code 127"));
    assert!(unknown.output.contains("not found"), "{}", unknown.output);
    let killed = world.call("shell", json!({"command": "kill -9 $$"})).await;
    assert_eq!(killed.error.as_deref(), Some("ended by signal 9"));
    // What the system ends at a limit says at which.
    for command in
        ["ulimit -f 1; exec head -c 9000 /dev/zero > a", "ulimit -f 1; head -c 9000 /dev/zero > a"]
    {
        let error = world.error("shell", json!({ "command": command })).await;
        assert!(error.contains("SIGXFSZ: it wrote a file larger"), "{command}: {error}");
    }
    assert!(world.error("shell", json!({"command": "  "})).await.contains("is empty"));
    assert!(
        world.error("shell", json!({"command": "echo a\0b"})).await.contains("can't be started")
    );
}

// A089: what was judged as words runs as words
#[tokio::test]
async fn a_plain_command_runs_without_a_shell() {
    let world = World::new();
    let output = world.ok("shell", json!({"command": "cat /proc/self/cmdline"})).await;
    assert_eq!(output, "cat\0/proc/self/cmdline\0");
    assert_eq!(
        world.ok("shell", json!({"command": "echo '$(id); `id` | x'"})).await,
        "$(id); `id` | x\n"
    );
}

#[tokio::test]
async fn a_command_starts_in_the_workspace_or_in_a_folder_below_without_input() {
    let world = World::new();
    world.file("sub/a", "");
    let here = world.ok("shell", json!({"command": "pwd -P"})).await;
    assert_eq!(here.trim_end(), world.ws.to_str().expect("text"));
    assert_eq!(world.ok("shell", json!({"command": "ls", "workdir": "sub"})).await, "a\n");
    assert_eq!(world.ok("shell", json!({"command": "cat; echo end"})).await, "end\n");
    let error = world.error("shell", json!({"command": "ls", "workdir": "none"})).await;
    assert_eq!(error, "path `none` does not exist");
}

// V-M21
#[tokio::test]
async fn a_command_sees_nothing_of_our_environment() {
    let world = World::new();
    // Cargo sets these for the test itself, so they stand for a key in the service's environment.
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
    let output = world.ok("shell", json!({"command": "env -u PWD"})).await;
    let mut names: Vec<&str> = output.lines().filter_map(|line| line.split('=').next()).collect();
    names.retain(|name| !matches!(*name, "TZ" | "SHLVL" | "_" | "OLDPWD"));
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_KEY_0",
            "GIT_CONFIG_KEY_1",
            "GIT_CONFIG_KEY_2",
            "GIT_CONFIG_VALUE_0",
            "GIT_CONFIG_VALUE_1",
            "GIT_CONFIG_VALUE_2",
            "GIT_EDITOR",
            "GIT_NO_LAZY_FETCH",
            "GIT_PAGER",
            "GIT_SEQUENCE_EDITOR",
            "GIT_TERMINAL_PROMPT",
            "HOME",
            "LANG",
            "PAGER",
            "PATH",
            "ROOKERY_CALL",
            "TERM"
        ]
    );
    assert!(output.contains(&format!("HOME={}\n", world.ws.display())));
    assert!(output.contains("TERM=dumb\n"));
}

// V-M23
#[tokio::test]
async fn a_flood_of_output_is_drained_and_kept_to_a_mebibyte() {
    let world = World::new();
    let output = world
        .ok("shell", json!({"command": "head -c 5000000 /dev/zero | tr '\\0' x; echo the end"}))
        .await;
    assert!(output.len() < 1_024 * 1_024 + 100, "{}", output.len());
    assert!(output.contains("[… 3951432 bytes of output left out …]"));
    assert!(output.ends_with("xxx") || output.ends_with("the end\n"));
}

// A129: recorded before it may act
#[tokio::test]
async fn a_command_does_nothing_before_its_group_is_recorded() {
    let world = World::new();
    let made = world.ws.join("made");
    let seen = made.clone();
    let ledger = Arc::new(Ledger {
        on_start: Some(Box::new(move |record: &ProcessRecord| {
            assert!(!seen.exists());
            assert_eq!(record.boot_id, boot_id().expect("Linux"));
            assert_eq!(record.start_ticks, process_start_ticks(record.pgid).expect("it waits"));
            assert_eq!(group(record.pgid), [record.pgid]);
        })),
        ..Ledger::default()
    });
    let cx = context_with(&world.ws, &[], Arc::clone(&ledger));
    let result = call_in(&cx, "shell", json!({"command": "touch made"})).await;
    assert!(result.success && made.exists(), "{result:?}");
    assert_eq!(ledger.started.lock()[0].call, cx.call);
    assert_gone(&ledger);
}

// A129
#[tokio::test]
async fn a_command_that_can_not_be_recorded_is_not_run() {
    let world = World::new();
    let ledger = Arc::new(Ledger { broken: true, ..Ledger::default() });
    let cx = context_with(&world.ws, &[], ledger);
    let result = call_in(&cx, "shell", json!({"command": "touch made"})).await;
    let error = result.error.expect("a failure");
    assert!(
        error.starts_with("the command was not run, because it could not be recorded"),
        "{error}"
    );
    assert!(!world.ws.join("made").exists());
}

// A128, V-M22
#[tokio::test]
async fn at_the_time_limit_the_whole_group_ends_and_the_error_names_the_seconds() {
    let world = World::new();
    let commands = [
        "sh -c 'sleep 300 & echo $!; wait'",
        "yes | sleep 300",
        "sleep 300",
        "trap '' TERM; sleep 300 & while :; do sleep 300; done",
    ];
    let runs = commands.map(async |command| {
        let (cx, ledger) = context(&world.ws, &[]);
        let begun = Instant::now();
        let result = call_in(&cx, "shell", json!({"command": command, "timeout_secs": 1})).await;
        let error = result.error.expect("a failure");
        assert!(
            error.starts_with("the command timed out after 1 seconds and was ended;"),
            "{error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(6), "{command}: {:?}", begun.elapsed());
        assert_gone(&ledger);
        for pid in result.output.lines().filter_map(|line| line.parse().ok()) {
            assert!(!lives(pid), "{command}");
        }
    });
    futures_util::future::join_all(runs).await;
}

// A128
#[tokio::test]
async fn what_a_command_leaves_in_the_background_ends_with_it_and_holds_nothing_up() {
    let world = World::new();
    for command in [
        "(sleep 600 &); echo done",
        "sleep 600 & echo done",
        "sleep 600 >/dev/null 2>&1 & echo done",
        "nohup sleep 600 & echo done",
    ] {
        let (cx, ledger) = context(&world.ws, &[]);
        let begun = Instant::now();
        let result = call_in(&cx, "shell", json!({"command": command})).await;
        assert!(result.success && result.output.ends_with("done\n"), "{command}: {result:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{command}: {:?}", begun.elapsed());
        assert_gone(&ledger);
    }
}

// I6
#[tokio::test]
async fn a_process_that_leaves_its_group_ends_with_the_call() {
    let world = World::new();
    // Nor is one that drops its environment, too, forgotten.
    for start in ["setsid", "setsid env -i", "(setsid env -i setsid"] {
        let (cx, ledger) = context(&world.ws, &[]);
        let end = if start.starts_with('(') { " &)" } else { " &" };
        let command = format!(
            "rm -f pid; {start} /bin/sh -c 'echo $$ > pid; exec sleep 60'{end} while [ ! -s pid ]; do :; done"
        );
        let command = command.replace("&) while", "&); while");
        let result = call_in(&cx, "shell", json!({"command": command})).await;
        assert!(result.success, "{result:?}");
        let pid = fs::read_to_string(world.ws.join("pid"))
            .expect("it ran")
            .trim()
            .parse()
            .expect("a pid");
        assert!(!lives(pid), "{command}");
        assert_gone(&ledger);
    }
}

// A128, I6, R19
#[tokio::test]
async fn a_cancelled_command_ends_as_a_group_within_its_grace_and_keeps_its_output() {
    let world = World::new();
    for (n, command) in [
        "echo so far; echo $$ > RAN; sleep 300",
        "trap '' TERM; echo so far; echo $$ > RAN; while :; do sleep 300; done",
    ]
    .into_iter()
    .enumerate()
    {
        let (mut cx, ledger) = context(&world.ws, &[]);
        // SIGKILL comes after half of it: the other half is for a machine that is busy.
        cx.grace = Duration::from_secs(8);
        let ran = format!("ran{n}");
        let command = command.replace("RAN", &ran);
        let (result, took) =
            tokio::join!(call_in(&cx, "shell", json!({"command": command})), async {
                appears(&world.ws.join(&ran)).await;
                cx.cancel.cancel();
                Instant::now()
            });
        assert!(took.elapsed() < cx.grace, "{command}: {:?}", took.elapsed());
        assert_eq!(result.error.as_deref(), Some(text::INTERRUPTED_RUNNING));
        assert_eq!(result.output, "so far\n");
        assert_gone(&ledger);
    }
    let (cx, ledger) = context(&world.ws, &[]);
    cx.cancel.cancel();
    let result = call_in(&cx, "shell", json!({"command": "touch made"})).await;
    assert_eq!(result, ToolResult::failed(text::INTERRUPTED_RUNNING));
    assert!(!world.ws.join("made").exists());
    assert!(ledger.started.lock().is_empty());
}

// I6
#[tokio::test]
async fn an_aborted_call_kills_its_group() {
    let world = World::new();
    let (cx, ledger) = context(&world.ws, &[]);
    let ran = world.ws.join("ran");
    let command = "trap '' TERM; sleep 60 & echo $! > ran; wait";
    let child: i32 = tokio::select! {
        result = call_in(&cx, "shell", json!({"command": command})) => panic!("{result:?}"),
        text = appears(&ran) => text.trim().parse().expect("a process id"),
    };
    // The call's future is dropped here: SIGKILL was sent.
    let leader = ledger.started.lock()[0].pgid;
    let limit = Instant::now() + Duration::from_secs(10);
    while lives(child) || lives(leader) {
        assert!(Instant::now() < limit, "the group outlives its call");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

// I13
#[tokio::test]
async fn many_commands_leave_no_process_and_no_open_file() {
    let world = World::new();
    let open = || fs::read_dir("/proc/self/fd").expect("Linux").count();
    world.ok("shell", json!({"command": "true"})).await;
    let before = open();
    for _ in 0..50 {
        world.ok("shell", json!({"command": "echo a; echo b"})).await;
    }
    // Other tests of this process have files open, too: a leak of one a call would show.
    assert!(open() < before + 40, "{} → {}", before, open());
}
