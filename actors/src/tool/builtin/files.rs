//! What the file tools share: the path gate of a call, work on a blocking thread, safe replacement.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rookery_messages::ids::CallId;
use rookery_messages::tool::{ToolContext, ToolResult, text};
use rustix::fs::{Access, AtFlags, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use crate::policy::display::visible;
use crate::policy::paths::{Kind, PathError, PathGate, Resolved, readable};

/// What file work needs of its call, owned, so that it can move to a blocking thread.
pub(super) struct FileWork {
    workspace: PathBuf,
    forbidden: Arc<[PathBuf]>,
    /// The call, for the names of temporary files.
    pub(super) call: CallId,
    /// Looked at in every loop.
    pub(super) cancel: CancellationToken,
}

impl FileWork {
    /// The call's path gate.
    pub(super) fn gate(&self) -> Result<PathGate, ToolResult> {
        PathGate::open(&self.workspace, &self.forbidden).map_err(refused)
    }

    /// Ends the work if the call is cancelled.
    pub(super) fn go_on(&self) -> Result<(), ToolResult> {
        if self.cancel.is_cancelled() { Err(interrupted()) } else { Ok(()) }
    }
}

/// Runs `work` on a blocking thread. If the call's task is aborted the thread sees the cancelled token at
/// its next look and ends.
pub(super) async fn blocking(
    cx: &ToolContext,
    work: impl FnOnce(&FileWork) -> Result<ToolResult, ToolResult> + Send + 'static,
) -> ToolResult {
    // A child token: ending this future ends its thread, not the call's siblings.
    let cancel = cx.cancel.child_token();
    let _ends_with_us = cancel.clone().drop_guard();
    let files = FileWork {
        workspace: cx.workspace.clone(),
        forbidden: Arc::clone(&cx.forbidden_paths),
        call: cx.call,
        cancel,
    };
    match tokio::task::spawn_blocking(move || work(&files).unwrap_or_else(|failed| failed)).await {
        Ok(result) => result,
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        Err(_) => interrupted(),
    }
}

/// The result of a call that was cancelled.
pub(super) fn interrupted() -> ToolResult {
    ToolResult::failed(text::INTERRUPTED_RUNNING)
}

/// The result of a path that was not opened.
pub(super) fn refused(e: PathError) -> ToolResult {
    ToolResult::failed(e.to_string())
}

/// The result of an input or output error at a path.
pub(super) fn broken(at: &Resolved, e: &std::io::Error) -> ToolResult {
    ToolResult::failed(format!("path `{}` can't be used: {e}", shown(at)))
}

/// A resolved path as results name it.
pub(super) fn shown(at: &Resolved) -> String {
    visible(&at.relative().to_string_lossy())
}

/// Two calls that change the same file take turns: an edit must not undo another's (locks are shared by
/// hash, which only costs waiting).
pub(super) fn exclusively(at: &Resolved) -> MutexGuard<'static, ()> {
    const STRIPES: usize = 64;
    static LOCKS: [Mutex<()>; STRIPES] = [const { Mutex::new(()) }; STRIPES];
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(at.relative());
    LOCKS[(hash % STRIPES as u64) as usize].lock()
}

/// Puts a file with `content` in place, at once: whoever looks sees the old or the new one, also after a
/// crash. Keeps the mode, and where the system allows the owner, of the file it replaces.
pub(super) fn replace(
    at: &Resolved,
    content: &[u8],
    make_folders: bool,
    files: &FileWork,
) -> Result<(), ToolResult> {
    let (folder, name) = at.place_for_file(make_folders).map_err(refused)?;
    let old = at.found();
    if old.is_some() {
        // Renaming over a file needs no right to write it. A read-only file stays read-only.
        rustix::fs::accessat(&folder, name, Access::WRITE_OK, AtFlags::empty())
            .map_err(|e| refused(at.io(e)))?;
    }
    // The name is the call's own: one that is already there is left from its former attempt.
    let temporary = format!(".rookery-{}.tmp", files.call);
    let temporary = OsStr::new(&temporary);
    match rustix::fs::unlinkat(&folder, temporary, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(e) => return Err(refused(at.io(e))),
    }
    let done = write_beside(folder.as_fd(), temporary, content, old, files)
        .map_err(|e| broken(at, &e))
        .and_then(|()| files.go_on())
        .and_then(|()| unchanged(at, folder.as_fd(), name))
        .and_then(|()| {
            rustix::fs::renameat(&folder, temporary, &folder, name).map_err(|e| refused(at.io(e)))
        });
    if done.is_err() {
        // Nothing depends on it: a later attempt of this call removes it too.
        let _ = rustix::fs::unlinkat(&folder, temporary, AtFlags::empty());
        return done;
    }
    readable(folder.as_fd()).and_then(rustix::fs::fsync).map_err(|e| refused(at.io(e)))
}

/// Writes the new file beside the old one, to the disk.
fn write_beside(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    content: &[u8],
    old: Option<&Stat>,
    files: &FileWork,
) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Whom the old file excluded must not read the new one while it is written.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let file = rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(mode))?;
    if let Some(old) = old {
        let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        let made = rustix::fs::fstat(&file)?;
        if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid) {
            // Only root may give files away; anybody else's new file is their own, as with any editor.
            let _ = rustix::fs::fchown(&file, Some(owner), Some(group));
        }
        // After the owner: changing that clears bits of the mode.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(old.st_mode & 0o7777))?;
    }
    let mut file = File::from(file);
    for chunk in content.chunks(1 << 20) {
        if files.cancel.is_cancelled() {
            return Err(std::io::Error::other("the call was stopped"));
        }
        file.write_all(chunk)?;
    }
    file.sync_all()
}

/// Whether what stands at the place is still what was judged.
fn unchanged(at: &Resolved, folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), ToolResult> {
    let now = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(e) => return Err(refused(at.io(e))),
    };
    let same = match (at.found(), &now) {
        (None, None) => true,
        (Some(old), Some(now)) => {
            (old.st_dev, old.st_ino, old.st_size, old.st_mtime, old.st_mtime_nsec)
                == (now.st_dev, now.st_ino, now.st_size, now.st_mtime, now.st_mtime_nsec)
                && Kind::of(now) == Kind::File
        }
        _ => false,
    };
    if same { Ok(()) } else { Err(refused(at.changed())) }
}
