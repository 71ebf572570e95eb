//! Patterns of file names, expanded as the shell will, so that each match is judged like a written word.

use std::fs::read_dir;
use std::path::Path;

use globset::GlobBuilder;

use super::places::from_bases;

/// Most entries looked at for one pattern.
const MAX_ENTRIES: usize = 4_096;
/// Most matches of one pattern.
const MAX_MATCHES: usize = 256;

/// One character, and whether it is quoted.
pub(super) type Char = (char, bool);

/// Whether an unquoted pattern character is in it.
pub(super) fn is_pattern(word: &[Char]) -> bool {
    word.iter().any(|(c, quoted)| !quoted && matches!(c, '*' | '?' | '['))
}

/// The files that a pattern names, from each folder; none if there are too many, or it can't be read.
///
/// May name more than the shell will find, never less.
pub(super) fn expand(word: &[Char], bases: &[String], root: &Path) -> Option<Vec<String>> {
    let mut entries = 0;
    let mut found = Vec::new();
    for start in from_bases("", bases) {
        let start = root.join(start);
        let mut places = vec![String::new()];
        for part in word.split_inclusive(|(c, _)| *c == '/') {
            let (name, slash) = match part.split_last() {
                Some((('/', _), name)) => (name, "/"),
                _ => (part, ""),
            };
            let mut next = Vec::new();
            for place in places {
                if !is_pattern(name) {
                    next.push(place + &text(name) + slash);
                    continue;
                }
                let folder = start.join(if place.is_empty() { "." } else { &place });
                for name in matching(name, &folder, &mut entries)? {
                    next.push(format!("{place}{name}{slash}"));
                }
            }
            places = next;
            if places.len() > MAX_MATCHES {
                return None;
            }
        }
        found.extend(places);
    }
    (found.len() <= MAX_MATCHES).then_some(found)
}

/// The characters without their quoting.
pub(super) fn text(word: &[Char]) -> String {
    word.iter().map(|(c, _)| c).collect()
}

fn matching(name: &[Char], folder: &Path, entries: &mut usize) -> Option<Vec<String>> {
    let mut pattern = String::new();
    for (c, quoted) in name {
        if *c == '[' && !quoted {
            // Shells differ in what may stand in brackets; whatever follows may match.
            pattern.push('*');
            break;
        }
        if *quoted || matches!(c, '{' | '}') {
            pattern.push('\\');
        }
        pattern.push(*c);
    }
    let glob = GlobBuilder::new(&pattern).backslash_escape(true).build().ok()?.compile_matcher();
    let dotted = name.first().is_some_and(|(c, _)| *c == '.');
    let mut found = Vec::new();
    let Ok(listing) = read_dir(folder) else {
        return Some(found);
    };
    for entry in listing {
        *entries += 1;
        if *entries > MAX_ENTRIES {
            return None;
        }
        let Ok(entry) = entry else { continue };
        let file = entry.file_name().into_string().ok()?;
        // What `?` is, a byte or a character, is a matter of the locale.
        let may = !file.is_ascii() && name.contains(&('?', false));
        if (dotted || !file.starts_with('.')) && (may || glob.is_match(&file)) {
            found.push(file);
        }
    }
    if dotted {
        found.extend([".", ".."].into_iter().filter(|name| glob.is_match(name)).map(str::to_owned));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chars(text: &str) -> Vec<Char> {
        text.chars().map(|c| (c, false)).collect()
    }

    #[test]
    fn a_pattern_names_the_files_that_the_shell_would_find() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for file in ["a.txt", "b.txt", ".hidden", "c.rs"] {
            std::fs::write(folder.path().join(file), "").expect("a file");
        }
        std::fs::create_dir(folder.path().join("sub")).expect("a folder");
        std::fs::write(folder.path().join("sub/d.txt"), "").expect("a file");
        let found = |pattern: &str| {
            let mut found =
                expand(&chars(pattern), &[String::new()], folder.path()).expect("files");
            found.sort();
            found
        };
        assert_eq!(found("*.txt"), ["a.txt", "b.txt"]);
        assert_eq!(found("*/*.txt"), ["sub/d.txt"]);
        assert_eq!(found("./?.rs"), ["./c.rs"]);
        assert_eq!(found(".h*"), [".hidden"]);
        assert_eq!(found(".*"), [".", "..", ".hidden"]);
        assert_eq!(found("none*"), Vec::<String>::new());
        for n in 0..300 {
            std::fs::write(folder.path().join(format!("many{n}")), "").expect("a file");
        }
        assert_eq!(expand(&chars("many*"), &[String::new()], folder.path()), None);
    }
}
