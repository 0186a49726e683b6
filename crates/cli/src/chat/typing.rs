//! Lines a person types, or a pipe brings: read on a thread of their own, since no runtime can wait for them.

use std::io::BufRead as _;

use tokio::sync::mpsc;

/// What came from the keyboard or the pipe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A line, without its end.
    Line(String),
    /// Ctrl-C, where no signal says so.
    Interrupted,
}

/// The lines of stdin, until its end.
pub(crate) fn lines() -> mpsc::Receiver<Typed> {
    let (lines, typed) = mpsc::channel(64);
    // Nobody waits for this thread: it may stay in a read for ever.
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut line = Vec::new();
        while matches!(stdin.read_until(b'\n', &mut line), Ok(length) if length > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
            line.clear();
            if lines.blocking_send(Typed::Line(text)).is_err() {
                break;
            }
        }
    });
    typed
}
