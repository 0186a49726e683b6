//! Signals to processes whose handle we hold.

use std::io;
use std::process::Command;

/// Through the shell, whose `kill` is built in: this crate has no unsafe code, and slim images have no `kill`.
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
