//! Writing a conversation: plainly, or on a terminal whose last rows can be written anew.

use super::editor::{Editor, PROMPT};
use super::output::{Channel, Output};
use super::rows::Rows;
use super::screen::Style;
use crate::output::{self, Painted, Stream};

/// The size of a terminal that does not say.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// Where a conversation is written.
pub(crate) struct Terminal {
    talk_to_stderr: bool,
    colour: bool,
    /// Of a terminal whose rows can be written anew.
    rows: Option<Rows>,
    editor: Option<Editor>,
}

impl Terminal {
    pub(crate) fn new(style: &Style, talk_to_stderr: bool) -> Self {
        let rows = style.live.then(|| Rows::new(style.colour));
        Self { talk_to_stderr, colour: style.colour, rows, editor: None }
    }

    /// A person edits lines below what is written.
    pub(crate) fn edited_by(&mut self, editor: Editor) {
        self.editor = Some(editor);
    }

    /// Shows it. A reader that has gone away is no error.
    pub(crate) fn show(&mut self, mut shown: Output) {
        let Some(rows) = &mut self.rows else { return shown.write(self.talk_to_stderr, self.colour) };
        let stream = if self.talk_to_stderr { Stream::Err } else { Stream::Out };
        if self.talk_to_stderr && !output::is_terminal(Stream::Out) {
            let is_reply = |piece: &super::output::Piece| piece.channel == Channel::Reply;
            let replies = shown.pieces.extract_if(.., |piece| is_reply(piece)).collect();
            Output { pieces: replies, passing: None }.write(true, false);
        }
        let written = rows.show(&shown, size());
        match &self.editor {
            Some(editor) => editor.print(&written),
            None => output::paint(stream, &written),
        }
    }

    /// The person ended the line that stands below: it is taken back.
    pub(crate) fn entered(&mut self, line: &str) {
        if let (Some(rows), Some(_)) = (&mut self.rows, &self.editor) {
            rows.take_back(line, PROMPT.len(), size());
        }
    }

    /// Lets the person type on.
    pub(crate) fn go_on(&self) {
        if let Some(editor) = &self.editor {
            editor.go_on();
        }
    }

    /// Ends the editing; what is written from now on follows.
    pub(crate) fn leave(&mut self) {
        if self.editor.take().is_some() {
            // Where a prompt stands, the cursor is behind it.
            let mut fresh = Painted::default();
            fresh.control(output::Control::LeaveEditor);
            output::paint(Stream::Out, &fresh);
        }
    }
}

/// Columns and rows.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stdin()).ok();
    let known = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    known.map_or(USUAL_SIZE, |size| (size.ws_col.into(), size.ws_row.into()))
}
