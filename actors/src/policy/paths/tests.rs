use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A workspace `ws`, a folder `outside` beside it, and a look-alike `ws-evil`.
struct World {
    _root: TempDir,
    root: PathBuf,
    ws: PathBuf,
}

fn world() -> World {
    let temp = tempfile::tempdir().expect("a temporary folder");
    let root = temp.path().canonicalize().expect("it exists");
    let ws = root.join("ws");
    for folder in ["ws/sub/deep", "outside", "ws-evil"] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    for file in ["ws/notes.md", "ws/sub/a.txt", "outside/v.txt", "ws-evil/x"] {
        fs::write(root.join(file), file).expect("a file");
    }
    World { _root: temp, root, ws }
}

impl World {
    fn gate(&self) -> PathGate {
        PathGate::open(&self.ws, &[]).expect("the workspace opens")
    }

    fn link(&self, link: &str, target: impl AsRef<Path>) {
        symlink(target, self.ws.join(link)).expect("a link");
    }
}

fn text(gate: &PathGate, path: &str) -> Result<String, PathError> {
    let mut text = String::new();
    gate.resolve(path)?.open_file()?.read_to_string(&mut text).expect("text");
    Ok(text)
}

// A094, V-M16
#[test]
fn what_leads_out_of_the_workspace_or_is_no_path_is_refused_with_its_reason() {
    let world = world();
    let gate = world.gate();
    let evil = world.root.join("ws-evil/x");
    let dots = format!("{}/../outside/v.txt", world.ws.display());
    let cases: [(&str, &str); 16] = [
        ("../outside/v.txt", "leads out of the workspace (by `..`)"),
        ("sub/../../outside/v.txt", "leads out of the workspace (by `..`)"),
        ("nothing/../../outside/v.txt", "does not exist"),
        ("..", "leads out of the workspace (by `..`)"),
        (&dots, "leads out of the workspace (by `..`)"),
        ("/etc/passwd", "leads out of the workspace (it is absolute"),
        (evil.to_str().expect("text"), "leads out of the workspace (it is absolute"),
        ("a\0b", "NUL"),
        ("", "it is empty"),
        ("~/.ssh/id", "`~` is not expanded"),
        ("~root/x", "`~` is not expanded"),
        ("C:\\x", "Windows"),
        ("c:/x", "Windows"),
        ("\\\\server\\share", "Windows"),
        ("..%2foutside", "percent escapes"),
        ("/proc/self/environ", "leads out of the workspace"),
    ];
    for (path, reason) in cases {
        let refusal = gate.resolve(path).expect_err(path).to_string();
        assert!(refusal.contains(reason), "{path:?}: {refusal}");
    }
}

#[test]
fn paths_inside_work_in_every_spelling() {
    let world = world();
    fs::write(world.ws.join(".hidden"), "h").expect("a file");
    fs::write(world.ws.join("..odd"), "o").expect("a file");
    let gate = world.gate();
    let absolute = world.ws.join("sub/a.txt");
    let cases = [
        ("notes.md", "notes.md"),
        ("./sub//a.txt", "sub/a.txt"),
        ("sub/deep/../a.txt", "sub/a.txt"),
        (absolute.to_str().expect("text"), "sub/a.txt"),
        (".hidden", ".hidden"),
        ("..odd", "..odd"),
        (".", "."),
        (world.ws.to_str().expect("text"), "."),
        ("sub/", "sub"),
        ("new/folder/file", "new/folder/file"),
    ];
    for (path, relative) in cases {
        let resolved = gate.resolve(path).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(resolved.relative(), Path::new(relative), "{path}");
    }
}

