//! Rules for the text of SQL and of the functions that contain it. They read files only.

use std::path::{Path, PathBuf};

use houston_testkit::sources::Source;

mod functions;
mod names;
mod sharding;
mod tenants;

/// Folders of the store that are left out of the names of queries.
const WINGS: [&str; 7] = ["delivery", "knowledge", "operate", "run", "schedule", "session", "tenant"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    // Read at run time: the test may have been built in another clone.
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    here.ancestors().nth(2).unwrap().to_owned()
}

pub(crate) fn sources() -> Vec<Source> {
    houston_testkit::sources::sources(&root(), "crates", "rs").unwrap()
}

/// The module of a file of the store, without its wing: `event::batch` for `run/event/batch.rs`.
fn module_of(source: &Source) -> Option<String> {
    let path = Path::new(&source.path).strip_prefix("crates/store/src").ok()?.to_str()?;
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let in_wing = WINGS.iter().find_map(|wing| path.strip_prefix(wing)?.strip_prefix('/'));
    Some(in_wing.unwrap_or(path).replace('/', "::"))
}
