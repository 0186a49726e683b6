//! The operator's folder.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use houston_folder::{Root, RootError};

#[test]
fn folder_keeps_its_number() {
    let base = tempfile::tempdir().unwrap();
    let first = Root::open(base.path()).unwrap().number;
    assert!(first > 0);
    assert_eq!(Root::open(base.path()).unwrap().number, first);
    let other = tempfile::tempdir().unwrap();
    assert_ne!(Root::open(other.path()).unwrap().number, first);
    std::fs::write(base.path().join("houston-workspaces"), "many").unwrap();
    assert!(matches!(Root::open(base.path()), Err(RootError::Damaged(_))));
}

#[test]
fn folders_that_cannot_have_workspaces_are_refused() {
    let base = tempfile::tempdir().unwrap();
    let refused = |path: &Path| Root::open(path).unwrap_err().to_string();
    assert!(refused(Path::new("workspaces")).contains("is relative"));
    assert!(refused(&base.path().join("missing")).contains("make it"));
    assert!(refused(Path::new("/usr/share")).contains("of the system"));
    assert!(refused(Path::new("/")).contains("of the system"));
    // Where a link leads counts, not its name.
    std::os::unix::fs::symlink("/etc", base.path().join("link")).unwrap();
    assert!(refused(&base.path().join("link")).contains("`/etc` is in a folder of the system"));
    std::fs::write(base.path().join("file"), "").unwrap();
    assert!(refused(&base.path().join("file")).contains("is no folder"));
    assert!(refused(base.path()).contains("choose an empty folder"));
    let open = tempfile::tempdir().unwrap();
    std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(refused(open.path()).contains("chmod go-w"));
}
