//! What a person or a program reads: data on stdout, talk on stderr.

use std::io::Write;

/// Writes a line to stdout. A reader that has gone away is no error.
pub(crate) fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Writes a line to stderr.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
