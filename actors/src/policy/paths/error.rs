//! Why a path was not opened.

use std::io;

use crate::policy::display::visible;

/// Why a path was refused or could not be used. Paths in texts are shown with hidden characters escaped.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// It is not a path a tool may name.
    #[error("path `{}` is refused: {why}", visible(.path))]
    Malformed {
        /// As written.
        path: String,
        /// What is wrong with it, and how to write it.
        why: &'static str,
    },
    /// It leads out of the workspace.
    #[error(
        "path `{}` leads out of the workspace ({how}); only paths inside the agent's `workspace` can be used",
        visible(.path)
    )]
    Outside {
        /// As written.
        path: String,
        /// By what it leads out.
        how: &'static str,
    },
    /// It is closed, although it may lie in the workspace.
    #[error("path `{}` is closed to this call (`forbidden_paths`, `read_only_paths`, `write_only_paths`, or the service's own files)", visible(.path))]
    Forbidden {
        /// As written.
        path: String,
    },
    /// Its links go round in a circle, or too deep.
    #[error("path `{}` follows too many links", visible(.path))]
    TooManyLinks {
        /// As written.
        path: String,
    },
    /// The workspace itself can't be used.
    #[error(
        "the workspace `{workspace}` can't be opened: {source}; create the folder, or set the agent's `workspace`"
    )]
    Workspace {
        /// The folder.
        workspace: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Nothing is there.
    #[error("path `{}` does not exist", visible(.path))]
    NotFound {
        /// As written.
        path: String,
    },
    /// Something else is there.
    #[error("path `{}` is {found}, not {wanted}", visible(.path))]
    WrongKind {
        /// As written.
        path: String,
        /// What is there.
        found: &'static str,
        /// What was wanted.
        wanted: &'static str,
    },
    /// Somebody changed it between two looks.
    #[error("path `{}` changed while it was used; look at it again", visible(.path))]
    Changed {
        /// As written.
        path: String,
    },
    /// The system refused.
    #[error("path `{}` can't be used: {source}", visible(.path))]
    Io {
        /// As written.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl PathError {
    /// Whether a rule refused it, as opposed to the file system. An unusable workspace counts as a rule:
    /// without it nothing can be confined.
    pub fn is_policy(&self) -> bool {
        matches!(
            self,
            Self::Malformed { .. }
                | Self::Outside { .. }
                | Self::Forbidden { .. }
                | Self::TooManyLinks { .. }
                | Self::Workspace { .. }
        )
    }
}
