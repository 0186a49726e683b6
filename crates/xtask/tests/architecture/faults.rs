//! Crash points are in builds with tests, and in no release.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::sources::sources;
use crate::workspace::root;

/// The dependency tree of a release build of `houston-cli`, with the features of each crate.
fn release_tree() -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--package", "houston-cli", "--edges", "normal,build", "--prefix", "none"]);
    tree.args(["--format", "{p} [{f}]"]).current_dir(root());
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn release_has_no_crash_points() {
    let tree = release_tree();
    let faults: Vec<&str> = tree.lines().filter(|line| line.starts_with("houston-faults ")).collect();
    assert!(!faults.is_empty(), "the dependency tree does not contain houston-faults");
    for line in faults {
        assert!(line.contains("[]"), "a feature of the crash points is on in a release: {line}");
    }
    assert!(!tree.lines().any(|line| line.starts_with("fail ")), "a release depends on `fail`");
}

/// A release built together with tests (`cargo build --release --workspace --all-targets`) has the feature, but no crash
/// points.
#[test]
fn crash_points_need_debug_assertions_too() {
    const GATE: &str = "#[cfg(all(feature = \"armed\", debug_assertions))]\n";
    let text = |path: &str| fs::read_to_string(root().join("crates/faults/src").join(path)).unwrap();
    assert!(text("lib.rs").contains(&format!("{GATE}mod armed;")));
    assert!(text("mutation/chosen.rs").contains(&format!("{GATE}mod this_process")));
}

#[test]
fn crash_points_and_cases_match() {
    let (mut marked, mut cases) = (BTreeSet::new(), BTreeSet::new());
    for source in sources() {
        if source.path == "crates/cli/tests/crash_points/case.rs" {
            let list = source.text.split(" C1, ").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
            let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
            cases = names.map(str::to_owned).chain(["C1".to_owned()]).collect();
        }
        if !source.is_for_tests() && !source.path.starts_with("crates/faults/") {
            let names = source.text.split("fault!(\"").skip(1).filter_map(|rest| rest.split('"').next());
            marked.extend(names.map(str::to_owned));
        }
    }
    assert!(cases.len() >= 20, "this test finds too few cases: {cases:?}");
    assert_eq!(
        marked, cases,
        "left: crash points in the code; right: cases in crates/cli/tests/crash_points"
    );
}
