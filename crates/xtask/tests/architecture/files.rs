//! Length and names of files, and the top level of the repository.

use std::fs;

use crate::{root, sources};

/// Maximum number of lines of a file.
const MAX_LINES: usize = 900;

/// Module names that say nothing, and so collect whatever does not fit elsewhere.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "types", "misc"];

/// Allowed files and folders at the top level, besides hidden ones and `target`.
const TOP: &str = "Cargo.toml Cargo.lock rust-toolchain.toml crates migrations jobs deploy README.md CONTRIBUTING.md \
                   LICENSE target";

/// Applies to tests as well: a test in a long file is not found and gets written again.
#[test]
fn files_are_short_and_their_names_say_something() {
    let mut wrong = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > MAX_LINES {
            wrong.push(format!("{} has {lines} lines of {MAX_LINES}", source.path));
        }
        let mut names = source.path.trim_end_matches(".rs").split('/');
        wrong.extend(
            names.find(|name| EMPTY_NAMES.contains(name)).map(|name| format!("{}: `{name}`", source.path)),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn top_level_has_only_the_listed_files() {
    let names = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_listed = |name: &String| name.starts_with('.') || TOP.split(' ').any(|listed| listed == name);
    let wrong: Vec<String> = names.filter(|name| !is_listed(name)).collect();
    assert!(wrong.is_empty(), "unexpected at the top level: {wrong:?}; allowed are {TOP}");
}
