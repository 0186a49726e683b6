//! Which crate of the house may import which.

use std::collections::BTreeSet;

use crate::workspace::members;

/// A crate, and what it may import. What stands here is a permission, not a duty.
const ARROWS: [(&str, &[&str]); 15] = [
    ("domain", &[]),
    ("protocol", &["domain"]),
    ("embedded", &[]),
    ("faults", &[]),
    ("store", &["domain", "faults"]),
    ("queue", &["domain"]),
    ("llm", &["domain"]),
    ("tools", &["domain"]),
    ("engine", &["domain", "faults", "store", "llm", "tools", "queue"]),
    ("worker", &["domain", "engine", "faults", "queue", "store"]),
    ("api", &["domain", "faults", "protocol", "store", "queue"]),
    (
        "cli",
        &[
            "api", "domain", "embedded", "engine", "faults", "llm", "protocol", "queue", "store", "tools",
            "worker",
        ],
    ),
    ("testkit", &["domain", "embedded", "protocol"]),
    ("xtask", &["embedded", "testkit"]),
    ("harness", &["embedded", "protocol", "testkit", "xtask"]),
];

/// What a crate may import.
fn allowed(name: &str) -> &'static [&'static str] {
    ARROWS.iter().find(|(crate_, _)| *crate_ == name).map_or(&[], |(_, allowed)| allowed)
}

/// Whether `from` reaches `to` over the arrows: then a test may build what lies behind them.
fn reaches(from: &str, to: &str) -> bool {
    allowed(from).iter().any(|next| *next == to || reaches(next, to))
}

#[test]
fn crates_import_only_what_the_table_allows() {
    let mut wrong = Vec::new();
    for member in members() {
        for (imported, is_for_tests) in member.internal() {
            // Tests of every crate may use the fakes, but for those the fakes are made of.
            let is_fake = imported == "testkit" && !reaches("testkit", &member.name);
            let is_fine = allowed(&member.name).contains(&imported)
                || is_for_tests && (is_fake || reaches(&member.name, imported));
            if !is_fine {
                wrong.push(format!("{} → {imported}", member.name));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that the design does not have: {wrong:#?}");
}

#[test]
fn every_crate_of_the_table_exists() {
    let there: BTreeSet<String> = members().into_iter().map(|member| member.name).collect();
    let drawn: BTreeSet<String> = ARROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(there, drawn);
}
