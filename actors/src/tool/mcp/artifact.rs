//! Files that results are kept in: in the agent's workspace, under names of our own (A108).

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;

use rookery_messages::tool::ToolContext;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::policy::paths::PathGate;

/// The folder of the workspace they lie in.
const FOLDER: &str = "artifacts";

/// Keeps a part of a call's result. Gives the path in the workspace, or what went wrong.
pub(super) async fn keep(
    cx: &ToolContext,
    server: &str,
    number: usize,
    extension: &str,
    bytes: Vec<u8>,
) -> Result<String, String> {
    // The end of a call's id is its random part.
    let call = cx.call.0.simple().to_string();
    let call = call.get(call.len().saturating_sub(12)..).unwrap_or(&call).to_owned();
    let path = format!("{FOLDER}/{server}-{call}-{number}.{extension}");
    let (workspace, forbidden) = (cx.workspace.clone(), cx.forbidden_paths.clone());
    let written = path.clone();
    let work = move || {
        let gate = PathGate::open(&workspace, &forbidden).map_err(|e| e.to_string())?;
        let place = gate.resolve(&written).map_err(|e| e.to_string())?;
        let (folder, name) = place.place_for_file(true).map_err(|e| e.to_string())?;
        // The name is the call's own: one that is there is left from a former attempt of it.
        match rustix::fs::unlinkat(&folder, name.as_bytes(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e.to_string()),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name.as_bytes(), flags, Mode::from_raw_mode(0o666))
            .map_err(|e| e.to_string())?;
        let mut file = std::fs::File::from(file);
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(|e| e.to_string())
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map(|()| path),
        Err(_) => Err("the service is ending".to_owned()),
    }
}

/// The usual ending of a file of this media type.
pub(super) fn extension(mime: Option<&str>) -> &'static str {
    let kind = mime.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match kind.to_ascii_lowercase().as_str() {
        "image/png" => "png",
        "image/jpeg" | "image/jpg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" => "wav",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "video/mp4" => "mp4",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/gzip" => "gz",
        "application/zip" => "zip",
        "text/html" => "html",
        "text/csv" => "csv",
        "text/markdown" => "md",
        kind if kind.starts_with("text/") => "txt",
        _ => "bin",
    }
}
