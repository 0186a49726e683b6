//! Who may ask the store for what: the handles that each crate may name, and where the API gets its tenant from.

use std::collections::BTreeSet;

use houston_testkit::sources::Source;

use crate::workspace::sources;

/// Handles of the store, and the crates that may name them.
const HANDLES: [(&str, &[&str]); 5] = [
    ("RunStore", &["store", "engine", "worker", "cli"]),
    ("OperatorStore", &["store", "cli"]),
    ("ApiStore", &["store", "api"]),
    // A program is one tenant, whose handle `cli` makes for the library.
    ("TenantStore", &["store", "api", "cli", "houston"]),
    // Opens the database, and makes all the others.
    ("Store", &["store", "cli"]),
];

/// The names that a file imports from the store's crate root, or uses with their path.
fn from_store(text: &str) -> BTreeSet<&str> {
    let all = text.match_indices("houston_store::").flat_map(|(at, found)| {
        let rest = &text[at + found.len()..];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = |rest: &str| rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let names = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default(),
            None => &rest[..end(rest)],
        };
        names.split(',').map(|name| &name.trim()[..end(name.trim())]).collect::<Vec<_>>()
    });
    all.collect()
}

#[test]
fn crates_name_only_their_handles_of_the_store() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !source.is_for_tests()) {
        let member = source.path.split('/').nth(1).unwrap_or_default();
        let named = from_store(&source.text);
        for (handle, may) in
            HANDLES.iter().filter(|(handle, may)| named.contains(handle) && !may.contains(&member))
        {
            wrong.push(format!("{} names {handle}, which only {may:?} may name", source.path));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// With this and the types (a `Principal` is made only by `ApiKey::principal`), the API has no tenant but that of a key
/// which was read from Postgres.
#[test]
fn api_gets_its_tenant_from_authentication_only() {
    let sources = sources();
    let api: Vec<&Source> = sources.iter().filter(|one| one.path.starts_with("crates/api/src/")).collect();
    let code = |source: &Source| source.text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    let having = |text: &str| -> Vec<&str> {
        api.iter().filter(|one| code(one).contains(text)).map(|one| one.path.as_str()).collect()
    };
    assert_eq!(having(".principal()"), ["crates/api/src/caller.rs", "crates/api/src/state/mod.rs"]);
    assert_eq!(having("key.principal()"), ["crates/api/src/caller.rs"]);
    assert_eq!(having("Authority::of"), ["crates/api/src/state/keys.rs"], "where keys are looked up");
    assert!(having("    ApiKey {").is_empty(), "a key that was not read from Postgres");
}
