//! Links in Markdown files have a target, the `cargo xtask` commands they show exist, and their figures are recorded.

use std::path::Path;
use std::process::Command;

use houston_testkit::documentation;
use houston_testkit::sources::{Source, sources};

use crate::root;

#[test]
fn links_have_targets() {
    let documents = sources(root(), "", "md").unwrap();
    let mut wrong = Vec::new();
    for document in &documents {
        for link in document.links() {
            let is_elsewhere = link.text.contains("://") || link.text.starts_with("mailto:");
            if !is_elsewhere && !has_target(&documents, document, &link.text) {
                wrong.push(format!("{}:{} {}", document.path, link.line, link.text));
            }
        }
    }
    assert!(wrong.is_empty(), "dead links: {wrong:#?}");
}

fn has_target(documents: &[Source], from: &Source, target: &str) -> bool {
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
    let mut wrong = Vec::new();
    for document in sources(root(), "", "md").unwrap() {
        for found in document.commands(&["cargo", "xtask"]) {
            let words: Vec<&str> = found.text.split(' ').skip(2).collect();
            let mistake = documentation::mistake(&words, &mut help);
            wrong.extend(mistake.map(|mistake| format!("{}:{} {mistake}", document.path, found.line)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn figures_of_documents_are_those_of_the_record() {
    for (path, is, should) in houston_testkit::evidence::documents().unwrap() {
        assert!(is == should, "{path}: `cargo xtask evidence --quote` writes its figures");
    }
}

/// It should be read in five minutes.
#[test]
fn readme_is_short() {
    let bytes = std::fs::read(root().join("README.md")).unwrap().len();
    assert!(bytes <= 9 * 1024, "README.md has {bytes} bytes; the most are 9 KiB");
}
