//! Writes the conversation to stdout and stderr, or to a terminal whose last rows can be rewritten.

use super::editor::{Editor, PROMPT};
use super::output::{Channel, Output};
use super::rows::Rows;
use super::screen::Style;
use crate::output::{self, Painted, Stream};

/// Columns and rows of a terminal that does not report its size.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// Where the conversation is written.
pub(crate) struct Terminal {
    info_to_stderr: bool,
    colour: bool,
    /// Set when the output is a terminal whose rows can be rewritten.
    rows: Option<Rows>,
    editor: Option<Editor>,
}

impl Terminal {
    pub(crate) fn new(style: &Style, info_to_stderr: bool) -> Self {
        let rows = style.live.then(|| Rows::new(style.colour));
        Self { info_to_stderr, colour: style.colour, rows, editor: None }
    }

    /// Sets the editor that shows the input line.
    pub(crate) fn edited_by(&mut self, editor: Editor) {
        self.editor = Some(editor);
    }

    /// Writes the output. A reader that has closed the stream is no error.
    pub(crate) fn show(&mut self, mut shown: Output) {
        let Some(rows) = &mut self.rows else { return shown.write(self.info_to_stderr, self.colour) };
        let stream = if self.info_to_stderr { Stream::Err } else { Stream::Out };
        if self.info_to_stderr && !output::is_terminal(Stream::Out) {
            let is_reply = |piece: &super::output::Piece| piece.channel == Channel::Reply;
            let replies = shown.pieces.extract_if(.., |piece| is_reply(piece)).collect();
            Output { pieces: replies, transient: None }.write(true, false);
        }
        let written = rows.show(&shown, size());
        match &self.editor {
            Some(editor) => editor.print(&written),
            None => output::paint(stream, &written),
        }
    }

    /// The user ended the input line: the editor's copy of it is erased.
    pub(crate) fn entered(&mut self, line: &str) {
        if let (Some(rows), Some(_)) = (&mut self.rows, &self.editor) {
            rows.erase_input(line, PROMPT.len(), size());
        }
    }

    /// Lets the user type the next line.
    pub(crate) fn resume(&self) {
        if let Some(editor) = &self.editor {
            editor.resume();
        }
    }

    /// Ends the editor; later output follows below.
    pub(crate) fn leave(&mut self) {
        if self.editor.take().is_some() {
            // A prompt may be on the row, with the cursor behind it.
            let mut fresh = Painted::default();
            fresh.control(output::Control::LeaveEditor);
            output::paint(Stream::Out, &fresh);
        }
    }
}

/// The terminal's columns and rows.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stdin()).ok();
    let reported = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    reported.map_or(DEFAULT_SIZE, |size| (size.ws_col.into(), size.ws_row.into()))
}
