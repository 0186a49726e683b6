//! Sends signals to child processes.

use std::io;

use rustix::process::{Pid, Signal, kill_process};

/// Sends `signal` to a process; an error if there is none.
pub(crate) fn signal(signal: Signal, pid: Option<u32>) -> io::Result<()> {
    let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed())).ok_or(io::ErrorKind::NotFound)?;
    Ok(kill_process(pid, signal)?)
}
