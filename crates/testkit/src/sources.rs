//! The text files of a repository, for tests of what may be written where.

use std::fs;
use std::io;
use std::path::Path;

/// A text file.
#[derive(Debug, Clone)]
pub struct Source {
    /// Path from the root of the repository: `crates/api/src/lib.rs`.
    pub path: String,
    /// The complete text.
    pub text: String,
}

impl Source {
    /// Whether a Rust file contains only tests.
    pub fn is_for_tests(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }
}

/// All files of the repository `root` that are below `folder` and have this extension, sorted by path, except those in
/// cargo's `target`, `node_modules` and hidden folders.
///
/// # Errors
///
/// If a folder or file cannot be read.
pub fn sources(root: &Path, folder: &str, extension: &str) -> io::Result<Vec<Source>> {
    let (mut folders, mut sources) = (vec![root.join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                let is_built = name == "target" && path.join("CACHEDIR.TAG").exists();
                if !name.starts_with('.') && !is_built && name != "node_modules" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path)?;
                let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                sources.push(Source { path, text });
            }
        }
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(sources)
}
