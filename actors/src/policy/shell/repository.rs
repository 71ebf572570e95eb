//! What steers git where a command stands: the settings of the repository it would find there.
//!
//! A repository comes into a workspace in an archive as easily as any other folder, and its settings name
//! programs that looking at it starts. Git is judged by them. What the environment of a command takes away
//! (hooks, file-system monitors, pagers, editors) need not be looked for.

use std::fs;
use std::path::{Path, PathBuf};

use super::gitconfig::{Setting, is_harmless, settings};
use crate::policy::display::visible;

/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 64 * 1_024 * 1_024;
/// Most entries looked at for repositories within a repository.
const MAX_ENTRIES: usize = 20_000;
/// The mode of a submodule in an index (`gitformat-index(5)`), big-endian, at whatever place.
const SUBMODULE: [u8; 4] = [0, 0, 0xe0, 0];
/// Where git looks for the settings of whoever runs it; the home of a command is its workspace.
const OF_HOME: &[&str] = &[".gitconfig", ".config/git/config"];

/// Why git, started in one of these folders, might run what nobody named, or reach beyond the workspace.
/// None: its settings are all harmless.
pub(super) fn steered(workspace: &Path, starts: &[PathBuf]) -> Option<String> {
    let look = Look { workspace };
    let found = OF_HOME.iter().try_for_each(|name| look.file(&workspace.join(name), workspace));
    let real = |start: &PathBuf| start.canonicalize().ok();
    // As it is written and as it is: a folder may be reached through a link.
    let starts = starts.iter().cloned().chain(starts.iter().filter_map(real));
    let found = found.and_then(|()| starts.into_iter().try_for_each(|start| look.from(&start)));
    found.err()
}

struct Look<'a> {
    workspace: &'a Path,
}

type Steered = Result<(), String>;

impl Look<'_> {
    /// The repositories that git may find upwards from a folder.
    fn from(&self, start: &Path) -> Steered {
        let mut whole = false;
        for folder in start.ancestors().take_while(|folder| folder.starts_with(self.workspace)) {
            whole |= self.at(folder, true)?;
        }
        // Git goes on where the workspace ends.
        let outer = self.workspace.ancestors().skip(1).find(|folder| folder.join(".git").exists());
        match outer {
            Some(outer) if !whole => Err(format!(
                "git would use the repository at `{}`, outside of the workspace",
                visible(&outer.display().to_string())
            )),
            _ => Ok(()),
        }
    }

    /// The repository whose files are in `folder`. Says whether git surely takes it for one.
    fn at(&self, folder: &Path, within: bool) -> Result<bool, String> {
        let dot = folder.join(".git");
        let Ok(found) = fs::metadata(&dot) else {
            // A link that leads nowhere leads somewhere once something is there.
            return match fs::symlink_metadata(&dot) {
                Ok(_) => Err(self.text(&dot, "can't be read")),
                Err(_) => Ok(false),
            };
        };
        let own = match found.is_dir() {
            true => dot.clone(),
            false => {
                let text = self.read(&dot)?;
                let text = String::from_utf8_lossy(&text).into_owned();
                match text.strip_prefix("gitdir: ") {
                    Some(path) => folder.join(path.trim_end_matches(['\n', '\r'])),
                    None => return Err(self.text(&dot, "can't be read")),
                }
            }
        };
        let own = self.inside(&own)?;
        let common = match fs::symlink_metadata(own.join("commondir")) {
            Err(_) => own.clone(),
            Ok(_) => {
                let text = self.read(&own.join("commondir"))?;
                let path = String::from_utf8_lossy(&text).trim_end().to_owned();
                self.inside(&own.join(path))?
            }
        };
        for name in ["config", "config.worktree"] {
            for place in [&own, &common] {
                self.file(&place.join(name), &own)?;
            }
        }
        if fs::metadata(common.join("objects/info/alternates")).is_ok_and(|file| file.len() > 0) {
            return Err(self.text(&own, "takes objects from elsewhere"));
        }
        if within && self.has_submodules(&own)? {
            self.below(folder)?;
        }
        let parts = ["HEAD", "objects", "refs"].map(|name| {
            let place = if name == "HEAD" { &own } else { &common };
            fs::symlink_metadata(place.join(name)).is_ok()
        });
        Ok(parts == [true; 3])
    }

    /// A folder of git's, which has to lie in the workspace.
    fn inside(&self, path: &Path) -> Result<PathBuf, String> {
        let real = path.canonicalize().map_err(|_| self.text(path, "can't be read"))?;
        match real.starts_with(self.workspace) {
            true => Ok(real),
            false => Err(self.text(path, "lies outside of the workspace")),
        }
    }

    /// The settings in a file, if there is one. `own` is where a path in them starts.
    fn file(&self, path: &Path, own: &Path) -> Steered {
        if fs::symlink_metadata(path).is_err() {
            return Ok(());
        }
        let found = settings(&self.read(path)?);
        let found = found.ok_or_else(|| self.text(path, "can't be read"))?;
        let steers = |setting: &&Setting| match &*setting.key {
            // Where the files of a submodule are.
            "core.worktree" => {
                let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
                !setting.value.chars().all(plain) || self.inside(&own.join(&setting.value)).is_err()
            }
            key => !is_harmless(key),
        };
        match found.iter().find(steers) {
            None => Ok(()),
            Some(setting) => Err(format!(
                "`{}` in `{}` may decide what git runs or reads",
                visible(&setting.key),
                visible(&self.shown(path))
            )),
        }
    }

    /// Whether git may look into other repositories from this one: its index has one, or bytes like it.
    fn has_submodules(&self, own: &Path) -> Result<bool, String> {
        let listing = fs::read_dir(own).map_err(|_| self.text(own, "can't be read"))?;
        for entry in listing.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if (name == "index" || name.starts_with("sharedindex."))
                && self.read(&entry.path())?.windows(4).any(|bytes| bytes == SUBMODULE)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The repositories in folders below.
    fn below(&self, folder: &Path) -> Steered {
        let mut entries = 0;
        let mut open = vec![folder.to_path_buf()];
        while let Some(folder) = open.pop() {
            let Ok(listing) = fs::read_dir(&folder) else { continue };
            for entry in listing.flatten() {
                entries += 1;
                if entries > MAX_ENTRIES {
                    return Err("there are too many files to tell what steers git".to_owned());
                }
                let name = entry.file_name();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) && name != ".git" {
                    self.at(&entry.path(), false)?;
                    open.push(entry.path());
                }
            }
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let small = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_BYTES);
        let bytes = if small { fs::read(path).ok() } else { None };
        bytes.ok_or_else(|| self.text(path, "can't be read"))
    }

    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(self.workspace).unwrap_or(path).display().to_string()
    }

    fn text(&self, path: &Path, what: &str) -> String {
        format!("`{}`, which decides what git runs, {what}", visible(&self.shown(path)))
    }
}
