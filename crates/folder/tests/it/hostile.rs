//! What programs may leave in a workspace: links, pipes, sockets, second names, deep trees.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use houston_folder::{Error, MAX_LEVELS, Obstacle};
use rustix::fs::{CWD, Mode};

use crate::test_folder::{CANARY, TestFolder, obstacle};

/// Links of every kind, with the paths that would lead through them.
fn with_links() -> (TestFolder, Vec<&'static str>) {
    let test = TestFolder::new();
    test.write("sub/a.txt", "inside").unwrap();
    test.write("secret", "inside").unwrap();
    let links: [(std::path::PathBuf, &str); 14] = [
        (test.outside("secret"), "abs"),
        ("../../../../outside/secret".into(), "rel"),
        (test.outside(""), "dirlink"),
        ("../../../../../outside".into(), "sub/up"),
        ("loop2".into(), "loop1"),
        ("loop1".into(), "loop2"),
        ("/proc/self/root".into(), "procroot"),
        ("/proc/self/cwd".into(), "cwd"),
        ("/proc/self/fd".into(), "fds"),
        ("/dev/stdin".into(), "stdin"),
        ("abs".into(), "chain"),
        // They stay inside, and are not followed either: guards would judge another name.
        ("sub/a.txt".into(), "ok"),
        ("sub".into(), "okdir"),
        (".".into(), "self"),
    ];
    for (to, name) in links {
        symlink(to, test.inside(name)).unwrap();
    }
    let paths = vec![
        "abs",
        "rel",
        "dirlink",
        "dirlink/secret",
        "dirlink/new",
        "dirlink/a/b",
        "sub/up",
        "sub/up/secret",
        "sub/up/new",
        "loop1",
        "loop2",
        "loop1/x",
        "procroot",
        "procroot/etc/passwd",
        "procroot/tmp/new",
        "cwd/Cargo.toml",
        "cwd/new",
        "fds/0",
        "fds/3",
        "stdin",
        "chain",
        "chain/x",
        "ok",
        "okdir/a.txt",
        "okdir/new",
        "self/secret",
        "self/self/secret",
    ];
    (test, paths)
}

#[test]
fn no_link_is_followed() {
    let (test, paths) = with_links();
    for path in &paths {
        assert!(matches!(obstacle(test.read(path)), Obstacle::Link { .. }), "read {path}");
        assert!(matches!(obstacle(test.write(path, "x")), Obstacle::Link { .. }), "write {path}");
        assert!(matches!(obstacle(test.delete(path)), Obstacle::Link { .. }), "delete {path}");
        assert!(matches!(
            obstacle(test.folder.version(&crate::test_folder::at(path))),
            Obstacle::Link { .. }
        ));
    }
    assert_eq!(std::fs::read_to_string(test.outside("secret")).unwrap(), CANARY);
    assert_eq!(test.names_outside(), ["secret"]);
    let walk = test.folder.walk_hashed().unwrap();
    assert_eq!(walk.files.keys().collect::<Vec<_>>(), ["secret", "sub/a.txt"]);
    assert_eq!((walk.count, walk.others), (2, 14));
    assert_eq!(test.read("sub/a.txt").unwrap().as_deref(), Some("inside"), "nothing was written through one");
}

#[test]
fn second_names_of_files_are_not_read_or_changed() {
    let test = TestFolder::new();
    std::fs::hard_link(test.outside("secret"), test.inside("hard")).unwrap();
    assert_eq!(obstacle(test.read("hard")), Obstacle::HardLink { path: "hard".into() });
    let walk = test.folder.walk_hashed().unwrap();
    assert_eq!(walk.files["hard"].version, None, "it is not even hashed");
    // A new file takes the name.
    test.write("hard", "mine").unwrap();
    assert_eq!(test.read("hard").unwrap().as_deref(), Some("mine"));
    assert_eq!(std::fs::read_to_string(test.outside("secret")).unwrap(), CANARY);
}

#[test]
fn pipes_sockets_and_devices_do_not_block() {
    let test = TestFolder::new();
    rustix::fs::mkfifoat(CWD, test.inside("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
    // The address of a socket must be short.
    let folder = std::fs::File::open(test.inside("")).unwrap();
    let _socket = UnixListener::bind(format!("/proc/self/fd/{}/s", folder.as_raw_fd())).unwrap();
    let mut special = vec!["fifo", "s"];
    // Only root may make one.
    let device = rustix::fs::makedev(1, 5);
    if rustix::fs::mknodat(
        CWD,
        test.inside("zero"),
        rustix::fs::FileType::CharacterDevice,
        Mode::RUSR,
        device,
    )
    .is_ok()
    {
        special.push("zero");
    }
    for path in &special {
        for path in [(*path).to_owned(), format!("{path}/x")] {
            assert!(matches!(obstacle(test.read(&path)), Obstacle::Special { .. }), "read {path}");
            assert!(matches!(obstacle(test.write(&path, "x")), Obstacle::Special { .. }), "write {path}");
            assert!(matches!(obstacle(test.delete(&path)), Obstacle::Special { .. }), "delete {path}");
        }
    }
    let walk = test.folder.walk_hashed().unwrap();
    assert_eq!((walk.count, walk.others), (0, special.len() as u64));
}

#[test]
fn deep_trees_are_refused_before_they_cost_anything() {
    let test = TestFolder::new();
    let deepest = vec!["d"; MAX_LEVELS].join("/");
    std::fs::create_dir_all(test.inside(&deepest)).unwrap();
    assert!(matches!(test.folder.walk(), Err(Error::TooMany)));
}

#[test]
fn files_without_permissions_are_named() {
    let test = TestFolder::new();
    test.write("a/b", "x").unwrap();
    std::fs::set_permissions(test.inside("a/b"), std::fs::Permissions::from_mode(0o0)).unwrap();
    // Root reads it all the same.
    match test.read("a/b") {
        Ok(Some(text)) => assert_eq!(text, "x"),
        other => assert_eq!(obstacle(other), Obstacle::Denied { path: "a/b".into() }),
    }
    test.write("a/b", "y").unwrap();
    assert_eq!(test.read("a/b").unwrap().as_deref(), Some("y"));
}
