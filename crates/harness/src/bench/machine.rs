//! The machine: its limits, processor, cores and disk.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Each held run has a connection to the model and one to its client, with both ends in processes of this machine.
const FILES: u64 = 65_536;
/// Files that are open besides.
const OTHER_FILES: u64 = 500;
/// What a commit writes at least, in bytes.
const BLOCK: usize = 8192;

/// Raises the limit of open files for this process and its children, beyond the hard one if that is allowed. Returns how
/// many runs with a stream it suffices for.
pub(crate) fn allow_many_files() -> Result<usize> {
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < FILES) {
        // Only root may.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(FILES), maximum: Some(FILES) });
    }
    let most = getrlimit(Resource::Nofile).maximum;
    let wanted = most.map_or(FILES, |most| most.min(FILES));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: most })?;
    Ok(usize::try_from(wanted.saturating_sub(OTHER_FILES) / 2)?)
}

/// In one line.
pub(crate) fn about() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    let processor = line.and_then(|line| line.split_once(':')).map_or("", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores ({processor}), fsync on; the load and the model run on the same cores")
}

/// How long `fdatasync` takes after a block was written to a file that has its size, as the log of Postgres has.
pub(crate) fn fdatasync(folder: &Path, times: usize) -> Result<Vec<Duration>> {
    let path = folder.join("fdatasync");
    let file = File::create(&path)?;
    let block = vec![1; BLOCK];
    file.write_all_at(&vec![0; BLOCK * times], 0)?;
    file.sync_all()?;
    let mut taken = Vec::with_capacity(times);
    for nth in 0..times {
        let began = Instant::now();
        file.write_all_at(&block, u64::try_from(nth * BLOCK)?)?;
        file.sync_data()?;
        taken.push(began.elapsed());
    }
    fs::remove_file(path)?;
    Ok(taken)
}
