//! The files that builds start from without being told.

use std::path::{Path, PathBuf};

/// What each program looks for in the folder it is started in, or sent to.
const STARTS_FROM: &[(&[&str], &[&str])] = &[
    (&["make", "gmake"], &["GNUmakefile", "makefile", "Makefile"]),
    (&["cmake"], &["CMakeLists.txt", "CMakePresets.json", "CMakeUserPresets.json"]),
    (&["ninja"], &["build.ninja"]),
    (&["meson"], &["meson.build", "meson_options.txt", "meson.options"]),
    (
        &["npm", "npx", "pnpm", "yarn", "bun"],
        &[
            "package.json",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            "pnpm-workspace.yaml",
            ".pnpmfile.cjs",
            "bunfig.toml",
        ],
    ),
    (&["pip", "pipx", "uv", "poetry"], &["pyproject.toml", "setup.py", "setup.cfg", "uv.toml"]),
    (&["gem", "bundle"], &["Gemfile", "Rakefile", ".bundle/config"]),
    (
        &["cargo", "rustup"],
        &[
            "Cargo.toml",
            "build.rs",
            ".cargo/config.toml",
            ".cargo/config",
            "rust-toolchain.toml",
            "rust-toolchain",
        ],
    ),
    (&["go"], &["go.mod", "go.work"]),
    (&["mvn"], &["pom.xml", ".mvn/maven.config", ".mvn/jvm.config", ".mvn/extensions.xml"]),
    (
        &["gradle"],
        &[
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
            "gradle.properties",
        ],
    ),
    (&["composer"], &["composer.json"]),
    (&["docker", "podman"], &["Dockerfile", "compose.yaml", "compose.yml", "docker-compose.yml"]),
];

/// Those of them that are there, for the programs among `words`: in `folder`, and in every folder that one of
/// the words may be.
pub(super) fn build_files<'a>(words: impl Iterator<Item = &'a str>, folder: &Path) -> Vec<PathBuf> {
    let words: Vec<&str> = words.collect();
    let names: Vec<&str> = words
        .iter()
        .filter_map(|word| word.rsplit('/').next())
        .flat_map(|word| STARTS_FROM.iter().filter(move |(programs, _)| programs.contains(&word)))
        .flat_map(|(_, files)| files.iter().copied())
        .collect();
    if names.is_empty() {
        return Vec::new();
    }
    let mut folders = vec![folder.to_path_buf()];
    for word in words {
        // `-C sub`, `-Csub`, `--prefix=sub`
        let attached = word.strip_prefix('-').and_then(|word| word.get(1..));
        let spellings = [Some(word), word.split_once('=').map(|(_, value)| value), attached];
        let named = spellings.into_iter().flatten().filter(|word| !word.is_empty());
        folders.extend(named.map(|word| folder.join(word)).filter(|path| path.is_dir()));
    }
    folders.sort();
    folders.dedup();
    let files = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    files.filter(|path| path.is_file()).collect()
}
