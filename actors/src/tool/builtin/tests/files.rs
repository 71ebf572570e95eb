use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use proptest::prelude::*;

use super::*;

// V-I8
#[tokio::test]
async fn an_empty_file_reads_as_a_success_without_output() {
    let world = World::new();
    world.file("empty", "");
    let result = world.call("file_read", json!({"path": "empty"})).await;
    assert_eq!(result, ToolResult::ok(""));
    assert_eq!(result.model_text(), text::NO_OUTPUT);
}

#[tokio::test]
async fn a_long_file_is_read_in_parts_that_say_where_to_go_on() {
    let world = World::new();
    let lines: String = (1..=5_000).map(|n| format!("line {n}\n")).collect();
    world.file("long", &lines);
    let first = world.ok("file_read", json!({"path": "long"})).await;
    assert!(first.starts_with("line 1\n"), "{}", &first[..20]);
    assert!(first.ends_with("line 2000\n[lines 1 to 2000; go on with `offset` 2001]"));
    let part = world.ok("file_read", json!({"path": "long", "offset": 2001, "limit": 2})).await;
    assert_eq!(part, "line 2001\nline 2002\n[lines 2001 to 2002; go on with `offset` 2003]");
    let last = world.ok("file_read", json!({"path": "long", "offset": 5000})).await;
    assert_eq!(last, "line 5000\n");
    let error = world.error("file_read", json!({"path": "long", "offset": 5001})).await;
    assert_eq!(error, "`offset` 5001 is past the end of `long`, which has 5000 lines");
    world.file("open", "a\nb");
    assert_eq!(world.ok("file_read", json!({"path": "open"})).await, "a\nb");
    assert_eq!(
        world.ok("file_read", json!({"path": "open", "limit": 1})).await,
        "a\n[lines 1 to 1; go on with `offset` 2]"
    );
    assert_eq!(world.ok("file_read", json!({"path": "open", "offset": 2, "limit": 1})).await, "b");
    let error = world.error("file_read", json!({"path": "open", "offset": 3})).await;
    assert!(error.ends_with("which has 2 lines"), "{error}");
}

// A136, B5
#[tokio::test]
async fn a_huge_file_is_read_to_the_bound_and_no_character_is_split() {
    let world = World::new();
    world.file("wide", "€".repeat(400_000));
    let wide = world.ok("file_read", json!({"path": "wide"})).await;
    assert!(wide.len() < 600_000 && !wide.contains('\u{fffd}'));
    assert!(wide.ends_with("€\n[line 1 is longer than 524288 bytes; the rest of it is left out]"));
    world.file("lines", format!("{}\n", "x".repeat(999)).repeat(2_000));
    let lines = world.ok("file_read", json!({"path": "lines"})).await;
    assert!(lines.ends_with("[cut at 524288 bytes within line 525; go on with `offset` 525]"));
    // Only in parts: a terabyte of nothing costs nothing.
    let sparse = fs::File::create(world.ws.join("sparse")).expect("a file");
    (&sparse).write_all(b"text\n").expect("written");
    sparse.set_len(1 << 40).expect("a sparse file");
    let first = world.call("file_read", json!({"path": "sparse", "limit": 1})).await;
    assert!(first.error.is_some_and(|error| error.contains("binary")));
}

#[tokio::test]
async fn what_is_no_text_file_is_refused_by_its_kind() {
    let world = World::new();
    world.file("folder/a", "");
    world.file("binary", b"\x7fELF\0\0");
    world.file("latin", b"gr\xfc\xdfe");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        world.ws.join("fifo"),
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .expect("a pipe");
    for (path, expected) in [
        ("folder", "path `folder` is a folder, not a file"),
        ("fifo", "path `fifo` is a pipe, socket or device, not a file"),
        ("none", "path `none` does not exist"),
        ("folder/a/b", "path `folder/a/b` is a file, not a folder"),
        ("binary", "path `binary` is a binary file; file_read reads text"),
    ] {
        assert_eq!(world.error("file_read", json!({"path": path})).await, expected);
    }
    let latin = world.ok("file_read", json!({"path": "latin"})).await;
    assert_eq!(latin, "gr\u{fffd}\u{fffd}e\n[some bytes are not UTF-8 and are shown as \u{fffd}]");
    for path in ["folder", "fifo"] {
        let error = world.error("file_write", json!({"path": path, "content": "x"})).await;
        assert!(error.ends_with("not a file"), "{error}");
    }
}

