//! The Rust files of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace::{members, root};

/// Folders of the store that are left out of the names of queries.
const WINGS: [&str; 7] = ["delivery", "knowledge", "operate", "run", "schedule", "session", "tenant"];

/// A Rust file.
pub(crate) struct Source {
    /// Path from the root of the repository: `crates/api/src/lib.rs`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// Whether the file contains only tests.
    pub(crate) fn is_for_tests(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// The module of a file of the store, without its wing: `event::batch` for `run/event/batch.rs`.
    pub(crate) fn store_module(&self) -> Option<String> {
        let path =
            self.path.strip_prefix("crates/store/src/")?.trim_end_matches(".rs").trim_end_matches("/mod");
        let in_wing = WINGS.iter().find_map(|wing| path.strip_prefix(wing)?.strip_prefix('/'));
        Some(in_wing.unwrap_or(path).replace('/', "::"))
    }
}

/// All Rust files of the workspace, sorted by path.
pub(crate) fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    for member in members() {
        collect(&member.folder, &mut paths);
    }
    paths.sort();
    let root = root();
    paths
        .into_iter()
        .map(|path| Source {
            text: fs::read_to_string(&path).unwrap(),
            path: path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned(),
        })
        .collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("node_modules") {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}
