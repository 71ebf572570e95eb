//! Git in a repository that came from somewhere: whatever runs unasked runs nothing that it names.

use crate::policy::shell::Amid;
use std::process::{Command, Stdio};

use rookery_messages::ids::{AgentName, ConversationId};
use rookery_messages::settings::RiskProfile;
use uuid::Uuid;

use super::*;
use crate::policy::gate::{Access, CallToJudge, Gate};

/// What a hostile setting runs: it leaves a mark, and lets git go on.
const EVIL: &str = "#!/bin/sh\ntouch \"$(dirname \"$0\")/MARK\"\ncat \"$1\" 2>/dev/null\nexit 0\n";

const LOOKS: &[&str] = &[
    "git status",
    "git status --short --branch",
    "git diff",
    "git diff HEAD",
    "git diff --stat",
    "git diff --cached",
    "git log -p -1",
    "git log --oneline",
    "git show HEAD",
    "git show --stat HEAD",
    "git blame a.txt",
    "git grep -n text",
    "git ls-files -m",
    "git describe --always --dirty",
    "git stash list",
    "git diff-files -p",
    "git diff-index -p HEAD",
    "git branch -vv",
    "git submodule status",
    "ls && git diff",
    "cd sub && git status",
    "git -C sub diff",
    "git st",
    "sh -c 'git diff'",
];

/// A repository with a commit and a change, that a hostile hand then goes over.
struct Repository {
    world: World,
    gate: Gate,
    home: tempfile::TempDir,
}

impl Repository {
    fn new() -> Self {
        let world = World::new();
        let home = tempfile::tempdir().expect("a folder");
        let gate = Gate::new(Arc::new(RiskProfile::default()), &world.ws, &[]);
        let made = Self { world, gate, home };
        made.raw(".", &["init", "-q", "."]);
        for name in ["a.txt", "sub/b.txt"] {
            made.world.file(name, "text\n");
        }
        made.raw(".", &["add", "."]);
        made.raw(".", &["commit", "-qm", "first"]);
        made.world.file("a.txt", "other\n");
        made.evil("evil.sh");
        made
    }

    /// Git as somebody runs it who takes no care.
    fn raw(&self, folder: &str, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
        git.current_dir(self.world.ws.join(folder));
        git.env("HOME", self.home.path()).env("GIT_CONFIG_NOSYSTEM", "1");
        let _ = git.stdin(Stdio::null()).output().expect("git runs");
    }

    fn evil(&self, name: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        self.world.file(name, EVIL);
        let path = self.world.ws.join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        path.display().to_string()
    }

    fn set(&self, key: &str, value: &str) {
        self.raw(".", &["config", key, value]);
    }

    /// Whether something hostile ran since the last question.
    fn marked(&self) -> bool {
        let mut open = vec![self.world.ws.clone()];
        let mut found = false;
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                if entry.file_name() == "MARK" {
                    fs::remove_file(entry.path()).expect("it goes");
                    found = true;
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    open.push(entry.path());
                }
            }
        }
        found
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

    /// Makes the stat data of files look stale, so that git has to look at them again.
    fn stale(&self) {
        for name in ["a.txt", "sub/b.txt"] {
            let path = self.world.ws.join(name);
            if let Ok(text) = fs::read(&path) {
                fs::remove_file(&path).expect("it goes");
                fs::write(&path, text).expect("it comes back");
            }
        }
    }
}