#[tokio::test]
async fn a_write_makes_or_replaces_the_whole_file_and_keeps_its_mode() {
    let world = World::new();
    let made = world.ok("file_write", json!({"path": "a.txt", "content": "one"})).await;
    assert_eq!(made, "made `a.txt` (3 bytes)");
    let path = world.ws.join("a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).expect("a mode");
    let inode = fs::metadata(&path).expect("it is there").ino();
    let replaced = world.ok("file_write", json!({"path": "a.txt", "content": "zwei"})).await;
    assert_eq!(replaced, "replaced `a.txt` (4 bytes)");
    assert_eq!(fs::read_to_string(&path).expect("text"), "zwei");
    let meta = fs::metadata(&path).expect("it is there");
    assert_eq!(meta.permissions().mode() & 0o7777, 0o751);
    // Another file put in place: nobody ever saw a half-written one.
    assert_ne!(meta.ino(), inode);
    assert_eq!(fs::read_dir(&world.ws).expect("a folder").count(), 1, "no temporary file is left");
}

#[tokio::test]
async fn missing_folders_are_made_only_if_asked() {
    let world = World::new();
    let error = world.error("file_write", json!({"path": "a/b/c", "content": "x"})).await;
    assert!(error.contains("pass `create_dirs`: true"), "{error}");
    assert!(!world.ws.join("a").exists());
    world.ok("file_write", json!({"path": "a/b/c", "content": "x", "create_dirs": true})).await;
    assert_eq!(fs::read_to_string(world.ws.join("a/b/c")).expect("text"), "x");
}

#[tokio::test]
async fn a_write_through_a_link_that_stays_inside_changes_what_it_leads_to() {
    let world = World::new();
    let target = world.file("sub/target", "old");
    symlink("sub/target", world.ws.join("link")).expect("a link");
    world.ok("file_write", json!({"path": "link", "content": "new"})).await;
    assert_eq!(fs::read_to_string(target).expect("text"), "new");
    assert!(world.ws.join("link").is_symlink());
}

#[tokio::test]
async fn what_a_crashed_attempt_left_does_not_hinder_the_next() {
    let world = World::new();
    let (cx, _) = context(&world.ws, &[]);
    world.file(&format!(".rookery-{}.tmp", cx.call), "half");
    let result = call_in(&cx, "file_write", json!({"path": "a", "content": "whole"})).await;
    assert!(result.success, "{result:?}");
    assert_eq!(fs::read_dir(&world.ws).expect("a folder").count(), 1);
}

#[tokio::test]
async fn an_edit_replaces_one_passage_and_says_how_many_there_are_otherwise() {
    let world = World::new();
    let path = world.file("a.txt", "one two two\n");
    let edit = |old: &str, new: &str| json!({"path": "a.txt", "old": old, "new": new});
    assert_eq!(world.ok("file_edit", edit("one", "1")).await, "replaced 1 passage in `a.txt`");
    let error = world.error("file_edit", edit("two", "2")).await;
    assert!(error.starts_with("`old` stands 2 times in `a.txt`"), "{error}");
    let error = world.error("file_edit", edit("three", "3")).await;
    assert!(error.starts_with("`old` does not stand in `a.txt`"), "{error}");
    let all = json!({"path": "a.txt", "old": "two", "new": "2", "replace_all": true});
    assert_eq!(world.ok("file_edit", all).await, "replaced 2 passages in `a.txt`");
    assert_eq!(fs::read_to_string(&path).expect("text"), "1 2 2\n");
    assert!(world.error("file_edit", edit("", "x")).await.starts_with("`old` is empty"));
    assert!(world.error("file_edit", edit("1", "1")).await.contains("the same"));
    world.file("a.txt", b"\xff");
    assert!(world.error("file_edit", edit("1", "2")).await.contains("not UTF-8"));
}

// Two edits of one batch: neither undoes the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn edits_of_one_file_at_once_are_all_kept() {
    let world = World::new();
    let words: Vec<String> = (100..140).map(|n| format!("word{n}")).collect();
    let path = world.file("a.txt", words.join(" "));
    let edits = words.iter().map(|word| {
        world.ok("file_edit", json!({"path": "a.txt", "old": word, "new": word.to_uppercase()}))
    });
    futures_util::future::join_all(edits).await;
    assert_eq!(fs::read_to_string(path).expect("text"), words.join(" ").to_uppercase());
}

