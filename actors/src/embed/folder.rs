//! A folder that goes with its agent.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rookery_messages::time::World;

use super::EmbedError;

/// Removed when it is dropped.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// A fresh one, closed to others.
    pub(super) fn new(world: &World) -> Result<Self, EmbedError> {
        let path = std::env::temp_dir().join(format!("rookery-{}", world.ids.next()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|source| EmbedError::File {
            what: "a folder can't be made at",
            path: path.clone(),
            source,
        })?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "a folder of an agent stays behind");
        }
    }
}
