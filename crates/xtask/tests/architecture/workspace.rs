//! The crates of the workspace, from `cargo metadata`.

use std::path::{Path, PathBuf};
use std::process::Command;

use houston_testkit::sources::Source;
use serde_json::Value;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    // Read at run time: the test may have been built in another clone.
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    here.ancestors().nth(2).unwrap().to_owned()
}

/// All Rust files of the workspace, sorted by path.
pub(crate) fn sources() -> Vec<Source> {
    houston_testkit::sources::sources(&root()).unwrap()
}

/// A crate of the workspace; its name is that of its folder.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    /// Names of packages, and whether only its tests depend on them.
    dependencies: Vec<(String, bool)>,
}

impl Member {
    /// Names of other crates of the workspace it depends on, and whether only its tests do.
    pub(crate) fn internal(&self) -> impl Iterator<Item = (&str, bool)> {
        self.dependencies
            .iter()
            .filter_map(|(name, is_for_tests)| Some((name.strip_prefix("houston-")?, *is_for_tests)))
    }

    /// Whether it depends on an external crate, other than in tests.
    pub(crate) fn imports(&self, package: &str) -> bool {
        self.dependencies.iter().any(|(name, is_for_tests)| name == package && !is_for_tests)
    }
}

/// All crates, sorted by name.
pub(crate) fn members() -> Vec<Member> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut members: Vec<Member> = metadata["packages"].as_array().unwrap().iter().map(member).collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    members
}

fn member(package: &Value) -> Member {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let folder = Path::new(&text(&package["manifest_path"])).parent().unwrap().to_owned();
    let dependencies = package["dependencies"].as_array().unwrap().iter();
    // Those that are never compiled only name features.
    let dependencies = dependencies.filter(|one| one["target"] != "cfg(any())");
    let dependencies = dependencies.map(|one| (text(&one["name"]), one["kind"] == "dev")).collect();
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    // The library has the name that programs write.
    let expected = if name == "houston" { name.clone() } else { format!("houston-{name}") };
    assert_eq!(text(&package["name"]), expected, "a package must be named `houston-<folder>`");
    Member { name, folder, dependencies }
}
