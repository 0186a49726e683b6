//! Output: status lines and progress bars on stderr, results on stdout.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Without a terminal, progress is printed at this interval.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

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

/// The progress of work with a known number of steps: a bar on a terminal, otherwise a line every 10 s.
#[derive(Debug)]
pub struct Progress {
    label: String,
    total: u64,
    done: u64,
    bar: Option<ProgressBar>,
    last_printed: Instant,
}

impl Progress {
    pub fn new(label: &str, total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{msg:<36} {bar:30} {pos}/{len}  {elapsed}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_message(label.to_owned());
            bar
        });
        if bar.is_none() {
            print_status(label);
        }
        Self { label: label.to_owned(), total, done: 0, bar, last_printed: Instant::now() }
    }

    /// Sets the number of completed steps.
    pub fn reach(&mut self, done: u64) {
        self.done = done;
        match &self.bar {
            Some(bar) => bar.set_position(done),
            None if self.last_printed.elapsed() >= PLAIN_EVERY => {
                self.last_printed = Instant::now();
                print_status(&format!("{}: {done} of {}", self.label, self.total));
            }
            None => {}
        }
    }

    /// Prints a status line, above the bar if there is one.
    pub fn print_status(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => print_status(line),
        }
    }

    /// Counts one completed step.
    pub fn step(&mut self) {
        self.reach(self.done + 1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