// A093
#[test]
fn links_that_stay_inside_work_and_links_that_lead_out_are_refused() {
    let world = world();
    world.link("in", "sub/a.txt");
    world.link("in-abs", world.ws.join("sub/a.txt"));
    world.link("in-folder", "sub");
    world.link("sub/up", "../notes.md");
    world.link("in-dangling", "sub/later.txt");
    world.link("out", world.root.join("outside/v.txt"));
    world.link("out-relative", "../outside/v.txt");
    world.link("out-dangling", world.root.join("outside/none.txt"));
    world.link("out-folder", "/");
    world.link("chain", "out-folder");
    world.link("evil", world.root.join("ws-evil/x"));
    world.link("loop", "loop");
    let gate = world.gate();
    for path in ["in", "in-abs", "in-folder/a.txt", "in-folder/../sub/a.txt"] {
        assert_eq!(text(&gate, path).expect(path), "ws/sub/a.txt", "{path}");
    }
    assert_eq!(text(&gate, "sub/up").expect("a link upwards that stays inside"), "ws/notes.md");
    let dangling = gate.resolve("in-dangling").expect("inside");
    assert_eq!((dangling.relative(), dangling.kind()), (Path::new("sub/later.txt"), None));
    for path in [
        "out",
        "out-relative",
        "out-dangling",
        "out-folder",
        "out-folder/etc/passwd",
        "chain/etc",
        "evil",
    ] {
        let refusal = gate.resolve(path).expect_err(path);
        assert!(matches!(refusal, PathError::Outside { .. }), "{path}: {refusal}");
    }
    assert!(matches!(gate.resolve("loop"), Err(PathError::TooManyLinks { .. })));
}

// A093
#[test]
fn the_workspace_itself_may_be_a_link_and_is_known_by_both_names() {
    let world = world();
    let by_link = world.root.join("ws-link");
    symlink(&world.ws, &by_link).expect("a link");
    let gate = PathGate::open(&by_link, &[]).expect("it opens");
    for path in [by_link.join("notes.md"), world.ws.join("notes.md"), PathBuf::from("notes.md")] {
        assert_eq!(text(&gate, path.to_str().expect("text")).expect("inside"), "ws/notes.md");
    }
    // And by a name it was not configured with.
    let other = world.root.join("other");
    symlink(&world.root, &other).expect("a link");
    let path = other.join("ws/notes.md");
    assert_eq!(text(&gate, path.to_str().expect("text")).expect("inside"), "ws/notes.md");
}

// A099
#[test]
fn forbidden_paths_are_closed_in_the_workspace_through_links_and_before_they_exist() {
    let world = world();
    fs::create_dir(world.ws.join("data")).expect("a folder");
    fs::write(world.ws.join("data/token"), "t").expect("a file");
    fs::write(world.ws.join("key"), "k").expect("a file");
    fs::hard_link(world.ws.join("key"), world.ws.join("same-key")).expect("a hard link");
    world.link("to-data", "data");
    world.link("to-key", "key");
    world.link("real-name", "sub");
    let forbidden = [
        world.ws.join("data"),
        world.ws.join("key"),
        world.ws.join("later"),
        // Named by a link: the folder behind it is meant.
        world.ws.join("real-name"),
    ];
    let gate = PathGate::open(&world.ws, &forbidden).expect("it opens");
    for path in [
        "data",
        "data/token",
        "to-data/token",
        "data/new",
        "key",
        "to-key",
        "same-key",
        "later",
        "later/x",
        "sub/a.txt",
        "sub",
        "real-name/new",
        "notes.md/../key",
        "./data/../key",
    ] {
        let refusal = gate.resolve(path).expect_err(path);
        let no_folder = path.starts_with("notes.md/");
        assert!(no_folder || matches!(refusal, PathError::Forbidden { .. }), "{path}: {refusal}");
    }
    assert!(gate.resolve("notes.md").is_ok());
    let whole = PathGate::open(&world.ws, &[world.root.clone()]).expect("it opens");
    assert!(matches!(whole.resolve("notes.md"), Err(PathError::Forbidden { .. })));
}

