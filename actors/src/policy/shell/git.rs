//! `git`: its own options, its subcommand, and what steers it where it stands.

use std::path::{Path, PathBuf};

use super::finding::Weight;
use super::places::{self, Use};
use super::repository::steered;
use super::table;
use super::walk::Walk;
use super::word::Argument;
use crate::policy::display::visible;

impl Walk<'_> {
    /// Judges a run of git. What runs at the same time must not bring a repository in.
    pub(super) fn git_where_it_stands(&mut self, arguments: &[Argument]) {
        self.git(arguments);
        self.links.used |= self.links.parallel > 0;
    }

    fn git(&mut self, arguments: &[Argument]) {
        let mut rest = arguments;
        while let [first, more @ ..] = rest {
            match first.exact() {
                Some("--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs") => {
                    rest = more
                }
                Some("--version" | "--help") if arguments.len() == 1 => return,
                Some("-C") => {
                    let [folder, more @ ..] = more else { break };
                    let Some(folder) = folder.exact() else {
                        return self.unclear("the folder of `git -C` is only known when it runs");
                    };
                    self.path(folder, Use::Read);
                    let inside: Vec<String> =
                        places::from_bases(folder, &self.scope.bases).collect();
                    let before = self.scope.bases.clone();
                    self.scope.bases.extend(inside);
                    self.git(more);
                    self.scope.bases = before;
                    return;
                }
                Some(option) if option.starts_with('-') => {
                    self.may_run(|| format!("`git {}` can change what git runs", visible(option)));
                    return;
                }
                _ => break,
            }
        }
        self.repository();
        let [sub, rest @ ..] = rest else { return };
        let Some(sub) = sub.exact() else {
            return self.unclear("the subcommand of `git` is only known when it runs");
        };
        let two =
            rest.first().and_then(Argument::exact).map(|second| format!("git {sub} {second}"));
        if let Some((name, entry)) =
            two.as_deref().and_then(|name| Some((name, table::entry(name)?)))
        {
            return self.by_table(name, entry, &rest[1..]);
        }
        let name = format!("git {sub}");
        match table::entry(&name) {
            None => self.may_run(|| {
                format!("`{}` isn't known; it may be an alias, which runs anything", visible(&name))
            }),
            Some(entry) => {
                let gets = ["--get", "--get-all", "--get-regexp", "--list", "-l"];
                let first = rest.first().and_then(Argument::exact).unwrap_or("");
                if sub == "config" && !gets.contains(&first) {
                    self.note(Weight::High, || {
                        "`git config` can change what git runs; to read, begin with `--get`"
                            .to_owned()
                    });
                }
                self.by_table(&name, entry, rest);
            }
        }
    }

    /// What git would find where it stands.
    fn repository(&mut self) {
        if self.links.brought_in {
            self.found.unbound = true;
            self.unclear(
                "something in it may bring in a repository, and what that makes git run is only known \
                 then; run git in a call of its own",
            );
        }
        let root = self.root().to_path_buf();
        let starts: Vec<PathBuf> = self.scope.bases.iter().map(|base| root.join(base)).collect();
        self.bare_repository(&root, &starts);
        if let Some(why) = steered(&root, &starts) {
            self.found.unbound = true;
            self.may_run(|| why);
        }
    }

    /// A folder of plain files may be a repository too, whose settings name programs.
    fn bare_repository(&mut self, root: &Path, starts: &[PathBuf]) {
        let is_bare = |folder: &Path| {
            ["HEAD", "objects", "refs"].iter().all(|name| folder.join(name).exists())
        };
        let bare = starts.iter().any(|start| {
            start.ancestors().take_while(|folder| folder.starts_with(root)).any(is_bare)
        });
        if bare {
            self.found.unbound = true;
            self.note(Weight::High, || {
                "git would use a folder of the workspace as a repository, whose settings can name programs to \
                 run"
                    .to_owned()
            });
        }
    }
}
