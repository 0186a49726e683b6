//! How long files are, how they are called, and what stands at the top.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::sources::sources;
use crate::workspace::root;

const LONGEST: usize = 400;

/// Files that are longer all the same, and how long at most. This list may only shrink.
const LONGER: [(&str, usize); 0] = [];

/// Names that say nothing: whatever does not fit elsewhere would end up there.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "types", "misc"];

/// What one sees first. Tools have dotted homes.
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

/// Those of tests too: a test that nobody finds is written twice.
#[test]
fn files_are_short() {
    let longer = BTreeMap::from(LONGER);
    let mut wrong = Vec::new();
    for source in &sources() {
        let lines = source.text.lines().count();
        match longer.get(source.path.as_str()) {
            None if lines > LONGEST => wrong.push(format!("{} has {lines} lines of {LONGEST}", source.path)),
            Some(most) if lines > *most => wrong.push(format!("{} has grown to {lines} lines", source.path)),
            Some(most) if lines < *most => {
                wrong.push(format!(
                    "{} has shrunk to {lines} lines: so must its line in the list",
                    source.path
                ));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn exceptions_exist() {
    let missing: Vec<_> = LONGER.iter().filter(|(path, _)| !root().join(path).is_file()).collect();
    assert!(missing.is_empty(), "listed and not there: {missing:?}");
}

#[test]
fn modules_are_called_after_something() {
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
fn nothing_else_lies_at_the_top() {
    let wrong: Vec<String> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.') && name != "target" && !TOP.contains(&name.as_str()))
        .collect();
    assert!(wrong.is_empty(), "at the top lie {wrong:?}; allowed are {TOP:?}");
}
