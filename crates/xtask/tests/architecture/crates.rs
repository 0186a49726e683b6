//! Which crate of the workspace may depend on which, and what all of them have.

use std::fs;
use std::path::{Path, PathBuf};

use houston_testkit::child::output;
use houston_testkit::repository::{self, root};
use serde_json::Value;
use toml::Table;

/// Each crate, and the crates it may depend on. It need not depend on all of them.
const ALLOWED: [(&str, &[&str]); 26] = [
    ("domain", &[]),
    ("protocol", &["domain"]),
    ("embedded", &[]),
    ("faults", &[]),
    // What it runs knows nothing of Houston.
    ("sandbox", &[]),
    ("folder", &["domain"]),
    ("meter", &["domain"]),
    ("objects", &[]),
    // Rows say what is to be written to folders of workspaces, and name each object of attachments.
    ("store", &["domain", "faults", "folder", "meter", "objects"]),
    ("queue", &["domain"]),
    ("metrics", &["domain"]),
    // Where spans are sent is decided by `cli`.
    ("spans", &["domain"]),
    // Each request to a provider is counted where it is made.
    ("llm", &["domain", "metrics"]),
    // It knows no tenant, page or model whose addresses it asks.
    ("web", &[]),
    // A tool that reads or writes Houston's own tables does so in the transaction of its step (`RecordTx`), so that its
    // effect and its texts are in one file.
    ("tools", &["domain", "meter", "sandbox", "store", "web"]),
    // Nothing but `cli`, which reads the operator's file, needs to know of servers.
    ("mcp", &["domain", "tools", "web"]),
    ("engine", &["domain", "faults", "store", "llm", "meter", "metrics", "spans", "tools", "queue"]),
    // Webhooks have the shape that clients of the API read.
    ("worker", &["domain", "engine", "faults", "metrics", "protocol", "queue", "store", "web"]),
    // Documents of endpoints that tenants send are checked by what later makes tools of them.
    ("api", &["domain", "faults", "meter", "metrics", "protocol", "spans", "store", "queue", "web"]),
    // What it shows and does goes through the routes of the API, which `cli` hands to it.
    ("console", &["domain", "protocol"]),
    (
        "cli",
        &[
            "api", "console", "domain", "embedded", "engine", "faults", "folder", "llm", "mcp", "metrics",
            "objects", "protocol", "queue", "sandbox", "spans", "store", "tools", "web", "worker",
        ],
    ),
    // `cli` has the wiring of a process; the rest are the types and handles that this passes on.
    ("houston", &["cli", "domain", "engine", "llm", "queue", "store", "tools"]),
    ("testkit", &["domain", "embedded", "protocol"]),
    ("xtask", &["testkit"]),
    // `faults` has the names of mutations.
    ("harness", &["embedded", "faults", "protocol", "testkit"]),
    // It shares no code with what it is a model of.
    ("verify", &[]),
];

/// A crate of the workspace; its name is that of its folder.
struct Member {
    name: String,
    folder: PathBuf,
    /// Names of packages, and whether only its tests depend on them.
    dependencies: Vec<(String, bool)>,
}

/// All crates.
fn members() -> Vec<Member> {
    let metadata = output(repository::cargo().args(["metadata", "--no-deps", "--format-version", "1"]));
    let metadata: Value = serde_json::from_str(&metadata.unwrap()).unwrap();
    metadata["packages"].as_array().unwrap().iter().map(member).collect()
}

fn member(package: &Value) -> Member {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let folder = Path::new(&text(&package["manifest_path"])).parent().unwrap().to_owned();
    // Those that are never compiled only name features.
    let dependencies =
        package["dependencies"].as_array().unwrap().iter().filter(|one| one["target"] != "cfg(any())");
    let dependencies = dependencies.map(|one| (text(&one["name"]), one["kind"] == "dev")).collect();
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    // The library has the name that programs write.
    let expected = if name == "houston" { name.clone() } else { format!("houston-{name}") };
    assert_eq!(text(&package["name"]), expected, "a package must be named `houston-<folder>`");
    Member { name, folder, dependencies }
}

/// The crates that crate `name` may depend on.
fn allowed(name: &str) -> &'static [&'static str] {
    let row = ALLOWED.iter().find(|(crate_, _)| *crate_ == name);
    row.unwrap_or_else(|| panic!("the crate {name} is not in the table")).1
}

/// Whether `from` may depend on `to` directly or indirectly: then its tests may use `to`.
fn reaches(from: &str, to: &str) -> bool {
    allowed(from).iter().any(|next| *next == to || reaches(next, to))
}

#[test]
fn crates_import_only_what_the_table_allows() {
    let (members, mut wrong) = (members(), Vec::new());
    assert_eq!(members.len(), ALLOWED.len(), "the table has crates that do not exist");
    for Member { name, dependencies, .. } in &members {
        for (imported, is_for_tests) in dependencies {
            let Some(imported) = imported.strip_prefix("houston-") else { continue };
            // Tests of every crate may use testkit, except those of crates that testkit depends on.
            let is_fake = imported == "testkit" && !reaches("testkit", name);
            let is_fine_in_tests = is_fake || reaches(name, imported);
            let is_fine = *is_for_tests && is_fine_in_tests;
            if !is_fine && !allowed(name).contains(&imported) {
                wrong.push(format!("{name} → {imported}"));
            }
        }
    }
    assert!(wrong.is_empty(), "dependencies that the table does not allow: {wrong:#?}");
}

/// cargo-deny names who may use a database, a server or a client of HTTP; these are used by many.
#[test]
fn domain_cannot_do_io() {
    let io =
        ["tokio", "tokio-util", "futures-util", "rustix", "tempfile"].map(|name| (name.to_owned(), false));
    let members = members();
    let domain = members.iter().find(|member| member.name == "domain").unwrap();
    assert_eq!(io.iter().find(|one| domain.dependencies.contains(one)), None);
}

#[test]
fn crates_use_the_lints_of_the_workspace() {
    let manifest =
        |folder: &Path| fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse::<Table>().unwrap();
    let workspace = manifest(root())["workspace"]["lints"].clone();
    for Member { name, folder, .. } in members() {
        let mut lints = manifest(&folder).remove("lints").unwrap_or_else(|| panic!("{name} has no [lints]"));
        if name == "embedded" {
            // The only crate with system calls: each unsafe block gives its reason.
            let unsafe_code = std::mem::replace(&mut lints["rust"]["unsafe_code"], "forbid".into());
            assert_eq!((unsafe_code.as_str(), &lints), (Some("deny"), &workspace));
        } else {
            let is_inherited = lints.get("workspace").and_then(toml::Value::as_bool);
            assert_eq!(is_inherited, Some(true), "{name} has lints of its own");
        }
    }
}

#[test]
fn crates_have_a_front_page() {
    for Member { name, folder, .. } in members() {
        let page =
            ["src/lib.rs", "src/main.rs"].iter().find_map(|page| fs::read_to_string(folder.join(page)).ok());
        let page = page.unwrap().to_lowercase();
        let has = |title: &str| page.contains(&format!("//! # {title}"));
        assert!(
            page.starts_with("//! ")
                && has("invariants")
                && has("deliberately absent")
                && (has("add ") || has("recipe")),
            "{name} must begin with a page that has sections `# Invariants`, `# Deliberately absent`, and `# Recipe: …` or \
             `# Add …`"
        );
    }
}