// A093, A094: one gate for all tools
#[tokio::test]
async fn every_tool_refuses_every_way_out_and_makes_nothing() {
    let world = World::new();
    fs::create_dir(world.root.join("outside")).expect("a folder");
    fs::create_dir(world.root.join("ws-evil")).expect("a folder");
    fs::write(world.root.join("outside/v.txt"), "secret\n").expect("a file");
    fs::write(world.root.join("ws-evil/x"), "secret\n").expect("a file");
    let links = [
        ("notes.md", world.root.join("outside/v.txt")),
        ("new.txt", world.root.join("outside/none.txt")),
        ("dir", PathBuf::from("/")),
        ("out", world.root.join("outside")),
    ];
    for (link, target) in &links {
        symlink(target, world.ws.join(link)).expect("a link");
    }
    world.file("closed/x", "secret\n");
    symlink("closed", world.ws.join("way-in")).expect("a link");
    let forbidden = [world.ws.join("closed")];
    let evil = world.root.join("ws-evil/x");
    let up = format!("{}/../outside/v.txt", world.ws.display());
    let paths = [
        "notes.md",
        "new.txt",
        "dir",
        "dir/etc/passwd",
        "out",
        "out/v.txt",
        "out/new",
        "../outside/v.txt",
        evil.to_str().expect("text"),
        up.as_str(),
        "/etc/passwd",
        "~/.ssh/id",
        "C:\\x",
        "a\0b",
        "..",
        "",
        "closed",
        "closed/x",
        "closed/new",
        "way-in/x",
        "way-in/new",
        "/proc/self/environ",
    ];
    for path in paths {
        let calls = [
            ("file_read", json!({"path": path})),
            ("file_write", json!({"path": path, "content": "written", "create_dirs": true})),
            ("file_edit", json!({"path": path, "old": "secret", "new": "written"})),
            ("file_list", json!({"path": path, "recursive": true})),
            ("glob_search", json!({"pattern": "*", "path": path})),
            ("content_search", json!({"pattern": ".", "path": path})),
            ("shell", json!({"command": "cat x v.txt", "workdir": path})),
        ];
        for (tool, value) in calls {
            let (cx, ledger) = context(&world.ws, &forbidden);
            let result = call_in(&cx, tool, value).await;
            assert!(!result.success, "{tool} {path:?}: {}", result.output);
            assert_eq!(result.output, "", "{tool} {path:?}");
            assert!(ledger.started.lock().is_empty(), "{tool} {path:?}");
        }
    }
    let (cx, _) = context(&world.ws, &forbidden);
    for (tool, value) in [
        ("file_list", json!({"recursive": true, "include_ignored": true})),
        ("glob_search", json!({"pattern": "**/*"})),
        ("content_search", json!({"pattern": "."})),
    ] {
        let output = call_in(&cx, tool, value).await.output;
        for hidden in ["secret", "closed/", "v.txt:", "passwd"] {
            assert!(!output.contains(hidden), "{tool}: {output}");
        }
    }
    assert_eq!(fs::read_to_string(world.root.join("outside/v.txt")).expect("text"), "secret\n");
    assert_eq!(fs::read_to_string(world.ws.join("closed/x")).expect("text"), "secret\n");
    assert_eq!(fs::read_dir(world.root.join("outside")).expect("a folder").count(), 1);
    assert_eq!(fs::read_dir(world.ws.join("closed")).expect("a folder").count(), 1);
    assert_eq!(fs::read_dir(&world.ws).expect("a folder").count(), links.len() + 2);
}

// R19, I6
#[tokio::test]
async fn a_cancelled_file_call_ends_and_leaves_nothing_half_done() {
    let world = World::new();
    world.file("a", "old");
    for (tool, value) in [
        ("file_read", json!({"path": "a"})),
        ("file_write", json!({"path": "a", "content": "new"})),
        ("file_edit", json!({"path": "a", "old": "old", "new": "new"})),
        ("file_list", json!({})),
        ("glob_search", json!({"pattern": "*"})),
        ("content_search", json!({"pattern": "."})),
    ] {
        let (cx, _) = context(&world.ws, &[]);
        cx.cancel.cancel();
        let result = call_in(&cx, tool, value).await;
        assert_eq!(result, ToolResult::failed(text::INTERRUPTED_RUNNING), "{tool}");
    }
    assert_eq!(fs::read_to_string(world.ws.join("a")).expect("text"), "old");
    assert_eq!(fs::read_dir(&world.ws).expect("a folder").count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    // A094: tools × cases
    #[test]
    fn no_tool_shows_or_changes_what_lies_outside(
        tool in prop::sample::select(vec!["file_read", "file_write", "file_edit", "file_list", "glob_search", "content_search"]),
        parts in prop::collection::vec(
            prop::sample::select(vec!["..", ".", "sub", "out", "dangling", "in", "v.txt", "outside", "ws", "new"]),
            1..6,
        ),
        absolute in any::<bool>(),
    ) {
        let world = World::new();
        fs::create_dir(world.root.join("outside")).expect("a folder");
        fs::write(world.root.join("outside/v.txt"), "secret").expect("a file");
        world.file("sub/v.txt", "inside");
        symlink(world.root.join("outside"), world.ws.join("out")).expect("a link");
        symlink(world.root.join("outside/new"), world.ws.join("dangling")).expect("a link");
        symlink("sub", world.ws.join("in")).expect("a link");
        let start = if absolute { format!("{}/", world.root.display()) } else { String::new() };
        let path = format!("{start}{}", parts.join("/"));
        let value = json!({
            "path": path, "content": "written", "create_dirs": true, "old": "secret", "new": "written",
            "pattern": if tool == "glob_search" { "*" } else { "." }, "recursive": true,
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (cx, _) = context(&world.ws, &[]);
        let result = runtime.block_on(call_in(&cx, tool, value));
        prop_assert!(!result.output.contains("secret"), "{} {}", path, result.output);
        prop_assert_eq!(fs::read_to_string(world.root.join("outside/v.txt")).expect("text"), "secret");
        prop_assert_eq!(fs::read_dir(world.root.join("outside")).expect("a folder").count(), 1);
        prop_assert_eq!(fs::read_dir(&world.root).expect("a folder").count(), 2);
    }
}
