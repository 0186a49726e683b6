//! Folders of agentables that no longer exist.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use uuid::Uuid;

use crate::test_folder::{CANARY, TestFolder};

const TENANT: Uuid = Uuid::from_u128(1);
const AGENTABLE: Uuid = Uuid::from_u128(2);

#[test]
fn folder_is_removed_with_whatever_commands_left_there() {
    let test = TestFolder::new();
    test.write("a/b", "x").unwrap();
    symlink(test.outside(""), test.inside("link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, test.inside("fifo"), rustix::fs::Mode::RWXU).unwrap();
    std::fs::create_dir_all(test.inside("closed/inner")).unwrap();
    std::fs::set_permissions(test.inside("closed"), std::fs::Permissions::from_mode(0o0)).unwrap();
    // Deeper than a path may be long.
    let mut deep = std::fs::File::open(test.inside("")).unwrap();
    for _ in 0..3_000 {
        rustix::fs::mkdirat(&deep, "deeper", rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        deep = rustix::fs::openat(&deep, "deeper", flags, rustix::fs::Mode::empty()).unwrap().into();
    }
    test.root.make(TENANT, Uuid::from_u128(3)).unwrap();
    assert_eq!(test.root.agentables().unwrap().len(), 2);

    assert!(test.root.remove(TENANT, AGENTABLE).unwrap());
    assert!(!test.root.remove(TENANT, AGENTABLE).unwrap(), "it is gone");
    assert_eq!(test.root.agentables().unwrap(), [(TENANT, Uuid::from_u128(3))]);
    assert!(test.root.find(TENANT, AGENTABLE).unwrap().is_none());
    let left = std::fs::read_dir(test.root.path.join("removed")).unwrap().count();
    assert_eq!(left, 0, "nothing of it is left");
    assert_eq!(std::fs::read_to_string(test.outside("secret")).unwrap(), CANARY, "no link was followed");

    test.root.remove(TENANT, Uuid::from_u128(3)).unwrap();
    assert!(!test.root.path.join(TENANT.to_string()).exists(), "nor an empty folder of the tenant");
    test.root.finish_removing().unwrap();
}
