//! Architecture tests: what neither the compiler, clippy nor cargo-deny checks.
//!
//! # Recipe: change a rule
//!
//! Change the map in `crates/README.md` first, then the table here. An exception is an entry in a list of the test, with
//! its reason; these lists may only shrink. Which crate may use which third-party crate is in `.cargo/deny.toml`; rules for
//! SQL are tests of the store (`crates/store/tests/it/rules`).
#![cfg(test)]

mod circles;
mod crates;
mod documents;
mod files;
mod texts;

use houston_testkit::repository::root;
use houston_testkit::sources::Source;

/// All Rust files of the workspace, sorted by path.
fn sources() -> Vec<Source> {
    houston_testkit::sources::sources(root(), "crates", "rs").unwrap()
}

/// The code of the service: paths of files in `crates`, and their texts without comments and tests.
fn service() -> Vec<(String, String)> {
    let mut sources = sources();
    sources.retain(|source| !source.is_for_tests());
    let files = sources.iter().map(|source| (source.path.trim_start_matches("crates/"), code(&source.text)));
    let is_tool =
        |path: &str| ["harness/", "testkit/", "verify/", "xtask/"].iter().any(|tool| path.starts_with(tool));
    files.filter(|(path, _)| !is_tool(path)).map(|(path, code)| (path.to_owned(), code)).collect()
}

/// A text without comments, up to the tests in its file.
fn code(text: &str) -> String {
    let text = text.split("tests {\n").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The names after a prefix: `a`, `b` and `c` of `crate::a` and `crate::{b::{x, y}, c::D}`.
fn named<'c>(code: &'c str, prefix: &str) -> Vec<&'c str> {
    let word =
        |text: &'c str| text.trim_start().split(|letter| !is_of_name(letter)).next().unwrap_or_default();
    let mut names = Vec::new();
    for rest in code.split(prefix).skip(1) {
        if !rest.starts_with('{') {
            names.push(word(rest));
            continue;
        }
        let mut depth = 0;
        for piece in rest.split_inclusive(['{', '}', ',']) {
            if depth == 1 {
                names.push(word(piece));
            }
            match piece.chars().next_back() {
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    names
}