// A099
#[test]
fn the_kernels_view_of_processes_is_closed_even_if_the_workspace_is_the_root() {
    let gate = PathGate::open(Path::new("/"), &[]).expect("it opens");
    for path in ["/proc/self/environ", "proc/1/root/etc/passwd", "proc"] {
        let refusal = gate.resolve(path).expect_err(path);
        assert!(matches!(refusal, PathError::Forbidden { .. }), "{path}: {refusal}");
    }
}

// A093
#[test]
fn a_file_swapped_for_a_link_after_the_judgement_is_not_opened() {
    let world = world();
    let gate = world.gate();
    let judged = gate.resolve("sub/a.txt").expect("inside");
    fs::remove_file(world.ws.join("sub/a.txt")).expect("removed");
    world.link("sub/a.txt", world.root.join("outside/v.txt"));
    assert!(matches!(judged.open_file(), Err(PathError::Io { .. })));

    let judged = gate.resolve("notes.md").expect("inside");
    fs::rename(world.root.join("outside/v.txt"), world.ws.join("notes.md")).expect("renamed");
    assert!(matches!(judged.open_file(), Err(PathError::Changed { .. })));

    let judged = gate.resolve("sub/new/file").expect("inside");
    world.link("sub/new", world.root.join("outside"));
    assert!(judged.place_for_file(true).is_err());
    assert!(!world.root.join("outside/file").exists());
}

#[test]
fn a_missing_workspace_is_named() {
    let refusal = PathGate::open(Path::new("/no/such/workspace"), &[]).expect_err("nothing there");
    assert!(refusal.is_policy());
    assert!(refusal.to_string().contains("/no/such/workspace"), "{refusal}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    // A093, A094: whatever is written, what is opened lies inside
    #[test]
    fn no_spelling_reaches_a_file_outside(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "..", ".", "sub", "deep", "out", "out-folder", "in", "in-folder", "notes.md", "a.txt",
                "outside", "v.txt", "ws", "ws-evil", "x", "", "etc", "passwd", "~", "up",
            ]),
            0..8,
        ),
        absolute in 0_usize..4,
    ) {
        let world = world();
        world.link("out", world.root.join("outside/v.txt"));
        world.link("out-folder", world.root.join("outside"));
        world.link("in", world.ws.join("sub/a.txt"));
        world.link("in-folder", "sub/deep/..");
        world.link("sub/up", "..");
        let start = [
            String::new(),
            format!("{}/", world.ws.display()),
            format!("{}/", world.root.display()),
            "/".to_owned(),
        ];
        let path = format!("{}{}", start[absolute], parts.join("/"));
        let gate = world.gate();
        if let Ok(resolved) = gate.resolve(&path) {
            let real = world.ws.join(resolved.relative());
            if let Ok(mut file) = resolved.open_file() {
                let mut text = String::new();
                file.read_to_string(&mut text).expect("text");
                prop_assert!(text.starts_with("ws/"), "{} gave {}", path, text);
            }
            // A resolved path has no links left, so that this is where it is.
            let shown = real.canonicalize().unwrap_or(real);
            prop_assert!(shown.starts_with(&world.ws), "{} → {}", path, shown.display());
            if resolved.kind().is_none()
                && let Ok((folder, name)) = resolved.place_for_file(true)
            {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
                let made = rustix::fs::openat(&folder, name, flags, Mode::from_raw_mode(0o600));
                File::from(made.expect("a new file")).write_all(b"ws/new").expect("written");
            }
        }
        for (file, text) in [("outside/v.txt", "outside/v.txt"), ("ws-evil/x", "ws-evil/x")] {
            prop_assert_eq!(fs::read_to_string(world.root.join(file)).expect("untouched"), text);
        }
        prop_assert_eq!(fs::read_dir(world.root.join("outside")).expect("a folder").count(), 1);
        prop_assert_eq!(fs::read_dir(&world.root).expect("a folder").count(), 3);
    }
}
