//! Output: status lines and progress on stderr, results on stdout.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Without a terminal, progress is printed at this interval.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
/// On a terminal, the line with the progress is written again at this interval.
const LINE_EVERY: Duration = Duration::from_millis(100);
/// To the begin of the line, which is emptied.
const EMPTY_LINE: &str = "\r\x1b[K";

/// Prints a status line to stderr. Errors are ignored: stderr may be closed.
pub fn print_status(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints a result to stdout.
pub fn print(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")
}

/// Prints a piece of a result to stdout without a line end and flushes it, for streamed text.
pub fn print_piece(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The progress of work with a known number of steps: on a terminal a line that changes, otherwise a line every 10 s.
#[derive(Debug)]
pub struct Progress {
    label: String,
    total: u64,
    done: u64,
    is_terminal: bool,
    begun: Instant,
    last_printed: Instant,
}

impl Progress {
    pub fn new(label: &str, total: u64) -> Self {
        let (is_terminal, now) = (std::io::stderr().is_terminal(), Instant::now());
        let label = label.to_owned();
        let progress = Self { label, total, done: 0, is_terminal, begun: now, last_printed: now };
        if is_terminal {
            progress.draw();
        } else {
            print_status(&progress.label);
        }
        progress
    }

    /// Sets the number of completed steps.
    pub fn reach(&mut self, done: u64) {
        self.done = done;
        if self.last_printed.elapsed() < if self.is_terminal { LINE_EVERY } else { PLAIN_EVERY } {
            return;
        }
        self.last_printed = Instant::now();
        if self.is_terminal {
            self.draw();
        } else {
            print_status(&format!("{}: {done} of {}", self.label, self.total));
        }
    }

    /// Prints a status line, above the progress if that is shown.
    pub fn print_status(&self, line: &str) {
        if self.is_terminal {
            print_status(&format!("{EMPTY_LINE}{line}"));
            self.draw();
        } else {
            print_status(line);
        }
    }

    /// Counts one completed step.
    pub fn step(&mut self) {
        self.reach(self.done + 1);
    }

    fn draw(&self) {
        let Self { label, total, done, .. } = self;
        let seconds = self.begun.elapsed().as_secs();
        let line = format!("{EMPTY_LINE}{label:<36} {done}/{total}  {seconds} s");
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_terminal {
            let _ = std::io::stderr().lock().write_all(EMPTY_LINE.as_bytes());
        }
    }
}
