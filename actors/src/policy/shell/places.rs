//! Where a word of a command would lead, asked of the one path gate.

use std::path::{Component, Path, PathBuf};

use crate::policy::paths::{PathError, PathGate};

/// Devices that everybody may read; those of [`SINKS`] and open descriptors may be written too.
const DEVICES: &[&str] = &["/dev/zero", "/dev/urandom", "/dev/random", "/dev/stdin"];
const SINKS: &[&str] = &["/dev/null", "/dev/stdout", "/dev/stderr"];

/// Names below which a write decides what runs later.
const STARTERS: &[&str] = &[
    ".git",
    ".ssh",
    ".gitconfig",
    ".bashrc",
    ".profile",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".config",
    ".npmrc",
    ".curlrc",
    ".wgetrc",
    ".envrc",
    ".husky",
    ".githooks",
    ".local",
    ".jq",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".bash_aliases",
    ".inputrc",
    ".vimrc",
    ".exrc",
    ".tmux.conf",
    ".screenrc",
    ".gdbinit",
    ".irbrc",
    ".psqlrc",
    ".sqliterc",
    ".lesskey",
    ".pam_environment",
];

/// Where a path leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Into the workspace, or it is no path at all.
    Inside,
    /// That can't be told yet.
    Unclear(String),
    /// Out of the workspace.
    Outside(String),
    /// To something closed.
    Closed(String),
}

/// What a path is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    Read,
    Write,
}

/// Looks `written` up from each folder that the command may stand in.
pub(super) fn look(gate: &PathGate, written: &str, bases: &[String], used: Use) -> Place {
    if is_sink(written) || (used == Use::Read && DEVICES.contains(&written)) {
        return Place::Inside;
    }
    let mut found = Place::Inside;
    for path in from_bases(written, bases) {
        let place = look_once(gate, written, &path);
        if rank(&place) > rank(&found) {
            found = place;
        }
    }
    found
}

/// Whether `written` is closed, wherever else it leads.
pub(super) fn is_closed(gate: &PathGate, written: &str, bases: &[String]) -> bool {
    matches!(look(gate, written, bases, Use::Read), Place::Closed(_))
}

/// Whether something closed lies at or below `written`.
pub(super) fn holds_closed(gate: &PathGate, written: &str, bases: &[String]) -> bool {
    from_bases(written, bases).any(|path| gate.holds_closed(&path))
}

/// Whether a write there decides what runs later: repository settings and hooks, start-up files.
pub(super) fn starts_later(written: &str) -> bool {
    Path::new(written).components().any(|part| match part {
        Component::Normal(name) => {
            STARTERS.iter().any(|starter| name.eq_ignore_ascii_case(starter))
        }
        _ => false,
    })
}

/// Whether what `written` leads to decides what runs later, by its own name or through links.
pub(crate) fn starts_later_at(gate: &PathGate, written: &str) -> bool {
    starts_later(written)
        || gate
            .resolve(written)
            .is_ok_and(|found| starts_later(&found.relative().to_string_lossy()))
}

/// Most entries looked at for links that lead out.
const MAX_ENTRIES: usize = 20_000;

/// Whether a link in or below `written` leads out of the workspace, or there are too many files to tell.
pub(super) fn leads_out(gate: &PathGate, written: &str, bases: &[String]) -> bool {
    let mut entries = 0;
    let mut open: Vec<String> = from_bases(written, bases).collect();
    while let Some(folder) = open.pop() {
        let Ok(listing) = std::fs::read_dir(gate.workspace().join(&folder)) else { continue };
        for entry in listing {
            entries += 1;
            if entries > MAX_ENTRIES {
                return true;
            }
            let Ok(entry) = entry else { continue };
            let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else {
                return true;
            };
            let path = format!("{folder}/{name}");
            if kind.is_symlink() && gate.resolve(&path).is_err_and(|e| e.is_policy()) {
                return true;
            }
            if kind.is_dir() {
                open.push(path);
            }
        }
    }
    false
}

/// The word as a path, from each folder the command may stand in.
pub(super) fn from_bases<'a>(
    word: &'a str,
    bases: &'a [String],
) -> impl Iterator<Item = String> + 'a {
    bases.iter().map(move |base| match word.starts_with('/') || base.is_empty() {
        true => word.to_owned(),
        false => format!("{base}/{word}"),
    })
}

/// Whether it is a place that everything may be written to.
pub(super) fn is_sink(written: &str) -> bool {
    SINKS.contains(&written) || is_descriptor(written)
}

fn is_descriptor(written: &str) -> bool {
    let number = written.strip_prefix("/dev/fd/");
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

fn rank(place: &Place) -> u8 {
    match place {
        Place::Inside => 0,
        Place::Unclear(_) => 1,
        Place::Outside(_) => 2,
        Place::Closed(_) => 3,
    }
}

fn look_once(gate: &PathGate, written: &str, path: &str) -> Place {
    let closed = || Place::Closed(PathError::Forbidden { path: written.to_owned() }.to_string());
    if written.is_empty() {
        return Place::Inside;
    }
    // The shell's home is the workspace.
    if let Some(rest) = written.strip_prefix("~/")
        && matches!(gate.resolve(rest), Err(PathError::Forbidden { .. }))
    {
        return closed();
    }
    match gate.resolve(path) {
        Ok(_) => Place::Inside,
        Err(PathError::Forbidden { .. }) => closed(),
        Err(_) if path.starts_with('/') && shows_a_process(Path::new(path)) => closed(),
        // The path gate confines first; a closed path outside the workspace is closed all the same.
        Err(e @ PathError::Outside { .. }) => match gate.closes_outside(path) {
            true => closed(),
            false => Place::Outside(e.to_string()),
        },
        Err(e @ PathError::NotFound { .. }) => Place::Unclear(e.to_string()),
        Err(e) if e.is_policy() => Place::Outside(e.to_string()),
        Err(_) => Place::Inside,
    }
}

/// Whether a path lies in a process's folder of `/proc`: its environment and files are the service's own
/// secrets as often as not (A099). A name that isn't known yet counts as one.
fn shows_a_process(path: &Path) -> bool {
    let plain: PathBuf = path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
        plain
    });
    let Ok(rest) = plain.strip_prefix("/proc") else {
        return false;
    };
    let Some(Component::Normal(first)) = rest.components().next() else {
        return false;
    };
    let first = first.to_string_lossy();
    first.contains("self")
        || first.bytes().all(|b| b.is_ascii_digit())
        || first.contains(['$', '*', '?', '[', '`', '{', '\\'])
}
