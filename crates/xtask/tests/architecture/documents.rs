//! Links in Markdown files have a target, and the `cargo xtask` commands they show exist.

use std::path::Path;
use std::process::Command;

use houston_testkit::documentation::{self, Document};

use crate::workspace::root;

/// Maximum size of the README: it should be read in five minutes.
const README_BYTES: usize = 9 * 1024;

fn documents() -> Vec<Document> {
    let documents = documentation::documents(&root()).unwrap();
    assert!(documents.len() >= 7, "this test finds too few documents: {}", documents.len());
    documents
}

#[test]
fn links_have_targets() {
    let documents = documents();
    let mut wrong = Vec::new();
    let mut count = 0;
    for document in &documents {
        for link in document.links() {
            if link.text.contains("://") || link.text.starts_with("mailto:") {
                continue;
            }
            count += 1;
            if !has_target(&documents, document, &link.text) {
                wrong.push(format!("{}:{} {}", document.path, link.line, link.text));
            }
        }
    }
    assert!(wrong.is_empty(), "dead links: {wrong:#?}");
    assert!(count > 40, "this test finds too few links: {count}");
}

fn has_target(documents: &[Document], from: &Document, target: &str) -> bool {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let from = root().join(&from.path);
    let path = if file.is_empty() { from } else { from.with_file_name(file) };
    let Ok(path) = path.canonicalize() else { return false };
    let root = root().canonicalize().unwrap();
    let Ok(path) = path.strip_prefix(root) else { panic!("{target} leads out of the repository") };
    let has_anchor = |anchor: &str| {
        let document = documents.iter().find(|document| Path::new(&document.path) == path);
        document.is_some_and(|document| document.anchors().iter().any(|other| other == anchor))
    };
    anchor.is_none_or(has_anchor)
}

#[test]
fn commands_of_xtask_exist() {
    let mut help = |words: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_houston-xtask")).arg("help").args(words).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    let (mut wrong, mut count) = (Vec::new(), 0);
    for document in documents() {
        for found in document.commands(&["cargo", "xtask"]) {
            count += 1;
            let words: Vec<&str> = found.text.split(' ').skip(2).collect();
            if let Some(mistake) = documentation::mistake(&words, &mut help) {
                wrong.push(format!("{}:{} {mistake}", document.path, found.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 5, "this test finds too few commands: {count}");
}

#[test]
fn readme_is_short() {
    let bytes = std::fs::metadata(root().join("README.md")).unwrap().len();
    assert!(bytes <= README_BYTES as u64, "README.md has {bytes} bytes of {README_BYTES}");
}
