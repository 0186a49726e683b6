//! Every crate's manifest and front page (`//!` of `lib.rs` or `main.rs`) follow the same rules.

use std::fs;

use toml::{Table, Value};

use crate::workspace::{members, root};

fn manifest(folder: &std::path::Path) -> Table {
    fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap()
}

#[test]
fn crates_use_the_lints_of_the_workspace() {
    let workspace = manifest(&root())["workspace"]["lints"].as_table().unwrap().clone();
    for member in members() {
        let lints = manifest(&member.folder).remove("lints").unwrap_or(Value::Table(Table::new()));
        let mut lints = lints.as_table().unwrap().clone();
        if member.name == "embedded" {
            // The only crate with system calls: each unsafe block gives its reason.
            let rust = lints["rust"].as_table_mut().unwrap();
            assert_eq!(rust.insert("unsafe_code".to_owned(), "forbid".into()), Some("deny".into()));
            assert_eq!(
                lints, workspace,
                "embedded's lints differ from the workspace's in more than unsafe_code"
            );
        } else {
            assert_eq!(lints.get("workspace"), Some(&Value::Boolean(true)), "{} has no [lints]", member.name);
        }
    }
}

#[test]
fn versions_are_declared_in_the_workspace_manifest() {
    let mut wrong = Vec::new();
    for member in members() {
        let manifest = manifest(&member.folder);
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let dependencies = manifest.get(table).and_then(Value::as_table).into_iter().flatten();
            wrong.extend(
                dependencies
                    .filter(|(_, wanted)| wanted.get("workspace") != Some(&Value::Boolean(true)))
                    .map(|(name, _)| format!("{}: {name}", member.name)),
            );
        }
    }
    assert!(wrong.is_empty(), "dependencies without `workspace = true`: {wrong:#?}");
}

#[test]
fn crates_have_a_front_page() {
    for member in members() {
        let mut pages = ["src/lib.rs", "src/main.rs"].into_iter().map(|page| member.folder.join(page));
        let page = pages.find(|page| page.is_file()).unwrap();
        let text = fs::read_to_string(&page).unwrap();
        let lower = text.to_lowercase();
        let has = |titles: &[&str]| titles.iter().any(|title| lower.contains(&format!("//! # {title}")));
        let is_whole = has(&["invariants"]) && has(&["deliberately absent"]) && has(&["add ", "recipe"]);
        assert!(
            text.starts_with("//! ") && is_whole,
            "{} must begin with a crate page that has sections `# Invariants`, `# Deliberately absent`, and `# Recipe: …` \
             or `# Add …`",
            page.display()
        );
    }
}
