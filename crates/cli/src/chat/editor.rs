//! The line a person types in, at a terminal: rustyline edits it, on a thread of its own, while other texts appear
//! above it.

use std::path::Path;
use std::sync::mpsc as blocking;
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::config::Configurer as _;
use rustyline::error::ReadlineError;
use rustyline::{DefaultEditor, ExternalPrinter};
use tokio::sync::mpsc;

use super::typing::Typed;
use crate::output::Painted;

/// What stands before the line.
pub(crate) const PROMPT: &str = "> ";
/// Lines of the history that are kept.
const REMEMBERED: usize = 1000;
/// How long texts that were not shown yet may take when the editor ends.
const LAST_TEXTS: Duration = Duration::from_millis(500);

/// An editor at work. The terminal is as it was before once this is dropped.
pub(crate) struct Editor {
    before: Option<Termios>,
    go_on: blocking::Sender<()>,
    texts: Option<blocking::Sender<String>>,
    printed: blocking::Receiver<()>,
}

impl Editor {
    /// Begins to read lines; those of `history` can be called back, and new ones join them.
    ///
    /// # Errors
    /// When the terminal cannot be used.
    pub(crate) fn start(history: &Path) -> Result<(Self, mpsc::Receiver<Typed>), ReadlineError> {
        let before = tcgetattr(std::io::stdin()).ok();
        let mut editor = DefaultEditor::new()?;
        editor.set_max_history_size(REMEMBERED)?;
        // A file that cannot be read is one without lines.
        let _ = editor.load_history(history);
        let mut printer = editor.create_external_printer()?;
        let (texts, to_print) = blocking::channel::<String>();
        let (done, printed) = blocking::channel();
        // A thread of its own: a text waits while the editor is between two lines.
        std::thread::spawn(move || {
            let _ = to_print.into_iter().try_for_each(|text| printer.print(text));
            let _ = done.send(());
        });
        let (lines, typed) = mpsc::channel(64);
        let (go_on, allowed) = blocking::channel();
        let history = history.to_owned();
        std::thread::spawn(move || read(&mut editor, &history, &lines, &allowed));
        Ok((Self { before, go_on, texts: Some(texts), printed }, typed))
    }

    /// Shows a text above the line. `text` begins and ends in the first column.
    pub(crate) fn print(&self, text: &Painted) {
        let text = text.as_str();
        if text.is_empty() {
            return;
        }
        // The editor adds the line feed that it misses: then up again before it.
        let end = if text.ends_with('\n') { "" } else { "\u{1b}[A\n" };
        if let Some(texts) = &self.texts {
            let _ = texts.send(format!("{text}{end}"));
        }
    }

    /// Lets the person type the next line.
    pub(crate) fn go_on(&self) {
        let _ = self.go_on.send(());
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        drop(self.texts.take());
        let _ = self.printed.recv_timeout(LAST_TEXTS);
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, before);
        }
    }
}

/// Reads lines until the person leaves; after each it waits until it is allowed to go on.
fn read(
    editor: &mut DefaultEditor,
    history: &Path,
    lines: &mpsc::Sender<Typed>,
    allowed: &blocking::Receiver<()>,
) {
    loop {
        let typed = match editor.readline(PROMPT) {
            Ok(line) => {
                if !line.trim().is_empty() && editor.add_history_entry(&line).unwrap_or(false) {
                    // What cannot be kept is forgotten.
                    let _ = editor.append_history(history);
                }
                Typed::Line(line)
            }
            Err(ReadlineError::Interrupted) => Typed::Interrupted,
            Err(_) => return,
        };
        if lines.blocking_send(typed).is_err() || allowed.recv().is_err() {
            return;
        }
    }
}
