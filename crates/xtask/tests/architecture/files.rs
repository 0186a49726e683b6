//! Length and names of files, and the top level of the repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::sources::sources;
use crate::workspace::root;

/// Maximum number of lines of a file.
const MAX_LINES: usize = 400;

/// Exceptions, with their maximum number of lines. This list may only shrink.
const LONGER: [(&str, usize); 0] = [];

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
    let longer = BTreeMap::from(LONGER);
    let mut wrong = Vec::new();
    for source in &sources() {
        let lines = source.text.lines().count();
        match longer.get(source.path.as_str()) {
            None if lines > MAX_LINES => {
                wrong.push(format!("{} has {lines} lines of {MAX_LINES}", source.path))
            }
            Some(most) if lines > *most => wrong.push(format!("{} has grown to {lines} lines", source.path)),
            Some(most) if lines < *most => {
                wrong.push(format!("{} has only {lines} lines: lower its number in LONGER", source.path));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn exceptions_exist() {
    let missing: Vec<_> = LONGER.iter().filter(|(path, _)| !root().join(path).is_file()).collect();
    assert!(missing.is_empty(), "LONGER lists files that do not exist: {missing:?}");
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
