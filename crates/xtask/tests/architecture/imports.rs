//! External crates that only some crates may import. `.cargo/deny.toml` checks the same for the whole dependency graph.

use crate::sources::sources;
use crate::workspace::members;

/// An external crate (with `*` at the end: a prefix), and the crates that may import it.
const OWNERS: [(&str, &[&str]); 34] = [
    ("sqlx*", &["store"]),
    ("apalis*", &["queue"]),
    ("redis", &["queue"]),
    ("libc", &["embedded"]),
    // `houston chat` is an HTTP client, and so are the tests of cli. `objects` sets the features of the client in object_store.
    ("reqwest", &["llm", "objects", "tools", "cli"]),
    ("object_store", &["objects"]),
    // The console sends requests to the routes of the API, within the process.
    ("axum*", &["api", "console"]),
    ("askama*", &["console"]),
    ("utoipa*", &["api", "protocol"]),
    // `web` opens its connections itself, to judge each address: its client is hyper with its own connector.
    ("hyper*", &["api", "web"]),
    ("tokio-rustls", &["web"]),
    ("tokio-cron-scheduler", &["worker"]),
    ("rmcp", &["mcp"]),
    // Names, labels and buckets are in one crate.
    ("prometheus-client", &["metrics"]),
    // Spans have their names and attributes in one crate; what exports them is wired by the binary, whose tests receive them.
    ("opentelemetry*", &["spans", "cli"]),
    ("prost", &["cli"]),
    // The official types of A2A; they are on the wire.
    ("a2a-lf", &["protocol"]),
    ("clap", &["cli", "harness", "xtask"]),
    ("anyhow", &["cli", "harness", "xtask"]),
    ("fail", &["faults"]),
    ("stateright", &["verify"]),
    ("figment", &["cli"]),
    // Houston's own tools write their schemas by hand, for the model to read.
    ("schemars", &["houston"]),
    ("indicatif", &["cli", "xtask"]),
    // Interpreters and parsers of foreign input, and the walls around them: never in the server's process.
    ("rquickjs*", &["sandbox"]),
    ("oxc*", &["sandbox"]),
    ("htmd", &["sandbox"]),
    ("fend_core", &["sandbox"]),
    ("lopdf", &["sandbox"]),
    // Handles of folders in the place of paths.
    ("cap-*", &["folder"]),
    ("landlock", &["sandbox"]),
    ("seccompiler", &["sandbox"]),
    // Front matter of skills, without anchors and of bounded length; archives only on the command line, and to
    // make wheels.
    ("saphyr*", &["domain"]),
    ("zip", &["cli", "xtask"]),
];

/// Crates that `domain`, which does no I/O, must not import.
const NOT_IN_DOMAIN: [&str; 10] = [
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

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

#[test]
fn external_crates_are_imported_by_their_owners_only() {
    let mut wrong = Vec::new();
    for member in members() {
        for (imported, _) in member.external() {
            let owners = OWNERS.iter().filter(|(pattern, _)| matches(pattern, imported));
            wrong.extend(owners.filter(|(_, owners)| !owners.contains(&member.name.as_str())).map(
                |(_, owners)| format!("{} imports {imported}, which only {owners:?} may import", member.name),
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn domain_cannot_do_io() {
    let members = members();
    let domain = members.iter().find(|member| member.name == "domain").unwrap();
    let wrong: Vec<&str> = domain
        .external()
        .filter(|(name, is_for_tests)| !is_for_tests && NOT_IN_DOMAIN.contains(name))
        .map(|(name, _)| name)
        .collect();
    assert!(wrong.is_empty(), "domain imports {wrong:?}");
}

/// `cargo xtask quick` runs the tests in `src/` without servers.
#[test]
fn tests_in_src_use_no_servers() {
    // Development tools, and the crates whose purpose is to start servers.
    let may = ["testkit", "xtask", "harness", "embedded", "cli"].map(|name| format!("crates/{name}/"));
    let wrong: Vec<String> = sources()
        .into_iter()
        .filter(|source| {
            !source.path.contains("/tests/") && !may.iter().any(|may| source.path.starts_with(may))
        })
        .filter(|source| {
            source.text.contains("houston_testkit::") || source.text.contains("houston_embedded::")
        })
        .map(|source| source.path)
        .collect();
    assert!(wrong.is_empty(), "move tests with servers to the crate's `tests/`: {wrong:#?}");
}
