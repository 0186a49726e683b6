//! Lines that are typed. At a terminal rustyline edits the input line on a thread of its own, while other text appears above it.
//! Lines of stdin are read on a thread as well, since the runtime cannot wait for them.

use std::io::BufRead as _;
use std::path::Path;
use std::sync::mpsc as blocking;
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use rustyline::config::Configurer as _;
use rustyline::error::ReadlineError;
use rustyline::{DefaultEditor, ExternalPrinter};
use tokio::sync::mpsc;

use crate::output::Painted;

/// The prompt before the line.
pub(crate) const PROMPT: &str = "> ";
/// How many lines the history file keeps.
const HISTORY_LINES: usize = 1000;
/// How long to wait for pending text to be written when the editor ends.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// A running editor. Dropping it restores the terminal's settings.
pub(crate) struct Editor {
    before: Option<Termios>,
    resume: blocking::Sender<()>,
    texts: Option<blocking::Sender<String>>,
    printed: blocking::Receiver<()>,
}

impl Editor {
    /// Starts to read lines. Lines of the file `history` can be recalled; new lines are appended to it.
    ///
    /// # Errors
    /// [`ReadlineError`] when the terminal cannot be used.
    pub(crate) fn start(history: &Path) -> Result<(Self, mpsc::Receiver<Input>), ReadlineError> {
        let before = tcgetattr(std::io::stdin()).ok();
        let mut editor = DefaultEditor::new()?;
        editor.set_max_history_size(HISTORY_LINES)?;
        // A file that cannot be read counts as empty.
        let _ = editor.load_history(history);
        let mut printer = editor.create_external_printer()?;
        let (texts, to_print) = blocking::channel::<String>();
        let (done, printed) = blocking::channel();
        // A thread of its own, because printing blocks while the editor is between two lines.
        std::thread::spawn(move || {
            let _ = to_print.into_iter().try_for_each(|text| printer.print(text));
            let _ = done.send(());
        });
        let (lines, typed) = mpsc::channel(64);
        let (resume, allowed) = blocking::channel();
        if let Some(before) = &before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, &between_lines(before));
        }
        let history = history.to_owned();
        std::thread::spawn(move || read(&mut editor, &history, &lines, &allowed));
        Ok((Self { before, resume, texts: Some(texts), printed }, typed))
    }

    /// Shows text above the line. `text` begins and ends in the first column.
    pub(crate) fn print(&self, text: &Painted) {
        let text = text.as_str();
        if text.is_empty() {
            return;
        }
        // rustyline appends a line feed to text that ends without one; the cursor moves up to compensate.
        let end = if text.ends_with('\n') { "" } else { "\u{1b}[A\n" };
        if let Some(texts) = &self.texts {
            let _ = texts.send(format!("{text}{end}"));
        }
    }

    /// Lets the editor read the next line.
    pub(crate) fn resume(&self) {
        let _ = self.resume.send(());
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        drop(self.texts.take());
        let _ = self.printed.recv_timeout(FLUSH_TIMEOUT);
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, before);
        }
    }
}

/// The terminal's settings while no line is read: what is typed then waits for the next line, byte by byte, and does
/// not appear in the middle of an answer. In canonical mode the terminal would take a Ctrl-D away from the next line.
fn between_lines(before: &Termios) -> Termios {
    let mut settings = before.clone();
    settings.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    settings.special_codes[SpecialCodeIndex::VMIN] = 1;
    settings.special_codes[SpecialCodeIndex::VTIME] = 0;
    settings
}

/// Reads lines until the end of input. After each line it waits for [`Editor::resume`].
fn read(
    editor: &mut DefaultEditor,
    history: &Path,
    lines: &mpsc::Sender<Input>,
    allowed: &blocking::Receiver<()>,
) {
    loop {
        let typed = match editor.readline(PROMPT) {
            Ok(line) => {
                if !line.trim().is_empty() && editor.add_history_entry(&line).unwrap_or(false) {
                    // A history that cannot be written is not an error.
                    let _ = editor.append_history(history);
                }
                Input::Line(line)
            }
            Err(ReadlineError::Interrupted) => Input::Interrupted,
            Err(_) => return,
        };
        if lines.blocking_send(typed).is_err() || allowed.recv().is_err() {
            return;
        }
    }
}

/// What the keyboard or the pipe delivered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A line, without its line feed.
    Line(String),
    /// Ctrl-C, where the editor reads it as a key and no signal is sent.
    Interrupted,
}

/// The lines of stdin, until its end.
pub(crate) fn input_lines() -> mpsc::Receiver<Input> {
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
