//! Crash points are in builds with debug assertions, and in no release.

use std::collections::BTreeSet;
use std::fs;

use crate::workspace::{root, sources};

#[test]
fn release_has_no_crash_points() {
    const GATE: &str = "#[cfg(debug_assertions)]\n";
    let text = |path: &str| fs::read_to_string(root().join("crates/faults/src").join(path)).unwrap();
    assert!(text("lib.rs").contains(&format!("{GATE}mod armed;")));
    assert!(text("mutation/chosen.rs").contains(&format!("{GATE}mod this_process")));
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(!manifest.contains("debug-assertions"), "a profile changes which builds have crash points");
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
