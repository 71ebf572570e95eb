//! The corpus of commands (`corpus/allowed.txt`, `corpus/bypasses.txt`), and generated ones whose judge is
//! a real shell: it runs the text, and a stand-in tells whether it was called.

use super::Amid;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use rookery_messages::ids::{AgentName, ConversationId};
use rookery_messages::settings::{AutonomyLevel, RiskProfile};
use rookery_messages::tool::CallEffects;
use tempfile::TempDir;
use uuid::Uuid;

use crate::generated::Generated;
use crate::policy::gate::{Access, CallToJudge, Gate};

/// A workspace, and the gate of an agent in it.
struct Room {
    folder: TempDir,
    gate: Gate,
}

impl Room {
    fn new(profile: RiskProfile, closed: bool) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ws = folder.path().join("ws");
        for sub in ["src", "docs", "logs", ".git", "closed"] {
            if sub != "closed" || closed {
                fs::create_dir_all(ws.join(sub)).expect("a folder");
            }
        }
        for file in [
            "README.md",
            "notes.txt",
            "data.csv",
            "data.json",
            ".env.example",
            "src/main.rs",
            "src/lib.rs",
            "docs/a.md",
            "docs/b.md",
            "logs/app.log",
            "my file.txt",
        ] {
            fs::write(ws.join(file), "text\n").expect("a file");
        }
        symlink("src", ws.join("inner")).expect("a link");
        let mut own = Vec::new();
        if closed {
            fs::create_dir(folder.path().join("elsewhere")).expect("a folder");
            fs::write(folder.path().join("elsewhere/x"), "x").expect("a file");
            symlink(folder.path().join("elsewhere/x"), ws.join("out")).expect("a link");
            symlink(folder.path().join("elsewhere"), ws.join("outdir")).expect("a link");
            symlink(folder.path().join("nothing"), ws.join("dangling")).expect("a link");
            fs::write(ws.join("closed/secret"), "s").expect("a file");
            own.push(ws.join("closed"));
        }
        let gate = Gate::new(Arc::new(profile), &ws, &own);
        Self { folder, gate }
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    fn ask(&self, command: &str) -> Access {
        let effects = CallEffects { command: Some(command.to_owned()), ..CallEffects::unknown() };
        let agent = AgentName::new("home");
        let call = CallToJudge {
            tool: "shell",
            effects: &effects,
            key: None,
            agent: &agent,
            tainted: None,
            amid: Amid::Quiet,
            conversation_id: ConversationId(Uuid::nil()),
            grant: None,
            approval: None,
            now: Timestamp::UNIX_EPOCH,
        };
        self.gate.evaluate(&call).decision
    }

    fn allows(&self, command: &str) -> bool {
        matches!(self.ask(command), Access::Allowed(_))
    }
}

/// The rows of a table: its cells, the last of which is the command.
fn rows(file: &str, cells: usize) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/policy/shell/corpus").join(file);
    let text = fs::read_to_string(path).expect("the table");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines
        .map(|line| {
            let row: Vec<String> = line.splitn(cells, " | ").map(plain).collect();
            assert_eq!(row.len(), cells, "{line}");
            row
        })
        .collect()
}

/// A cell with the marks for what a line can't hold replaced.
fn plain(cell: &str) -> String {
    let mut text = cell.replace('⏎', "\n").replace('␀', "\0").replace('␉', "\t");
    while let Some((before, rest)) = text.split_once("<U+") {
        let (code, after) = rest.split_once('>').expect("a whole mark");
        let c = u32::from_str_radix(code, 16).ok().and_then(char::from_u32).expect("a character");
        text = format!("{before}{c}{after}");
    }
    text
}

