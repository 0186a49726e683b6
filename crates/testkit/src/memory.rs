//! A file system in memory, for files that are made and removed often.

use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};

/// Its size does not change during a run, as its free space does.
const MEMORY: &str = "/dev/shm";

/// The folder of a file system in memory that has at least `bytes`, used or not, and whose programs may be executed.
#[must_use]
pub fn memory_of(bytes: u64) -> Option<&'static Path> {
    let memory = statvfs(MEMORY).ok()?;
    let is_enough = memory.f_frsize * memory.f_blocks >= bytes;
    (is_enough && !memory.f_flag.contains(StatVfsMountFlags::NOEXEC)).then_some(Path::new(MEMORY))
}
