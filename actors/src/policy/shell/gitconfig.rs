//! The settings of a repository, read as git reads them (`config.c`), and which of them start nothing.
//!
//! Settings name programs in many ways (`diff.external`, drivers, filters, editors, aliases, includes), and
//! every version of git adds some. So those that are harmless are listed, not those that are not.

/// A setting: its key without a subsection's name, in small letters, and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Setting {
    /// `diff.*.command` for `[diff "x"] command = …`.
    pub(super) key: String,
    /// What it is set to; a key without `=` is set to nothing.
    pub(super) value: String,
}

/// Keys that start nothing and read nothing of another place. `*` is the name of a subsection.
///
/// `core.fsmonitor` and `core.hookspath` start programs, but the environment of a command says otherwise.
const HARMLESS: &[&str] = &[
    "core.repositoryformatversion",
    "core.filemode",
    "core.bare",
    "core.logallrefupdates",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.quotepath",
    "core.abbrev",
    "core.compression",
    "core.loosecompression",
    "core.bigfilethreshold",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.untrackedcache",
    "core.preloadindex",
    "core.commitgraph",
    "core.multipackindex",
    "core.splitindex",
    "core.trustctime",
    "core.checkstat",
    "core.protecthfs",
    "core.protectntfs",
    "core.longpaths",
    "core.hidedotfiles",
    "core.commentchar",
    "core.whitespace",
    "core.fsmonitor",
    "core.hookspath",
    "extensions.objectformat",
    "extensions.compatobjectformat",
    "extensions.worktreeconfig",
    "extensions.refstorage",
    "extensions.relativeworktrees",
    "remote.*.url",
    "remote.*.pushurl",
    "remote.*.fetch",
    "remote.*.push",
    "remote.*.tagopt",
    "remote.*.prune",
    "remote.*.mirror",
    "remote.*.followremotehead",
    "remote.pushdefault",
    "branch.*.remote",
    "branch.*.merge",
    "branch.*.rebase",
    "branch.*.pushremote",
    "branch.*.description",
    "branch.*.vscode-merge-base",
    "branch.autosetupmerge",
    "branch.autosetuprebase",
    "branch.sort",
    "tag.sort",
    "user.name",
    "user.email",
    "user.useconfigonly",
    "author.name",
    "author.email",
    "committer.name",
    "committer.email",
    "init.defaultbranch",
    "log.date",
    "log.decorate",
    "log.abbrevcommit",
    "log.follow",
    "status.branch",
    "status.short",
    "status.showstash",
    "status.showuntrackedfiles",
    "status.relativepaths",
    "status.renames",
    "status.aheadbehind",
    "diff.renames",
    "diff.renamelimit",
    "diff.algorithm",
    "diff.colormoved",
    "diff.colormovedws",
    "diff.mnemonicprefix",
    "diff.noprefix",
    "diff.context",
    "diff.interhunkcontext",
    "diff.indentheuristic",
    "diff.*.xfuncname",
    "diff.*.funcname",
    "diff.*.binary",
    "diff.*.wordregex",
    "merge.conflictstyle",
    "merge.ff",
    "merge.stat",
    "merge.log",
    "merge.renames",
    "merge.renamelimit",
    "pull.rebase",
    "pull.ff",
    "push.default",
    "push.autosetupremote",
    "push.followtags",
    "fetch.prune",
    "fetch.prunetags",
    "fetch.parallel",
    "rebase.autosquash",
    "rebase.autostash",
    "rebase.updaterefs",
    "rebase.stat",
    "rerere.enabled",
    "rerere.autoupdate",
    "commit.verbose",
    "commit.status",
    "commit.cleanup",
    "gc.auto",
    "gc.autopacklimit",
    "gc.autodetach",
    "gc.pruneexpire",
    "gc.reflogexpire",
    "gc.reflogexpireunreachable",
    "gc.writecommitgraph",
    "maintenance.auto",
    "maintenance.strategy",
    "pack.window",
    "pack.depth",
    "pack.threads",
    "pack.windowmemory",
    "index.version",
    "index.threads",
    "feature.manyfiles",
    "i18n.commitencoding",
    "i18n.logoutputencoding",
    "checkout.defaultremote",
    "submodule.active",
    "submodule.*.url",
    "submodule.*.active",
    "submodule.*.branch",
    "submodule.*.path",
    "lfs.repositoryformatversion",
];
/// Sections of which every key is harmless.
const HARMLESS_SECTIONS: &[&str] = &["color", "column", "advice", "gui"];

/// Whether a setting starts nothing. Where a repository's files are is looked up by the caller.
pub(super) fn is_harmless(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or_default();
    HARMLESS.contains(&key) || HARMLESS_SECTIONS.contains(&section)
}