/// A name, what the hostile hand does, and what it would have run.
type Attack = (&'static str, fn(&Repository), &'static [&'static str]);

const ATTACKS: &[Attack] = &[
    ("external diff", |r| r.set("diff.external", &r.evil("evil.sh")), &["diff"]),
    (
        "a driver's command",
        |r| {
            r.world.file(".gitattributes", "*.txt diff=x\n");
            r.set("diff.x.command", &r.evil("evil.sh"));
        },
        &["diff"],
    ),
    (
        "a driver's converter",
        |r| {
            r.world.file(".gitattributes", "*.txt diff=x\n");
            r.set("diff.x.textconv", &r.evil("evil.sh"));
        },
        &["log", "-p", "-1"],
    ),
    (
        "a filter",
        |r| {
            r.world.file(".gitattributes", "*.txt filter=x\n");
            r.set("filter.x.clean", &r.evil("evil.sh"));
        },
        &["status"],
    ),
    (
        "an included file",
        |r| {
            let program = r.evil("evil.sh");
            r.world.file("more.cfg", format!("[diff]\n\texternal = {program}\n"));
            r.set("include.path", "../more.cfg");
        },
        &["diff"],
    ),
    (
        "settings of the working tree",
        |r| {
            r.set("extensions.worktreeConfig", "true");
            let program = r.evil("evil.sh");
            r.world.file(".git/config.worktree", format!("[diff]\n\texternal = {program}\n"));
        },
        &["diff"],
    ),
    ("a monitor", |r| r.set("core.fsmonitor", &r.evil("evil.sh")), &["status"]),
    (
        "a hook",
        |r| {
            r.evil(".git/hooks/post-index-change");
        },
        &["status"],
    ),
    (
        "hooks elsewhere",
        |r| {
            r.evil("hooks/post-index-change");
            r.set("core.hooksPath", &r.world.ws.join("hooks").display().to_string());
        },
        &["status"],
    ),
    ("an alias", |r| r.set("alias.st", &format!("!{}", r.evil("evil.sh"))), &["st"]),
    (
        "another folder of git's",
        |r| {
            fs::rename(r.world.ws.join(".git"), r.world.ws.join("store")).expect("it moves");
            r.world.file(".git", "gitdir: store\n");
            r.raw("store", &["config", "--file", "config", "diff.external", &r.evil("evil.sh")]);
        },
        &["diff"],
    ),
    (
        "a repository within",
        |r| {
            fs::remove_dir_all(r.world.ws.join("sub")).expect("it goes");
            r.world.file("sub/b.txt", "text\n");
            r.world.file("sub/.gitattributes", "* filter=x\n");
            r.raw("sub", &["init", "-q", "."]);
            r.raw("sub", &["add", "."]);
            r.raw("sub", &["commit", "-qm", "inner"]);
            r.raw("sub", &["config", "filter.x.clean", &r.evil("evil.sh")]);
            r.raw(".", &["rm", "-rq", "--cached", "sub"]);
            r.raw(".", &["add", "sub"]);
        },
        &["status"],
    ),
    (
        "a signature's program",
        |r| {
            r.set("gpg.program", &r.evil("evil.sh"));
            r.set("log.showSignature", "true");
            let commit = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@b> 1 +0000\n\
                          committer a <a@b> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n \
                          -----END PGP SIGNATURE-----\n\nm\n";
            r.world.file("commit", commit);
            r.raw(".", &["hash-object", "-t", "tree", "-w", "/dev/null"]);
            r.raw(".", &["hash-object", "-t", "commit", "-w", "commit"]);
            let id = Command::new("git")
                .args(["hash-object", "-t", "commit", "commit"])
                .current_dir(&r.world.ws)
                .output()
                .expect("git runs");
            let id = String::from_utf8_lossy(&id.stdout).trim().to_owned();
            r.raw(".", &["update-ref", "HEAD", &id]);
        },
        &["log", "-1"],
    ),
];

// V-M9, A089: a repository that was unpacked, written or fetched runs nothing of its own unasked
#[tokio::test]
async fn looking_at_a_hostile_repository_runs_nothing_unasked() {
    for (name, attack, hit) in ATTACKS {
        let repository = Repository::new();
        attack(&repository);
        repository.stale();
        repository.marked();
        repository.raw(".", hit);
        assert!(repository.marked(), "{name}: the attack is none");
        let mut asked = 0;
        for command in LOOKS {
            repository.stale();
            if !matches!(repository.ask(command), Access::Allowed(_)) {
                asked += 1;
                continue;
            }
            let _ = repository.world.call("shell", json!({ "command": command })).await;
            assert!(!repository.marked(), "{name}: `{command}` ran it");
        }
        // What the environment takes away need not be asked about.
        let taken = matches!(*name, "a monitor" | "a hook" | "hooks elsewhere");
        assert!(if taken { asked <= 2 } else { asked > LOOKS.len() / 2 }, "{name}: {asked}");
    }
}

// V-M9
#[tokio::test]
async fn settings_of_a_command_s_home_steer_git_too() {
    let repository = Repository::new();
    assert!(matches!(repository.ask("git diff"), Access::Allowed(_)));
    for name in [".gitconfig", ".config/git/config"] {
        repository.world.file(name, "[user]\n\tname = a\n");
        assert!(matches!(repository.ask("git diff"), Access::Allowed(_)), "{name}");
        repository.world.file(name, "[diff]\n\texternal = evil.sh\n");
        let Access::NeedsApproval(why) = repository.ask("git diff") else { panic!("{name}") };
        assert!(why.contains("diff.external") && why.contains(name), "{why}");
        fs::remove_file(repository.world.ws.join(name)).expect("it goes");
    }
}

// V-M3: what most repositories say is no reason to ask
#[tokio::test]
async fn an_ordinary_repository_with_a_remote_a_submodule_and_a_working_tree_is_looked_at_unasked()
{
    let repository = Repository::new();
    let other = tempfile::tempdir().expect("a folder");
    let origin = other.path().display().to_string();
    repository.raw(".", &["remote", "add", "origin", &origin]);
    repository.raw(".", &["config", "branch.main.remote", "origin"]);
    repository.raw(".", &["clone", "-q", "--bare", ".", &origin]);
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", &origin, "module"];
    repository.raw(".", &add);
    repository.raw(".", &["worktree", "add", "-q", "tree"]);
    assert!(repository.world.ws.join("module/.git").is_file());
    assert!(repository.world.ws.join("tree/.git").is_file());
    for command in ["git status", "git diff", "cd tree && git log -1", "cd module && git status"] {
        let asked = repository.ask(command);
        assert!(matches!(asked, Access::Allowed(_)), "{command}: {asked:?}");
        let ran = repository.world.call("shell", json!({ "command": command })).await;
        assert!(ran.success, "{command}: {ran:?}");
    }
}
