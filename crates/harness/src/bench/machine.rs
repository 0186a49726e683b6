//! The machine: its limits, processor and cores.

use std::fs;

use anyhow::{Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Each held run has a connection to the model and one to its client, with both ends in processes of this machine.
const FILES: u64 = 16_384;

/// Raises the limit of open files for this process and its children.
pub(crate) fn allow_many_files() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(FILES, |most| most.min(FILES));
    if wanted < 6_000 {
        bail!("the limit of open files (ulimit -Hn) is {wanted}: thousands of held runs need at least 6,000");
    }
    if limit.current.is_some_and(|now| now < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })?;
    }
    Ok(())
}

/// The processor's name from `/proc/cpuinfo`; empty if it is not there.
pub(crate) fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or(String::new(), |(_, name)| name.trim().to_owned())
}

/// Number of logical cores; 1 if unknown.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
