//! Attachments as files of the agent's workspace: fetched with a limit, under names that are safe.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use rookery_messages::attachment::Attachment;
use rookery_messages::channel::{AttachmentRef, ChannelAdapter};
use rookery_messages::tool::head;
use tokio::io::AsyncWriteExt;

use crate::media::media_type;
use crate::policy::display::visible;

/// The folder below the workspace.
const FOLDER: &str = "attachments";
/// Longest file name, in bytes.
const MAX_NAME: usize = 80;
/// Longest name as it is shown, in bytes.
const MAX_SHOWN: usize = 120;
/// Tries of one download.
const TRIES: u32 = 3;
/// Pause between two.
const PAUSE: Duration = Duration::from_secs(2);

/// A name that means no path, no hidden file and nothing to a shell, whatever the sender wrote.
pub fn safe_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut safe = String::new();
    for c in last.chars() {
        let plain = c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
        if plain {
            safe.push(c);
        } else if !safe.ends_with('_') {
            safe.push('_');
        }
    }
    let safe = safe.trim_matches(['.', '_', '-']);
    if safe.is_empty() {
        return "file".to_owned();
    }
    if safe.len() <= MAX_NAME {
        return safe.to_owned();
    }
    // The ending says what it is: it is kept.
    match safe.rsplit_once('.') {
        Some((stem, end)) if end.len() <= 10 => {
            format!("{}.{end}", head(stem, MAX_NAME - 1 - end.len()))
        }
        _ => head(safe, MAX_NAME).to_owned(),
    }
}

/// What came of an attachment.
pub(crate) struct Fetched {
    /// What the model reads about it, come what may.
    pub(crate) line: String,
    /// The file, if it is there.
    pub(crate) attachment: Option<Attachment>,
}

/// Fetches an attachment into the workspace.
pub(super) async fn fetch(
    adapter: &dyn ChannelAdapter,
    workspace: &Path,
    prefix: &str,
    file: &AttachmentRef,
) -> Fetched {
    let not = |why: &str| Fetched {
        line: format!("[attachment \"{}\" was not fetched: {}]", shown(&file.name), visible(why)),
        attachment: None,
    };
    let Some(limit) = adapter.capabilities().attachments else {
        return not("this channel takes none");
    };
    if let Some(size) = file.size.filter(|size| *size > limit) {
        return not(&format!("it has {size} bytes, {limit} are allowed"));
    }
    let bytes = match download(adapter, file, limit).await {
        Ok(bytes) => bytes,
        Err(why) => return not(&why),
    };
    match keep(workspace, prefix, &file.name, &bytes).await {
        Ok(kept) => kept,
        Err(error) => {
            tracing::warn!(%error, "an attachment could not be saved");
            not("it could not be saved")
        }
    }
}

/// Puts a file into the workspace, under a name that begins with `prefix`.
pub(crate) async fn keep(
    workspace: &Path,
    prefix: &str,
    name: &str,
    bytes: &[u8],
) -> std::io::Result<Fetched> {
    let safe = format!("{}-{}", safe_name(prefix), safe_name(name));
    save(workspace, &safe, bytes).await?;
    let path = format!("{FOLDER}/{safe}");
    let (media_type, size) = (media_type(bytes), bytes.len());
    Ok(Fetched {
        line: format!("[attached: {path} ({media_type}, {size} bytes)]"),
        attachment: Some(Attachment {
            path,
            media_type: media_type.to_owned(),
            size: size as u64,
            name: shown(name),
        }),
    })
}

/// A name as people and models read it.
fn shown(name: &str) -> String {
    head(&visible(name), MAX_SHOWN).to_owned()
}

async fn download(
    adapter: &dyn ChannelAdapter,
    file: &AttachmentRef,
    limit: u64,
) -> Result<Vec<u8>, String> {
    for again in (0..TRIES).rev() {
        match adapter.download(file, limit).await {
            Ok(bytes) if bytes.len() as u64 > limit => {
                return Err(format!("it has more than the {limit} bytes that are allowed"));
            }
            Ok(bytes) => return Ok(bytes),
            Err(fault) if fault.again && again > 0 => tokio::time::sleep(PAUSE).await,
            Err(fault) => return Err(fault.cause),
        }
    }
    Err("it could not be fetched".to_owned())
}

/// Writes a new file. A link an agent may have put in its place is not followed.
async fn save(workspace: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let folder = workspace.join(FOLDER);
    tokio::fs::create_dir_all(&folder).await?;
    if !tokio::fs::symlink_metadata(&folder).await?.is_dir() {
        return Err(std::io::Error::new(ErrorKind::NotADirectory, "attachments is no folder"));
    }
    let path = folder.join(name);
    match tokio::fs::remove_file(&path).await {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = tokio::fs::OpenOptions::new().write(true).create_new(true).open(&path).await?;
    file.write_all(bytes).await?;
    file.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_outside_become_plain_file_names() {
        for (name, safe) in [
            ("photo 1.jpg", "photo_1.jpg"),
            ("../../etc/passwd", "passwd"),
            ("C:\\x\\evil.exe", "evil.exe"),
            (".bashrc", "bashrc"),
            ("$(rm -rf ~).sh", "rm_-rf_.sh"),
            ("übung.pdf", "übung.pdf"),
            ("a\0b\n.txt", "a_b_.txt"),
            ("..", "file"),
            ("", "file"),
        ] {
            assert_eq!(safe_name(name), safe, "{name:?}");
        }
        let long = safe_name(&format!("{}.tar.gz", "é".repeat(100)));
        assert!(long.len() <= MAX_NAME && long.ends_with(".gz"), "{long}");
    }

    #[tokio::test]
    async fn a_link_in_the_files_place_is_replaced_and_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::write(&outside, "mine").unwrap();
        let work = dir.path().join("work");
        std::fs::create_dir_all(work.join(FOLDER)).unwrap();
        std::os::unix::fs::symlink(&outside, work.join(FOLDER).join("x")).unwrap();
        save(&work, "x", b"new").await.unwrap();
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(work.join(FOLDER).join("x")).unwrap(), "new");
        // A second life writes it again.
        save(&work, "x", b"again").await.unwrap();
        let other = dir.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(dir.path(), other.join(FOLDER)).unwrap();
        assert!(save(&other, "x", b"y").await.is_err());
    }
}
