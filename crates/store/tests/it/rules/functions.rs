//! The files of `migrations/functions`: what they define, and their comments.

use std::fs;

use super::root;

/// Maximum number of characters of a line.
const MAX_WIDTH: usize = 120;

/// A file: the name without `.sql`, and its text.
fn files() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = fs::read_dir(root().join("migrations/functions"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            assert!(path.extension().is_some_and(|extension| extension == "sql"), "{}", path.display());
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    files.sort();
    assert!(files.len() > 5, "this test finds only {} files", files.len());
    files
}

#[test]
fn function_files_define_only_their_function() {
    const STATEMENTS: [&str; 9] =
        ["alter", "create", "delete", "do", "drop", "grant", "insert", "set", "update"];
    let mut wrong = Vec::new();
    for (name, text) in files() {
        let head = format!("create or replace function houston.{name}(");
        // Bodies are indented.
        let statements: Vec<&str> = text
            .lines()
            .filter(|line| line.split(' ').next().is_some_and(|word| STATEMENTS.contains(&word)))
            .collect();
        if !statements.iter().any(|line| line.starts_with(&head)) {
            wrong.push(format!("{name}.sql does not contain `{head}`"));
        }
        let others = statements.into_iter().filter(|line| !line.starts_with(&head));
        wrong.extend(others.map(|line| format!("{name}.sql contains `{line}`")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn functions_have_a_comment_and_short_lines() {
    let mut wrong = Vec::new();
    for (name, text) in files() {
        let mut before = "";
        for line in text.lines() {
            if line.starts_with("create ") && !before.starts_with("-- ") {
                wrong.push(format!("{name}.sql: a comment before `{line}` must say what the function does"));
            }
            if line.chars().count() > MAX_WIDTH {
                wrong.push(format!("{name}.sql: this line has more than {MAX_WIDTH} characters: {line}"));
            }
            before = line;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Functions that applications call in their own transactions.
const FOR_APPLICATIONS: [&str; 2] = ["close_session", "post_message"];

/// Functions of the full-text search: what indexes and search statements contain.
const FOR_SEARCH: [&str; 3] = ["any_word", "likeness", "session_vector"];

/// Other functions, and why they are functions. This list may only shrink.
const OTHERS: [(&str, &str); 1] =
    [("is_for_agent", "which messages an agent reads, the same in all statements")];

/// A function holds only what must happen in the transaction of an application: all rules are in Rust, and an application
/// that posts from its own transaction needs those that it touches in the database.
#[test]
fn functions_hold_only_what_applications_and_searches_need() {
    let files = files();
    let roots = FOR_APPLICATIONS.into_iter().chain(FOR_SEARCH).chain(OTHERS.map(|(name, _)| name));
    let mut needed: Vec<&str> = roots.collect();
    let missing: Vec<_> = needed.iter().filter(|name| files.iter().all(|(file, _)| file != *name)).collect();
    assert!(missing.is_empty(), "there are no such functions: {missing:?}");
    let mut at = 0;
    while let Some(name) = needed.get(at) {
        let (_, text) = files.iter().find(|(file, _)| file == name).unwrap();
        let called = files.iter().map(|(file, _)| file.as_str());
        let called: Vec<&str> = called
            .filter(|file| !needed.contains(file) && text.contains(&format!("houston.{file}(")))
            .collect();
        needed.extend(called);
        at += 1;
    }
    let others: Vec<_> =
        files.iter().map(|(file, _)| file).filter(|file| !needed.contains(&file.as_str())).collect();
    assert!(
        others.is_empty(),
        "no application and no search needs these functions: write what they decide in Rust: {others:?}"
    );
}
