//! What a person sees: lines, and bars where there is a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Without a terminal, work that takes long says so this often.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// Talk, on stderr. There is nobody to tell when that is closed.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Data, on stdout.
pub fn print(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")
}

/// A piece of data without a line end, shown at once: a text that is being written.
pub fn print_piece(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Work that takes a while, with a number of steps.
#[derive(Debug)]
pub struct Progress {
    label: String,
    total: u64,
    done: u64,
    bar: Option<ProgressBar>,
    told: Instant,
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
            tell(label);
        }
        Self { label: label.to_owned(), total, done: 0, bar, told: Instant::now() }
    }

    /// So many steps are done.
    pub fn reach(&mut self, done: u64) {
        self.done = done;
        match &self.bar {
            Some(bar) => bar.set_position(done),
            None if self.told.elapsed() >= PLAIN_EVERY => {
                self.told = Instant::now();
                tell(&format!("{}: {done} of {}", self.label, self.total));
            }
            None => {}
        }
    }

    /// A line, above the bar if there is one.
    pub fn tell(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => tell(line),
        }
    }

    /// One more step is done.
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
