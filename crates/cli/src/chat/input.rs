//! Reads lines of stdin on a thread of their own, since the runtime cannot wait for them.

use std::io::BufRead as _;

use tokio::sync::mpsc;

/// What the keyboard or the pipe delivered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A line, without its line feed.
    Line(String),
    /// Ctrl-C, where the editor reads it as a key and no signal is sent.
    Interrupted,
}

/// The lines of stdin, until its end.
pub(crate) fn lines() -> mpsc::Receiver<Input> {
    let (lines, typed) = mpsc::channel(64);
    // This thread is never joined: it may block in a read for ever.
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut line = Vec::new();
        while matches!(stdin.read_until(b'\n', &mut line), Ok(length) if length > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
            line.clear();
            if lines.blocking_send(Input::Line(text)).is_err() {
                break;
            }
        }
    });
    typed
}
