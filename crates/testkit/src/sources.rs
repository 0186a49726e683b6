//! The Rust files of a repository, for tests of what may be written where.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A Rust file.
#[derive(Debug, Clone)]
pub struct Source {
    /// Path from the root of the repository: `crates/api/src/lib.rs`.
    pub path: String,
    /// The complete text.
    pub text: String,
}

impl Source {
    /// Whether the file contains only tests.
    pub fn is_for_tests(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }
}

/// All Rust files in `crates` below `root`, sorted by path.
///
/// # Errors
///
/// If a folder or file cannot be read.
pub fn sources(root: &Path) -> io::Result<Vec<Source>> {
    let (mut folders, mut sources) = (vec![root.join("crates")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("node_modules") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(source(root, path)?);
            }
        }
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(sources)
}

fn source(root: &Path, path: PathBuf) -> io::Result<Source> {
    let text = fs::read_to_string(&path)?;
    let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
    Ok(Source { path, text })
}