/// All settings of a file. None: git would not read it either, or something in it can't be told.
pub(super) fn settings(bytes: &[u8]) -> Option<Vec<Setting>> {
    let mut reader = Reader { bytes, at: 0 };
    let mut found = Vec::new();
    let mut section: Option<String> = None;
    while let Some(byte) = reader.next() {
        match byte {
            b'#' | b';' => reader.skip_line(),
            byte if byte.is_ascii_whitespace() => {}
            b'[' => section = Some(reader.section()?),
            byte if byte.is_ascii_alphabetic() => {
                let (name, value) = reader.setting(byte)?;
                let key = format!("{}.{name}", section.as_deref()?);
                found.push(Setting { key, value });
            }
            _ => return None,
        }
    }
    Some(found)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// The next byte; a line may end as on Windows.
    fn next(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        if byte == b'\r' && self.bytes.get(self.at) == Some(&b'\n') {
            self.at += 1;
            return Some(b'\n');
        }
        Some(byte)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    /// The rest of `[section]`, `[section.sub]` or `[section "sub"]`.
    fn section(&mut self) -> Option<String> {
        let mut name = String::new();
        loop {
            match self.next()? {
                b']' => break,
                b' ' | b'\t' => {
                    self.subsection()?;
                    return Some(format!("{}.*", name.split('.').next()?));
                }
                byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => {
                    name.push(char::from(byte.to_ascii_lowercase()));
                }
                _ => return None,
            }
        }
        Some(match name.split_once('.') {
            Some((section, _)) => format!("{section}.*"),
            None => name,
        })
    }

    /// What follows the space in `[section "sub"]`.
    fn subsection(&mut self) -> Option<()> {
        let mut byte = self.next()?;
        while matches!(byte, b' ' | b'\t') {
            byte = self.next()?;
        }
        if byte != b'"' {
            return None;
        }
        loop {
            match self.next()? {
                b'\n' => return None,
                b'"' => break,
                b'\\' => drop(self.next().filter(|byte| *byte != b'\n')?),
                _ => {}
            }
        }
        (self.next()? == b']').then_some(())
    }

    /// A key that begins with `first`, and its value.
    fn setting(&mut self, first: u8) -> Option<(String, String)> {
        let mut name = String::from(char::from(first.to_ascii_lowercase()));
        let mut byte = self.next();
        while let Some(part) = byte.filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
            name.push(char::from(part.to_ascii_lowercase()));
            byte = self.next();
        }
        while matches!(byte, Some(b' ' | b'\t')) {
            byte = self.next();
        }
        match byte {
            None | Some(b'\n') => Some((name, String::new())),
            Some(b'=') => Some((name, self.value()?)),
            Some(_) => None,
        }
    }

    fn value(&mut self) -> Option<String> {
        let (mut value, mut quoted, mut quotes, mut comment) = (Vec::new(), false, false, false);
        loop {
            match self.next() {
                None | Some(b'\n') => {
                    let text = String::from_utf8_lossy(&value);
                    let text = if quotes { &text } else { text.trim() };
                    return (!quoted).then(|| text.to_owned());
                }
                Some(_) if comment => {}
                Some(byte) if value.is_empty() && !quotes && byte.is_ascii_whitespace() => {}
                Some(b'#' | b';') if !quoted => comment = true,
                Some(b'"') => {
                    quoted = !quoted;
                    quotes = true;
                }
                Some(b'\\') => match self.next()? {
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                Some(byte) => value.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Option<Vec<String>> {
        settings(text.as_bytes()).map(|all| all.into_iter().map(|one| one.key).collect())
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = "# a comment \\\n[core]\r\n\tbare = false ; why\n[Diff \"a.\\\"b]\"] Command=x\n\
                    [filter.lfs]\nclean\n[a]b=1\\\n[diff]\\\nexternal=x\n";
        let wanted = ["core.bare", "diff.*.command", "filter.*.clean", "a.b"];
        assert_eq!(keys(text).unwrap(), wanted);
        let all = settings(b"[core] worktree = \"a \\\"b\\\" # c\"# d\n").unwrap();
        assert_eq!(all[0].value, "a \"b\" # c");
        assert_eq!(keys("").unwrap(), [] as [&str; 0]);
    }

    #[test]
    fn what_git_would_not_read_is_not_guessed_at() {
        for text in [
            "a = b",
            "[core",
            "[core]\na ! b",
            "[core]\n= x",
            "[x \"a\n\"]\n",
            "[x \"a\" ]\n",
            "[x a]\n",
            "[core]\na = \"x\n",
            "[core]\na = \\x\n",
            "[core]\n\u{feff}a = b",
        ] {
            assert_eq!(keys(text), None, "{text}");
        }
    }

    #[test]
    fn what_names_a_program_is_not_harmless() {
        for key in [
            "core.pager",
            "core.editor",
            "core.sshcommand",
            "core.gitproxy",
            "core.worktree",
            "core.attributesfile",
            "core.alternaterefscommand",
            "diff.external",
            "diff.*.command",
            "diff.*.textconv",
            "filter.*.clean",
            "filter.*.process",
            "merge.*.driver",
            "alias.log",
            "alias.*.command",
            "include.path",
            "includeif.*.path",
            "gpg.program",
            "log.showsignature",
            "pager.log",
            "submodule.*.update",
            "submodule.recurse",
            "trailer.*.command",
            "credential.*.helper",
            "remote.*.promisor",
            "extensions.partialclone",
            "trace2.eventtarget",
            "format.pretty",
            "unheard.of",
        ] {
            assert!(!is_harmless(key), "{key}");
        }
        for key in ["core.bare", "remote.*.url", "branch.*.merge", "color.*.meta", "user.name"] {
            assert!(is_harmless(key), "{key}");
        }
    }
}
