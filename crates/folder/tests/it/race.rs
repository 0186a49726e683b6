//! Another program exchanges files and folders for links, as fast as it can, while the workspace is read and written.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use houston_domain::workspace::FileVersion;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::test_folder::{CANARY, TestFolder};

/// Rounds of reads, unless `HOUSTON_RACES` says otherwise: a second.
const ROUNDS: u64 = 500;
/// Rounds after which something is written: a write waits for the disk.
const WRITE_EVERY: u64 = 10;

/// A thread that exchanges two things until it is stopped.
struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Swapper {
    fn start(one: PathBuf, other: PathBuf) -> Self {
        let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (until, count) = (Arc::clone(&stop), Arc::clone(&swaps));
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                if renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { stop, swaps, thread }
    }

    fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.swaps.load(Ordering::Relaxed)
    }
}

/// How often something outside was read, and how often each call was carried out or refused.
#[derive(Debug, Default)]
struct Counts {
    escaped: u64,
    done: u64,
    refused: u64,
}

impl Counts {
    fn add(&mut self, read: Result<Option<String>, houston_folder::Error>) {
        match read {
            Ok(Some(text)) if text.contains(CANARY) => self.escaped += 1,
            Ok(_) => self.done += 1,
            Err(_) => self.refused += 1,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the environment says how many; this is not a setting of Houston"
)]
fn rounds() -> u64 {
    std::env::var("HOUSTON_RACES").ok().map_or(ROUNDS, |rounds| rounds.parse().unwrap())
}

#[test]
fn nothing_outside_is_read_or_changed_in_a_race() {
    let rounds = rounds();
    let test = TestFolder::new();
    std::fs::create_dir(test.outside("dir")).unwrap();
    std::fs::write(test.outside("dir/file"), CANARY).unwrap();
    // A folder and a link to a folder outside; a file and a link to a file outside; a file and a pipe.
    test.write("dir/file", "inside").unwrap();
    test.write("file", "inside").unwrap();
    test.write("plain", "inside").unwrap();
    symlink(test.outside("dir"), test.inside("dir2")).unwrap();
    symlink(test.outside("secret"), test.inside("file2")).unwrap();
    rustix::fs::mkfifoat(CWD, test.inside("plain2"), rustix::fs::Mode::RWXU).unwrap();
    let pairs = [("dir", "dir2"), ("file", "file2"), ("plain", "plain2")];
    let swappers = pairs.map(|(one, other)| Swapper::start(test.inside(one), test.inside(other)));

    let began = Instant::now();
    let (mut reads, mut writes, mut deletions) = (Counts::default(), Counts::default(), Counts::default());
    for nth in 0..rounds {
        for path in ["dir/file", "file", "plain"] {
            reads.add(test.read(path));
        }
        if nth % WRITE_EVERY > 0 {
            continue;
        }
        let made = format!("dir/made{}", nth % 8);
        for path in ["dir/file", "file", &made] {
            writes.add(test.write(path, "inside").map(|()| None));
        }
        deletions.add(test.delete(&made).map(|()| None));
        for found in test.folder.walk_hashed().unwrap().files.values() {
            reads.escaped += u64::from(found.version == Some(FileVersion::of(CANARY)));
        }
    }
    let swaps: u64 = swappers.into_iter().map(Swapper::finish).sum();
    let took = began.elapsed();

    let outside = ["secret", "dir/file"].map(|name| std::fs::read_to_string(test.outside(name)).unwrap());
    assert_eq!(outside, [CANARY, CANARY], "nothing outside was changed");
    let made: Vec<_> =
        std::fs::read_dir(test.outside("dir")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(made, ["file"], "nothing was made or deleted outside");
    assert_eq!(test.names_outside().len(), 2);
    assert_eq!((reads.escaped, writes.escaped, deletions.escaped), (0, 0, 0), "{reads:?}");
    for counts in [&reads, &writes] {
        assert!(counts.done > 0 && counts.refused > 0, "both happen: {counts:?}");
    }
    println!(
        "{swaps} swaps in {} s: 0 outside; read {} refused {}, wrote {} refused {}, deleted {} refused {}",
        took.as_secs(),
        reads.done,
        reads.refused,
        writes.done,
        writes.refused,
        deletions.done,
        deletions.refused
    );
}
