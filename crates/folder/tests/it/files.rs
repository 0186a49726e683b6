//! Files that no other program changes.

use std::os::unix::fs::PermissionsExt as _;

use houston_domain::workspace::{FileVersion, MAX_FILE_BYTES};
use houston_folder::Obstacle;

use crate::test_folder::{TestFolder, at, obstacle};

#[test]
fn files_are_written_read_listed_and_deleted() {
    let test = TestFolder::new();
    assert_eq!(test.read("a/b.md").unwrap(), None);
    test.write("a/b.md", "one").unwrap();
    test.write("a/c/d", "").unwrap();
    test.write("a/b.md", "two").unwrap();
    assert_eq!(test.read("a/b.md").unwrap().as_deref(), Some("two"));
    assert_eq!(test.folder.version(&at("a/b.md")).unwrap(), Some((FileVersion::of("two"), 3)));
    let walk = test.folder.walk_hashed().unwrap();
    assert_eq!((walk.count, walk.bytes, walk.others), (2, 3, 0));
    assert_eq!(walk.files.keys().collect::<Vec<_>>(), ["a/b.md", "a/c/d"]);
    assert_eq!(walk.files["a/b.md"].version, Some(FileVersion::of("two")));
    for folder in ["a", "a/c"] {
        assert_eq!(test.read(folder).unwrap(), None, "a folder is no file");
    }
    assert_eq!(test.read("a/b.md/c").unwrap(), None, "below a file");
    assert_eq!(obstacle(test.write("a/b.md/c", "")), Obstacle::BelowFile { path: "a/b.md".into() });
    assert_eq!(obstacle(test.write("a/c", "")), Obstacle::IsFolder { path: "a/c".into() });
    test.delete("a/c/d").unwrap();
    test.delete("a/c/d").unwrap();
    assert!(!test.inside("a/c").exists(), "no empty folder is left");
    test.delete("a").unwrap();
    assert_eq!(test.paths(), ["a/b.md"], "a folder is not deleted");
    test.delete("a/b.md").unwrap();
    assert!(std::fs::read_dir(test.inside("")).unwrap().next().is_none());
    // Only folders are in the way, in which nothing is.
    std::fs::create_dir_all(test.inside("x/y/z")).unwrap();
    test.write("x", "file").unwrap();
    assert_eq!(test.read("x").unwrap().as_deref(), Some("file"));
}

#[test]
fn files_that_are_no_texts_are_named_and_not_read() {
    let test = TestFolder::new();
    std::fs::write(test.inside("b"), [0xff, 0xfe]).unwrap();
    assert_eq!(obstacle(test.read("b")), Obstacle::NotText { path: "b".into(), bytes: 2 });
    std::fs::write(test.inside("n"), "a\0b").unwrap();
    assert_eq!(obstacle(test.read("n")), Obstacle::NotText { path: "n".into(), bytes: 3 });
    let bytes = MAX_FILE_BYTES as u64 + 1;
    std::fs::File::create(test.inside("l")).unwrap().set_len(bytes).unwrap();
    assert_eq!(obstacle(test.read("l")), Obstacle::TooLong { path: "l".into(), bytes });
    // They count, and can be deleted.
    let walk = test.folder.walk().unwrap();
    assert_eq!((walk.count, walk.bytes), (3, bytes + 5));
    test.delete("b").unwrap();
    assert_eq!(test.paths(), ["l", "n"]);
}

#[test]
fn names_that_tools_cannot_give_count_and_are_not_listed() {
    let test = TestFolder::new();
    test.write("a", "12").unwrap();
    for name in ["b:c", "u\u{308}", " d", "..e/f"] {
        std::fs::create_dir_all(test.inside(name).parent().unwrap()).unwrap();
        std::fs::write(test.inside(name), "1").unwrap();
    }
    use std::os::unix::ffi::OsStrExt as _;
    let odd = test.inside("").join(std::ffi::OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::write(odd.join("x"), "1").unwrap();
    let walk = test.folder.walk().unwrap();
    assert_eq!(walk.files.keys().collect::<Vec<_>>(), ["..e/f", "a"]);
    assert_eq!((walk.count, walk.bytes), (6, 7));
}

#[test]
fn file_is_replaced_as_a_whole() {
    let test = TestFolder::new();
    test.write("a", "old").unwrap();
    let open = std::fs::File::open(test.inside("a")).unwrap();
    test.write("a", "new").unwrap();
    assert_eq!(std::io::read_to_string(open).unwrap(), "old", "who has it open reads on");
    let home = test.path().join("root").join(uuid::Uuid::from_u128(1).to_string());
    assert_eq!(std::fs::metadata(home).unwrap().permissions().mode() & 0o777, 0o700, "for this user only");
}

#[test]
fn one_process_changes_the_files_at_a_time() {
    let test = TestFolder::new();
    let held = test.folder.lock().unwrap();
    let other = test.root.find(uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(2)).unwrap().unwrap();
    assert!(matches!(other.lock(), Err(houston_folder::Error::Busy)));
    drop(held);
    other.lock().unwrap().write(&at("a"), "x").unwrap();
    assert_eq!(test.read("a").unwrap().as_deref(), Some("x"));
}
