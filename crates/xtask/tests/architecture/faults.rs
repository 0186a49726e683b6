//! Crash points are in every build with tests, and in no release.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::sources::sources;
use crate::workspace::root;

/// The dependency tree of what is delivered: `cargo build --release`, with the features of each crate.
fn delivered() -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--package", "houston-cli", "--edges", "normal,build", "--prefix", "none"]);
    tree.args(["--format", "{p} [{f}]"]).current_dir(root());
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_delivered_has_no_crash_points() {
    let tree = delivered();
    let faults: Vec<&str> = tree.lines().filter(|line| line.starts_with("houston-faults ")).collect();
    assert!(!faults.is_empty(), "this test has lost sight of the crate of crash points");
    for line in faults {
        assert!(line.contains("[]"), "a feature of the crash points is on in a release: {line}");
    }
    assert!(!tree.lines().any(|line| line.starts_with("fail ")), "a release depends on `fail`");
}

/// A release that is built together with tests, as `cargo build --release --workspace --all-targets` does, has the
/// feature, and still no crash points.
#[test]
fn crash_points_need_debug_assertions_too() {
    const GATE: &str = "#[cfg(all(feature = \"armed\", debug_assertions))]\n";
    let text = |path: &str| fs::read_to_string(root().join("crates/faults/src").join(path)).unwrap();
    assert!(text("lib.rs").contains(&format!("{GATE}mod armed;")));
    assert!(text("mutation/chosen.rs").contains(&format!("{GATE}mod this_process")));
}

#[test]
fn every_crash_point_has_its_cases() {
    let (mut marked, mut cases) = (BTreeSet::new(), BTreeSet::new());
    for source in sources() {
        if source.path == "crates/cli/tests/crash_points/case.rs" {
            let list = source.text.split("[C1, ").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
            cases = list.split(", ").map(str::to_owned).chain(["C1".to_owned()]).collect();
        }
        if !source.is_for_tests() && !source.path.starts_with("crates/faults/") {
            let names = source.text.split("fault!(\"").skip(1).filter_map(|rest| rest.split('"').next());
            marked.extend(names.map(str::to_owned));
        }
    }
    assert!(cases.len() >= 20, "this test has lost sight of the cases: {cases:?}");
    assert_eq!(marked, cases, "marked in the code, and tested by crates/cli/tests/crash_points");
}
