use std::os::unix::fs::symlink;

use super::*;

fn tree() -> World {
    let world = World::new();
    world.file(".gitignore", "target/\n*.log\n!keep.log\n");
    world.file(".git/config", "needle");
    world.file("src/main.rs", "fn main() {\n    needle();\n}\n");
    world.file("src/lib.rs", "// Needle\n");
    world.file("src/deep/mod.rs", "needle needle\n");
    world.file("src/deep/.gitignore", "/local\n");
    world.file("src/deep/local", "needle\n");
    world.file("target/out.rs", "needle\n");
    world.file("a.log", "needle\n");
    world.file("keep.log", "needle\n");
    world.file("binary", b"needle\0needle");
    world.file(".env", "x\n");
    symlink("src", world.ws.join("link")).expect("a link");
    world
}

#[tokio::test]
async fn a_folder_is_listed_by_kind_and_a_recursive_listing_says_what_it_left_out() {
    let world = tree();
    assert_eq!(
        world.ok("file_list", json!({"path": "src"})).await,
        "deep/\nlib.rs (10 bytes)\nmain.rs (28 bytes)"
    );
    assert!(world.ok("file_list", json!({})).await.contains("link -> src\n"));
    assert!(world.ok("file_list", json!({})).await.contains(".git/\n"));
    let all = world.ok("file_list", json!({"recursive": true})).await;
    assert!(all.contains("src/deep/mod.rs") && !all.contains("target") && !all.contains("link/"));
    assert!(
        all.ends_with("[4 ignored by .gitignore or in .git; set `include_ignored` to see them]"),
        "{all}"
    );
    let whole = world.ok("file_list", json!({"recursive": true, "include_ignored": true})).await;
    assert!(whole.contains("target/out.rs") && whole.contains(".git/config"));
    let empty = World::new();
    assert_eq!(empty.call("file_list", json!({})).await, ToolResult::ok(""));
    assert_eq!(
        world.error("file_list", json!({"path": "src/lib.rs"})).await,
        "path `src/lib.rs` is a file, not a folder"
    );
}

#[tokio::test]
async fn names_that_hide_something_are_shown_escaped() {
    let world = World::new();
    world.file("a\u{202e}\u{1b}[2Jb\nc", "");
    assert_eq!(world.ok("file_list", json!({})).await, "a\\u{202e}\\u{1b}[2Jb\\nc (0 bytes)");
}

#[tokio::test]
async fn a_glob_finds_files_by_path_or_by_name_anywhere() {
    let world = tree();
    let find = async |pattern: &str| {
        let found = world.ok("glob_search", json!({"pattern": pattern})).await;
        found.lines().filter(|line| !line.starts_with('[')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(find("*.rs").await, ["src/deep/mod.rs", "src/lib.rs", "src/main.rs"]);
    assert_eq!(find("src/*.rs").await, ["src/lib.rs", "src/main.rs"]);
    assert_eq!(find("./src/**/m*.rs").await, ["src/deep/mod.rs", "src/main.rs"]);
    assert_eq!(find("*.log").await, ["keep.log"]);
    assert_eq!(find("*.nothing").await, ["no file matches"]);
    let below = world.ok("glob_search", json!({"pattern": "*.rs", "path": "src/deep"})).await;
    assert!(below.starts_with("src/deep/mod.rs\n"), "{below}");
    let ignored = json!({"pattern": "target/*", "include_ignored": true});
    assert_eq!(world.ok("glob_search", ignored).await, "target/out.rs");
    let error = world.error("glob_search", json!({"pattern": "a[b"})).await;
    assert!(error.starts_with("`pattern` is no glob pattern: "), "{error}");
}

#[tokio::test]
async fn a_search_gives_the_lines_that_match_with_their_place() {
    let world = tree();
    let search = async |value: Value| {
        let found = world.ok("content_search", value).await;
        found
            .lines()
            .filter(|line| !line.contains("ignored"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        search(json!({"pattern": "needle"})).await,
        ["keep.log:1: needle", "src/deep/mod.rs:1: needle needle", "src/main.rs:2:     needle();"]
    );
    assert_eq!(
        search(json!({"pattern": "^// NEEDLE$", "case_insensitive": true})).await,
        ["src/lib.rs:1: // Needle"]
    );
    assert_eq!(
        search(json!({"pattern": "needle", "glob": "*.rs", "max_results": 1})).await,
        ["src/deep/mod.rs:1: needle needle", "[more than 1 lines match; narrow the search]"]
    );
    assert_eq!(
        search(json!({"pattern": "main", "path": "link/main.rs"})).await,
        ["src/main.rs:1: fn main() {"]
    );
    assert_eq!(search(json!({"pattern": "absent"})).await, ["no line matches"]);
    let error = world.error("content_search", json!({"pattern": "a(b"})).await;
    assert!(error.starts_with("`pattern` is no regular expression: "), "{error}");
    let error = world.error("content_search", json!({"pattern": "x", "path": "none"})).await;
    assert_eq!(error, "path `none` does not exist");
}

// A136, B5
#[tokio::test]
async fn long_lines_and_many_matches_are_bounded() {
    let world = World::new();
    world.file("wide", "€".repeat(100_000));
    let wide = world.ok("content_search", json!({"pattern": "€"})).await;
    assert!(wide.len() < 500 && wide.ends_with('…'), "{wide}");
    world.file("many", "x\n".repeat(10_000));
    let many = world.ok("content_search", json!({"pattern": "x", "max_results": 5000})).await;
    assert_eq!(many.lines().count(), 5_001);
}
