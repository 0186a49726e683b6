//! Length and names of files, and the top level of the repository.

use std::fs;
use std::path::Path;

use crate::workspace::{root, sources};

/// Maximum number of lines of a file.
const MAX_LINES: usize = 900;

/// Module names that say nothing, and so collect whatever does not fit elsewhere.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "types", "misc"];

/// Allowed files and folders at the top level, besides hidden ones.
const TOP: [&str; 10] = [
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    "crates",
    "migrations",
    "jobs",
    "deploy",
    "README.md",
    "CONTRIBUTING.md",
    "LICENSE",
];

/// Applies to tests as well: a test in a long file is not found and gets written again.
#[test]
fn files_are_short() {
    let lengths = sources().into_iter().map(|source| (source.text.lines().count(), source.path));
    let wrong: Vec<_> = lengths.filter(|(lines, _)| *lines > MAX_LINES).collect();
    assert!(wrong.is_empty(), "a file has at most {MAX_LINES} lines: {wrong:#?}");
}

#[test]
fn module_names_say_something() {
    let is_empty =
        |name: Option<&std::ffi::OsStr>| name.is_some_and(|n| EMPTY_NAMES.iter().any(|empty| n == *empty));
    let wrong: Vec<String> = sources()
        .into_iter()
        .map(|source| source.path)
        .filter(|path| {
            let path = Path::new(path);
            is_empty(path.file_stem()) || path.ancestors().any(|folder| is_empty(folder.file_name()))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn top_level_has_only_the_listed_files() {
    let wrong: Vec<String> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.') && name != "target" && !TOP.contains(&name.as_str()))
        .collect();
    assert!(wrong.is_empty(), "unexpected at the top level: {wrong:?}; allowed are {TOP:?}");
}

/// `cargo xtask quick` runs the tests in `src/` without servers.
#[test]
fn tests_in_src_use_no_servers() {
    // Development tools, and the crates whose purpose is to start servers.
    let may = ["testkit", "xtask", "harness", "embedded", "cli"].map(|name| format!("crates/{name}/"));
    let wrong: Vec<String> = sources()
        .into_iter()
        .filter(|source| source.path.contains("/src/") && !may.iter().any(|may| source.path.starts_with(may)))
        .filter(|source| {
            source.text.contains("houston_testkit::") || source.text.contains("houston_embedded::")
        })
        .map(|source| source.path)
        .collect();
    assert!(wrong.is_empty(), "move tests with servers to the crate's `tests/`: {wrong:#?}");
}
