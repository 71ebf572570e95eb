//! Where a command's program is looked for, and what is found there.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::arguments::hex;

/// Where programs are if the environment doesn't say.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Largest script a grant is bound to, in bytes.
const MAX_SCRIPT_BYTES: u64 = 1_024 * 1_024;

/// The folders a command's program is looked for in, as the shell tool sets them. A program of the
/// workspace must not pass for one of the system.
pub fn search_path(workspace: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).filter(|f| f.is_absolute() && !f.starts_with(workspace));
    std::env::join_paths(folders)
        .ok()
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| OsString::from(USUAL_PATH))
}

/// The file a program's name stands for, when it is started in `folder`.
pub fn find(program: &str, folder: &Path, workspace: &Path) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(folder.join(program)).filter(|path| path.is_file());
    }
    std::env::split_paths(&search_path(workspace))
        .map(|folder| folder.join(program))
        .find(|path| runs(path))
}

fn runs(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// SHA-256 (hex) of a regular file's content; none if it can't be read whole or is too large to be bound.
pub fn content_hash(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok().filter(|file| {
        file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_SCRIPT_BYTES)
    })?;
    // It may grow while it is read.
    let read = file.take(MAX_SCRIPT_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (read as u64 <= MAX_SCRIPT_BYTES).then(|| hex(&Sha256::digest(&bytes)))
}
