//! Which crate of the workspace may depend on which.

use std::collections::BTreeSet;

use crate::workspace::members;

/// Each crate, and the crates it may depend on. It need not depend on all of them.
const ALLOWED: [(&str, &[&str]); 26] = [
    ("domain", &[]),
    ("protocol", &["domain"]),
    ("embedded", &[]),
    ("faults", &[]),
    // Its child process must not contain more than it needs, and what it runs knows nothing of Houston.
    ("sandbox", &[]),
    // Files of a machine: `store` decides what is written, and this knows no table.
    ("folder", &["domain"]),
    // Where foreign input is computed; which engines there are, the others know.
    ("meter", &["domain"]),
    // Keys and bytes: `store` decides which objects there are.
    ("objects", &[]),
    // Where files of workspaces are in a folder, rows say what is to be written there, and what has been; and rows name each
    // object of attachments.
    ("store", &["domain", "faults", "folder", "meter", "objects"]),
    ("queue", &["domain"]),
    // Counts what the others say; it has no rows and no texts.
    ("metrics", &["domain"]),
    // Names spans; where they are sent is decided by `cli`.
    ("spans", &["domain"]),
    // Each request to a provider is counted where it is made.
    ("llm", &["domain", "metrics"]),
    // Everything that sends requests to addresses of tenants, pages and models may use it: it knows none of them.
    ("web", &[]),
    // A tool that reads or writes Houston's own tables does so in the transaction of its step (`RecordTx`), so that its
    // effect and its texts are in one file. Code and documents are processed in the sandbox; requests go through the
    // guarded client.
    ("tools", &["domain", "meter", "sandbox", "store", "web"]),
    // The tools of other programs. They become tools like any other: nothing but `cli`, which reads the operator's file,
    // needs to know of servers. Servers over HTTP are reached through the guarded client, like every foreign address.
    ("mcp", &["domain", "tools", "web"]),
    ("engine", &["domain", "faults", "store", "llm", "meter", "metrics", "spans", "tools", "queue"]),
    // Events are sent to addresses of tenants through the guarded client, in the shape that clients of the API read.
    ("worker", &["domain", "engine", "faults", "metrics", "protocol", "queue", "store", "web"]),
    // Documents of endpoints that tenants send are checked by what later makes tools of them.
    ("api", &["domain", "faults", "meter", "metrics", "protocol", "spans", "store", "queue", "web"]),
    // What it shows and does goes through the routes of the API, which `cli` hands to it: it reads what is on the wire, and
    // rules that clients have, too.
    ("console", &["domain", "protocol"]),
    (
        "cli",
        &[
            "api", "console", "domain", "embedded", "engine", "faults", "folder", "llm", "mcp", "meter",
            "metrics", "objects", "protocol", "queue", "sandbox", "spans", "store", "tools", "web", "worker",
        ],
    ),
    // The interface for programs. It starts a process as `houston dev` does, and that wiring is in `cli`: settings, servers,
    // models, worker. The rest are the types and handles that it passes on.
    ("houston", &["cli", "domain", "engine", "llm", "queue", "store", "tools"]),
    ("testkit", &["domain", "embedded", "protocol"]),
    ("xtask", &["testkit"]),
    ("harness", &["embedded", "protocol", "testkit"]),
    // A model of its own, which shares no code with what it is a model of.
    ("verify", &[]),
];

/// The crates that crate `name` may depend on.
fn allowed(name: &str) -> &'static [&'static str] {
    ALLOWED.iter().find(|(crate_, _)| *crate_ == name).map_or(&[], |(_, allowed)| allowed)
}

/// Whether `from` may depend on `to` directly or indirectly: then its tests may use `to`.
fn reaches(from: &str, to: &str) -> bool {
    allowed(from).iter().any(|next| *next == to || reaches(next, to))
}

#[test]
fn crates_import_only_what_the_table_allows() {
    let mut wrong = Vec::new();
    for member in members() {
        for (imported, is_for_tests) in member.internal() {
            // Tests of every crate may use testkit, except those of crates that testkit depends on.
            let is_fake = imported == "testkit" && !reaches("testkit", &member.name);
            let is_fine = allowed(&member.name).contains(&imported)
                || is_for_tests && (is_fake || reaches(&member.name, imported));
            if !is_fine {
                wrong.push(format!("{} → {imported}", member.name));
            }
        }
    }
    assert!(wrong.is_empty(), "dependencies that the table does not allow: {wrong:#?}");
}

#[test]
fn crates_of_the_table_exist() {
    let existing: BTreeSet<String> = members().into_iter().map(|member| member.name).collect();
    let listed: BTreeSet<String> = ALLOWED.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(existing, listed);
}

/// `domain` does no I/O.
#[test]
fn domain_cannot_do_io() {
    const IO: [&str; 10] = [
        "tokio",
        "tokio-util",
        "futures-util",
        "sqlx",
        "axum",
        "reqwest",
        "redis",
        "hyper",
        "rustix",
        "tempfile",
    ];
    let members = members();
    let domain = members.iter().find(|member| member.name == "domain").unwrap();
    assert_eq!(IO.iter().find(|name| domain.imports(name)), None);
}
