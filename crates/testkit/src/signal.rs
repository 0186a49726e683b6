//! Sends signals to child processes.

use std::io;
use std::process::Command;

/// Sends the signal `name` (`KILL`, `TERM`, …) with the shell's built-in `kill`: this crate has no unsafe code, and slim
/// images have no `kill` program.
pub(crate) fn signal(name: &str, pid: Option<u32>) -> io::Result<()> {
    let pid = pid.ok_or(io::ErrorKind::NotFound)?.to_string();
    let output =
        Command::new("/bin/sh").args(["-c", "kill -s \"$1\" \"$2\"", "kill", name, &pid]).output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr)))
    }
}