// V-M3, V-M6, A092: what is harmless is not blocked, whatever it looks like
#[test]
fn harmless_commands_run_unasked() {
    let room = Room::new(RiskProfile::default(), false);
    let table = rows("allowed.txt", 2);
    assert!(table.len() >= 150, "{}", table.len());
    let wrong: Vec<_> = table
        .iter()
        .map(|row| (&row[1], room.ask(&row[1])))
        .filter(|(_, access)| !matches!(access, Access::Allowed(_)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

// V-M4, V-M5, V-M7, V-M8, V-M9, V-M10, V-M16, V-M17, V-M18, A089, A090, A091, A094, A099
#[test]
fn no_bypass_runs_unasked() {
    let room = Room::new(RiskProfile::default(), true);
    let table = rows("bypasses.txt", 3);
    assert!(table.len() >= 250, "{}", table.len());
    let mut wrong = Vec::new();
    for row in &table {
        let access = room.ask(&row[2]);
        let fits = match (&*row[0], &access) {
            ("asks", Access::NeedsApproval(reason)) => !reason.is_empty(),
            ("blocked", Access::Blocked(reason)) => !reason.is_empty(),
            _ => false,
        };
        if !fits {
            wrong.push((&row[0], &row[2], access));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

// V-M15, A092, A099: `*` at level full runs any syntax, but nothing that is closed
#[test]
fn at_level_full_any_command_runs_but_for_closed_paths() {
    let profile = RiskProfile {
        level: AutonomyLevel::Full,
        allowed_commands: Some(vec!["*".to_owned()]),
        ..RiskProfile::default()
    };
    let room = Room::new(profile, true);
    for row in rows("bypasses.txt", 3) {
        let access = room.ask(&row[2]);
        // A whole folder that holds a closed one is closed to what takes whole folders.
        let takes_all = ["rm -rf /", "tar cf x", "grep -R foo .", "rg foo"];
        match (&*row[1], &access) {
            ("closed", Access::Blocked(reason)) => {
                assert!(reason.contains("closed to"), "{}: {reason}", row[2]);
            }
            ("closed", _) => panic!("{}: {access:?}", row[2]),
            (_, Access::Allowed(_)) => {}
            _ if takes_all.iter().any(|all| row[2].contains(all)) => {}
            _ => panic!("{}: {access:?}", row[2]),
        }
    }
}

// V-M14
#[test]
fn at_level_readonly_no_command_runs() {
    let profile = RiskProfile { level: AutonomyLevel::Readonly, ..RiskProfile::default() };
    let room = Room::new(profile, false);
    for row in rows("allowed.txt", 2) {
        assert!(matches!(room.ask(&row[1]), Access::Blocked(_)), "{}", row[1]);
    }
}

// V-M8: a listed program is no way to run one that isn't
#[test]
fn at_level_full_a_list_admits_no_program_that_a_listed_one_is_told_to_run() {
    let list = ["ls", "cat", "git", "awk", "sed", "tar", "find", "sort", "jq"];
    let profile = RiskProfile {
        level: AutonomyLevel::Full,
        allowed_commands: Some(list.map(str::to_owned).to_vec()),
        ..RiskProfile::default()
    };
    let room = Room::new(profile, false);
    for command in [
        "awk 'BEGIN{system(\"rm x\")}'",
        "sed '1e rm x' notes.txt",
        "git -c alias.x='!rm x' x",
        "git x",
        "git rebase -x 'rm x' HEAD~1",
        "tar xf x --to-command='rm x'",
        "tar xfI x rm",
        "sort --compress-program=./rm -S1 notes.txt",
    ] {
        let access = room.ask(command);
        assert!(matches!(access, Access::NeedsApproval(_)), "{command}: {access:?}");
    }
    for command in
        ["git push", "git commit -m x", "tar xf x.tar", "find . -delete", "sort -o x notes.txt"]
    {
        assert!(room.allows(command), "{command}: {:?}", room.ask(command));
    }
}

// V-M13, A094: paths that may only be read, or only be written, hold for every way to do so
#[test]
fn read_only_and_write_only_paths_hold_for_what_writes_and_reads_by_itself() {
    let profile = RiskProfile {
        auto_approve: vec!["shell".to_owned()],
        read_only_paths: vec!["docs".into()],
        write_only_paths: vec!["logs".into()],
        ..RiskProfile::default()
    };
    let room = Room::new(profile, false);
    let writes = [
        "echo x > docs/v",
        "sort -o docs/v notes.txt",
        "sort --output docs/v notes.txt",
        "sort -nodocs/v notes.txt",
        "sed -i s/a/b/ docs/a.md",
        "uniq notes.txt docs/v",
        "shuf -o docs/v notes.txt",
        "xxd notes.txt docs/v",
        "git log --output docs/v",
        "git diff --output=docs/v",
        "cp notes.txt docs/v",
        "cp -t docs notes.txt",
        "cp --target-directory=docs notes.txt",
        "mv --target-directory=docs notes.txt",
        "mv docs/a.md x",
        "install --target-directory=docs notes.txt",
        "tar xf notes.txt --directory=docs",
        "tar xf notes.txt -C docs",
        "tar xfC notes.txt docs",
        "patch -o docs/v notes.txt data.csv",
        "gzip docs/a.md",
        "touch docs/v",
        "tee docs/v",
        "zstd notes.txt -o docs/v",
        "unzip notes.txt -ddocs",
        "chmod -R a+r .",
    ];
    let reads = [
        "cat logs/app.log",
        "cp logs/app.log x",
        "cp -r logs x",
        "mv logs/app.log x",
        "tar cf x.tar logs",
        "tar -cf x.tar logs/app.log",
        "gzip -c logs/app.log",
        "xz -c logs/app.log",
        "zip x.zip logs/app.log",
        "git add logs/app.log",
        "sort -o x logs/app.log",
        "diff --from-file=logs/app.log notes.txt",
        "jq --rawfile x logs/app.log -n .",
    ];
    for command in writes.iter().chain(&reads) {
        let access = room.ask(command);
        assert!(matches!(access, Access::Blocked(_)), "{command}: {access:?}");
    }
    // What writes where its input says may write there.
    for command in
        ["tar xf notes.txt", "unzip notes.txt", "patch -p0", "git checkout .", "git stash"]
    {
        let access = room.ask(command);
        assert!(matches!(access, Access::NeedsApproval(_)), "{command}: {access:?}");
    }
    for command in [
        "cp docs/a.md x",
        "cat docs/a.md",
        "cp notes.txt logs/x",
        "cp -t logs notes.txt",
        "sort -o logs/x docs/a.md",
        "tar cf x.tar src",
        "touch logs/x",
        "git add docs/a.md",
    ] {
        assert!(room.allows(command), "{command}: {:?}", room.ask(command));
    }
}

// V-M11, A093: what decides what runs later is of high risk, however it is written
#[test]
fn a_write_to_what_runs_later_is_not_approved_by_a_list() {
    let profile = RiskProfile { auto_approve: vec!["shell".to_owned()], ..RiskProfile::default() };
    let room = Room::new(profile, false);
    symlink(".git", room.workspace().join("repo")).expect("a link");
    for command in [
        "echo x > .git/config",
        "echo x > repo/config",
        "cd .git && echo x > config",
        "sort -o .git/hooks/pre-commit notes.txt",
        "uniq notes.txt .git/hooks/pre-commit",
        "xxd -r notes.txt .git/hooks/p",
        "cp --target-directory=.git/hooks notes.txt",
        "cp notes.txt -t .git/hooks",
        "cp notes.txt .husky/x",
        "mv notes.txt .envrc",
        "patch --output=.git/hooks/p notes.txt data.csv",
        "tar xf notes.txt --directory=.git",
        "unzip notes.txt -d.git",
        "sed -i s/a/b/ .git/config",
        "tee .jq",
        "git remote update",
        "git remote show origin",
        "hostname new",
        "tar cf host:x notes.txt",
    ] {
        let access = room.ask(command);
        assert!(matches!(access, Access::NeedsApproval(_)), "{command}: {access:?}");
    }
    for command in ["cp notes.txt x", "mv notes.txt src/x", "tar cf x.tar src", "touch a"] {
        assert!(room.allows(command), "{command}: {:?}", room.ask(command));
    }
}

// A093: where a path leads is looked up before anything runs
#[test]
fn what_may_make_links_is_not_followed_by_other_paths() {
    let profile = RiskProfile { auto_approve: vec!["shell".to_owned()], ..RiskProfile::default() };
    let room = Room::new(profile, false);
    for command in [
        "tar xf notes.txt && cat link/passwd",
        "tar xf notes.txt; cat notes.txt",
        "git checkout evil && cat link/passwd",
        "git stash; echo x > link/y",
        "unzip notes.txt && cd link && cat passwd",
        "patch -p1 < notes.txt && cat link/passwd",
        "cp -a src copy && cat copy/link/passwd",
        "mv src other && cat other/link/passwd",
        "tar xf notes.txt & cat link/passwd",
        "sleep 1 && cat link/passwd & tar xf notes.txt",
        "{ sleep 1; cat link/passwd; } | tar xf notes.txt",
        "for i in 1 2; do cat link/passwd; tar xf notes.txt; done",
        "f() { cat link/passwd; }; tar xf notes.txt; f",
        "if tar xf notes.txt; then cat link/passwd; fi",
        "sh -c 'tar xf notes.txt'; cat link/passwd",
        "echo \"$(tar xf notes.txt)\"; cat link/passwd",
    ] {
        let access = room.ask(command);
        assert!(matches!(access, Access::NeedsApproval(_)), "{command}: {access:?}");
    }
    for command in [
        "cat notes.txt && git checkout main",
        "mkdir out && tar xf notes.txt -C out > /dev/null 2>&1",
        "tar xf notes.txt && echo done",
        "tar tf notes.txt | head -5",
        "tar cf x.tar src && ls x.tar",
        "git stash && git status",
        "cd src && git checkout main",
        "touch a && cat a",
    ] {
        assert!(room.allows(command), "{command}: {:?}", room.ask(command));
    }
}

// V-M9, A093: links to elsewhere, and a folder of plain files that git takes for a repository
#[test]
fn what_walks_a_folder_does_not_follow_links_out_of_it() {
    let room = Room::new(RiskProfile::default(), false);
    for command in ["diff -r src docs", "ls -LR src", "git -C src log"] {
        assert!(room.allows(command), "{command}: {:?}", room.ask(command));
    }
    symlink("/etc", room.workspace().join("src/etc")).expect("a link");
    for command in [
        "diff -r src docs",
        "diff -rN docs src",
        "ls -LR src",
        "ls --dereference -R .",
        "diff -r . docs",
    ] {
        assert!(!room.allows(command), "{command}");
    }
    assert!(room.allows("ls -R src"));
    assert!(room.allows("grep -rn foo src"));
    for part in ["HEAD", "objects", "refs"] {
        fs::create_dir_all(room.workspace().join("docs/bare").join(part)).expect("a folder");
    }
    for command in
        ["git -C docs/bare log", "cd docs/bare && git log", "cd docs/bare/refs; git status"]
    {
        assert!(!room.allows(command), "{command}");
    }
    assert!(room.allows("git -C docs log"));
}

// V-M4, V-M8: with a list, what is not on it is blocked wherever it stands
#[test]
fn a_list_holds_for_every_command_of_a_text() {
    let list = ["ls", "cat", "echo", "grep", "find", "env", "sh", "xargs"];
    let profile = RiskProfile {
        allowed_commands: Some(list.map(str::to_owned).to_vec()),
        ..RiskProfile::default()
    };
    let room = Room::new(profile, false);
    for command in ["ls", "ls | cat", "echo 'a; rm b'", "env ls", "sh -c 'ls; cat notes.txt'"] {
        assert!(room.allows(command), "{command}: {:?}", room.ask(command));
    }
    for command in [
        "ls; wc notes.txt",
        "ls && wc notes.txt",
        "ls || wc notes.txt",
        "ls\nwc notes.txt",
        "ls | wc",
        "ls & wc notes.txt",
        "echo $(wc notes.txt)",
        "echo `wc notes.txt`",
        "cat <(wc notes.txt)",
        "cat <<EOF && wc notes.txt\nx\nEOF",
        "cat <<EOF\n$(wc notes.txt)\nEOF",
        "env wc notes.txt",
        "sh -c 'wc notes.txt'",
        "ls | xargs wc",
        "find . -exec wc {} +",
        "eval wc notes.txt",
        "for f in a; do wc $f; done",
        "'wc' notes.txt",
        "\\wc notes.txt",
        "/bin/ls",
        "sudo ls",
    ] {
        match room.ask(command) {
            Access::Blocked(reason) => assert!(reason.contains("`allowed_commands`"), "{reason}"),
            access => panic!("{command}: {access:?}"),
        }
    }
    assert!(matches!(room.ask("$(echo wc) notes.txt"), Access::NeedsApproval(_)));
}

// A089: what can't be read, however long or deep, asks
#[test]
fn garbage_of_any_size_asks() {
    let room = Room::new(RiskProfile::default(), false);
    let many = |text: &str, bytes: usize| text.repeat(bytes / text.len());
    for piece in [
        "(",
        "$(",
        "{ ",
        "`",
        "\"$(",
        "<<a ",
        "if x; then ",
        "a;",
        "a|",
        "'",
        "[[",
        "((",
        "case x in ",
        "\\",
        "{a,b}",
        "é",
        "x=",
        "${a:-",
        "ls\n",
    ] {
        for bytes in [1_000, 16_000, 1_000_000] {
            let text = many(piece, bytes);
            let access = room.ask(&text);
            // Many harmless commands, and one long assignment, are no garbage while they are read.
            let harmless = matches!(piece, "ls\n" | "x=") && bytes < 1_000_000;
            let asks = matches!(access, Access::NeedsApproval(_) | Access::Blocked(_));
            assert!(asks || harmless, "{piece:?} {bytes}: {access:?}");
        }
    }
}

/// Folders for running texts: a PATH of real harmless programs, and a stand-in for `rm` that leaves a mark.
struct Stand {
    room: Room,
    bin: PathBuf,
    mark: PathBuf,
}

impl Stand {
    fn new() -> Self {
        let room = Room::new(RiskProfile::default(), false);
        let bin = room.folder.path().join("bin");
        let mark = room.folder.path().join("mark");
        fs::create_dir(&bin).expect("a folder");
        for name in [
            "ls", "cat", "env", "nice", "timeout", "nohup", "xargs", "find", "sh", "bash", "wc",
            "sort", "head", "grep", "sed", "awk", "date", "seq", "tr", "stdbuf", "dash", "tee",
        ] {
            for folder in ["/usr/bin", "/bin"] {
                let real = Path::new(folder).join(name);
                if real.exists() {
                    symlink(real, bin.join(name)).expect("a link");
                    break;
                }
            }
        }
        let script = format!("#!/bin/sh\n: > '{}'\n", mark.display());
        fs::write(bin.join("rm"), script).expect("a file");
        fs::set_permissions(bin.join("rm"), fs::Permissions::from_mode(0o755)).expect("a mode");
        Self { room, bin, mark }
    }

    /// Runs a text in a shell, and says whether the stand-in was called.
    fn called(&self, shell: &str, text: &str) -> bool {
        let _ = fs::remove_file(&self.mark);
        let ran = Command::new("timeout")
            .args(["-s", "KILL", "2", shell, "-c", text])
            .env_clear()
            .env("PATH", &self.bin)
            .env("HOME", self.room.workspace())
            .current_dir(self.room.workspace())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        // A text with NUL can't be run at all.
        ran.is_ok() && self.mark.exists()
    }
}

fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Something disallowed, in one of its disguises.
fn core() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "rm x",
        "'rm' x",
        "r\\m x",
        "r\"\"m x",
        "$(echo rm) x",
        "{rm,x}",
        "command rm x",
        "X=rm; $X x",
        "eval rm x",
        "env rm x",
        "nice rm x",
        "timeout 2 rm x",
        "exec rm x",
        "nohup rm x",
        "$'rm' x",
        "r\\\nm x",
        "echo x | xargs rm",
        "find notes.txt -exec rm {} +",
        "\"$(echo rm)\" x",
        "X=1 rm x",
        "echo rm x | sh",
        "sh <<< 'rm x'",
        "trap 'rm x' EXIT",
        "awk 'BEGIN{system(\"rm x\")}'",
        "sed -n '1e rm x' notes.txt",
        "source <(echo rm x)",
        "f() { rm x; }; f",
        "rm() { command rm; }; rm",
        "if false; then f() { :; }; fi; rm x",
        "echo ${X:-$(rm x)}",
        "[ -n \"$(rm x)\" ]",
        "cat < <(rm x)",
        "bash -c \"\\$0 x\" rm",
        "for r in rm; do $r x; done",
        "set -- rm x; \"$@\"",
        "ls() { rm x; }; ls",
    ])
    .prop_map(str::to_owned)
}

/// Real grammar around it. Each ends so that a comment or here-document inside does no harm.
fn around(inner: String, which: usize) -> String {
    let quoted = single_quoted(&inner);
    match which {
        0 => format!("ls; {inner}"),
        1 => format!("ls && {inner}"),
        2 => format!("ls x || {inner}"),
        3 => format!("ls\n{inner}"),
        4 => format!("( {inner}\n)"),
        5 => format!("{{ {inner}\n}}"),
        6 => format!("if ls; then {inner}\nfi"),
        7 => format!("echo \"$({inner}\n)\""),
        8 => format!("echo $({inner}\n) a"),
        9 => format!("for i in 1; do {inner}\ndone"),
        10 => format!("case a in a) {inner}\n;; esac"),
        11 => format!("g() {{ {inner}\n}}; g"),
        12 => format!("ls | {{ {inner}\n}}"),
        13 => format!("cat <<EOF\n$({inner}\n)\nEOF"),
        14 => format!("cat <<'E'\n'\"$(\nE\n{inner}"),
        15 => format!("sh -c {quoted}"),
        16 => format!("bash -c {quoted}"),
        17 => format!("eval {quoted}"),
        18 => format!("ls # don't `stop\n{inner}"),
        19 => format!("echo 'a\n' \"b\n\"; {inner}"),
        20 => format!("while {inner}\ndo break; done"),
        21 => format!("timeout 2 env sh -c {quoted}"),
        22 => format!("! {{ {inner}\n}}"),
        23 => format!("{{ {inner}\n}} & wait"),
        24 => format!("cat <<E | cat\nx\nE\n{inner}"),
        25 => format!("x=1 y='a b'\n{inner}"),
        26 => format!("cd src && {{ {inner}\n}}"),
        27 => format!("[ -n a ] && {{ {inner}\n}}"),
        28 => format!("echo {{a,b}} \\\n c; {inner}"),
        29 => format!("cat <({inner}\n) > /dev/null"),
        30 => format!("X=\"$({inner}\n)\"; echo \"$X\""),
        31 => format!("echo ${{a:-b}} $((1+1)) a#b; {inner}"),
        _ => format!("h() ( {inner}\n)\nh 2>/dev/null"),
    }
}

fn nested() -> impl Strategy<Value = String> {
    (core(), prop::collection::vec(0_usize..33, 0..5))
        .prop_map(|(core, layers)| layers.into_iter().fold(core, around))
}

/// Harmless text with something disallowed hidden in it by a few changes of characters.
fn changed() -> impl Strategy<Value = String> {
    let specials = prop::sample::select(
        "'\"\\$`(){}[];|&<>#!*?~=- \n\t\u{a0}rmx1E".chars().collect::<Vec<_>>(),
    );
    let start = prop::sample::select(vec![
        "echo 'rm x'",
        "echo \"rm x\"",
        "cat <<E\nrm x\nE\n",
        "cat <<'E'\nrm x\nE\nls",
        "# rm x\nls",
        "ls # rm x",
        "echo 'a' 'rm x' 'b'",
        "echo \"a\" \"rm x\" \"b\"",
        "grep '(rm x)' notes.txt",
        "echo \"$(ls)\" 'rm x'",
        "case a in 'rm x') ls;; esac",
        "echo a\\;rm x",
        "[ a = 'rm x' ]",
        "x='rm x'; echo \"$x\"",
        "for i in 'rm x'; do echo \"$i\"; done",
        "cat <<E | cat\n rm x\nE\n",
        "echo {a,'rm x'}",
        "awk '{print \"rm x\"}' notes.txt",
        "sed 's/rm x/a/' notes.txt",
        "sh -c 'echo \"rm x\"'",
        "echo `ls` 'rm x'",
        "cat < notes.txt; echo '\nrm x\n'",
        "echo $'rm x'",
        "ls; echo \\\n'rm x'",
        "cat <<-E\n\trm x\n\tE\nls",
        "[[ a == 'rm x' ]] && ls",
        "echo ${x:-rm x}",
        "f() { echo 'rm x'; }; f",
        "wc -l <<< 'rm x'",
        "echo $((1+1)) 'rm x'",
        "cat <(echo 'rm x')",
    ]);
    (start, prop::collection::vec((any::<prop::sample::Index>(), 0_u8..3, specials), 1..4))
        .prop_map(|(start, changes)| {
            let mut text: Vec<char> = start.chars().collect();
            for (at, what, c) in changes {
                let at = at.index(text.len().max(1));
                match what {
                    0 if !text.is_empty() => drop(text.remove(at)),
                    1 if !text.is_empty() => text[at] = c,
                    _ => text.insert(at, c),
                }
            }
            text.into_iter().collect()
        })
}

/// Checks commands; gives how many there were. A failure names the text.
fn cases(count: u32, strategy: &impl Strategy<Value = String>, check: impl Fn(String)) -> u32 {
    Generated::Commands.check(count, strategy, |text| {
        check(text);
        Ok(())
    })
}

// A089, A090, V-M4, V-M5, V-M7, V-M8: the oracle is a shell, not the parser under test
#[test]
fn what_a_shell_would_run_is_never_allowed_however_it_is_nested() {
    let stand = Stand::new();
    let called = std::cell::Cell::new(0);
    let ran = cases(400, &nested(), |text| {
        let allowed = stand.room.allows(&text);
        if stand.called("bash", &text) || (allowed && stand.called("dash", &text)) {
            called.set(called.get() + 1);
            assert!(!allowed, "allowed, and runs `rm`: {text:?}");
        }
    });
    // The oracle is no oracle if it never speaks.
    assert!(called.get() * 2 > ran, "{} of {ran}", called.get());
}

// A089, A090, A091
#[test]
fn what_a_shell_would_run_is_never_allowed_however_it_is_spelled() {
    let stand = Stand::new();
    let allowed = std::cell::Cell::new(0);
    let ran = cases(2_000, &changed(), |text| {
        if stand.room.allows(&text) {
            allowed.set(allowed.get() + 1);
            for shell in ["bash", "dash"] {
                assert!(!stand.called(shell, &text), "allowed, and runs `rm` in {shell}: {text:?}");
            }
        }
    });
    assert!(allowed.get() * 20 > ran, "{} of {ran}", allowed.get());
}
