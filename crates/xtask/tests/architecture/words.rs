//! Words that made sentences hard to read here. Their number may only shrink.
//!
//! Each is a usual English word that came to stand for many things: "told" for errors, logs, prompts and events, "place"
//! for paths, slots and positions. Say who does what instead; the terms are in the glossary of `crates/README.md`.

use std::fs;

use crate::sources::sources;
use crate::workspace::root;

/// A word, and how often it may stand in the Rust files, the settings, the functions of the database and the documents.
const WORN_OUT: [(&str, usize); 19] = [
    ("told", 75),
    ("tells", 1),
    ("shown", 179),
    ("places", 3),
    ("known", 180),
    ("wish", 2),
    ("aside", 0),
    ("rung", 7),
    ("nobody", 34),
    ("somebody", 0),
    ("whoever", 3),
    ("folded", 2),
    ("bell", 45),
    ("deed", 0),
    ("errand", 0),
    ("crew", 0),
    ("nurse", 2),
    ("bury", 0),
    ("stands", 5),
];

/// Sentences of documentation that say nothing. None may come back.
const EMPTY: [&str; 7] = [
    "What the database says.",
    "/// Its id.",
    "/// Which one.",
    "/// Whose it is.",
    "/// One line.",
    "/// All of them.",
    "/// The same.",
];

/// The characters a test's name may have: it is a filter of `cargo xtask test`, too.
const TEST_NAME: usize = 60;

#[test]
fn documentation_says_something() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !source.path.ends_with("architecture/words.rs")) {
        for (number, line) in source.text.lines().enumerate() {
            let line = line.trim();
            if EMPTY.iter().any(|empty| line == *empty || line.ends_with(&format!("/// {empty}"))) {
                wrong.push(format!("{}:{}: `{line}`: say which, of what, or when", source.path, number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn test_names_are_short() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for source in sources() {
        for (at, attribute) in source.text.match_indices("test") {
            let (before, rest) = (&source.text[..at], &source.text[at + attribute.len()..]);
            if !(before.ends_with("#[") || before.ends_with("#[tokio::")) || !rest.starts_with([']', '(']) {
                continue;
            }
            let Some((_, rest)) = rest.split_once("fn ") else { continue };
            let name = rest.split('(').next().unwrap_or_default();
            count += 1;
            if name.len() > TEST_NAME {
                wrong.push(format!("{}: `{name}` has {} characters", source.path, name.len()));
            }
        }
    }
    assert!(wrong.is_empty(), "a test's name has at most {TEST_NAME} characters: {wrong:#?}");
    assert!(count > 500, "this test finds only {count} tests");
}

#[test]
fn worn_out_words_only_shrink() {
    let texts = texts();
    let mut wrong = Vec::new();
    for (word, most) in WORN_OUT {
        let count: usize = texts.iter().map(|text| occurrences(text, word)).sum();
        if count > most {
            wrong
                .push(format!("`{word}` occurs {count} times; at most {most} are allowed: use another word"));
        } else if count < most - most / 10 {
            // Not at every commit: branches that grow side by side would conflict in this list.
            wrong.push(format!("`{word}` occurs only {count} times now: lower its number from {most}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn texts() -> Vec<String> {
    let mut texts: Vec<String> = sources()
        .into_iter()
        .filter(|source| !source.path.ends_with("architecture/words.rs"))
        // The name of a folder in RFC 8615.
        .map(|source| source.text.replace(".well-known", ""))
        .collect();
    for folder in ["jobs", "jobs/agents", "migrations", "migrations/functions"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                texts.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    texts
}

/// How often `word` stands alone, in small or capital letters, or as a part of a name (`told_at`, `Told`).
fn occurrences(text: &str, word: &str) -> usize {
    let words = text.split(|letter: char| !letter.is_ascii_alphabetic());
    words.filter(|other| other.eq_ignore_ascii_case(word)).count()
}
