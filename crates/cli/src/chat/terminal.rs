//! Writes the conversation to stdout and stderr, or to a terminal whose last rows can be rewritten.
//!
//! Computes what to write on a terminal so that new text follows the old text, above the transient lines and above the input
//! line. No I/O.
//!
//! Before and after each write the cursor is in the first column below everything written. So it does not matter whether an
//! editor, a prompt or nothing follows.

use unicode_width::UnicodeWidthChar as _;

use super::editor::{Editor, PROMPT};
use super::output::{Channel, Output, Paint, Transient};
use super::screen::Style;
use crate::output::{self, Painted, Stream, sanitized};

/// Columns and rows of a terminal that does not report its size.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// Where the conversation is written.
pub(crate) struct Terminal {
    info_to_stderr: bool,
    colour: bool,
    /// Set when the output is a terminal whose rows can be rewritten.
    rows: Option<Rows>,
    /// What shows the input line.
    pub(super) editor: Option<Editor>,
}

impl Terminal {
    pub(crate) fn new(style: &Style, info_to_stderr: bool) -> Self {
        let rows = style.live.then(|| Rows::new(style.colour));
        Self { info_to_stderr, colour: style.colour, rows, editor: None }
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
            fresh.leave_editor();
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

/// The rows of a terminal that may still change.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    colour: bool,
    /// The text of the last row, while its line has not ended.
    last: Vec<(Paint, String)>,
    /// The width of `last` in columns.
    columns: usize,
    transient: Vec<Transient>,
    /// How many rows `transient` takes.
    below: usize,
    /// Rows below these that the next write erases.
    erase_rows: usize,
}

impl Rows {
    pub(crate) fn new(colour: bool) -> Self {
        Self { colour, ..Self::default() }
    }

    /// What to write on a terminal of this size to show the output.
    pub(crate) fn show(&mut self, output: &Output, (width, height): (usize, usize)) -> Painted {
        let width = width.max(2);
        let mut written = Painted::default();
        let passes_on = output.transient.as_ref().is_none_or(|transient| *transient == self.transient);
        if output.pieces.is_empty() && passes_on && self.erase_rows == 0 {
            return written;
        }
        let open = usize::from(!self.last.is_empty());
        written.erase_rows(open + self.below + std::mem::take(&mut self.erase_rows));
        for (paint, text) in &self.last {
            self.write(&mut written, *paint, text);
        }
        for piece in &output.pieces {
            self.write(&mut written, piece.paint, &piece.text);
            self.follow(piece.paint, &piece.text, width);
        }
        if !self.last.is_empty() {
            written.text(Paint::Plain, "\n");
        }
        if let Some(transient) = &output.transient {
            self.transient.clone_from(transient);
        }
        self.below = 0;
        for one in &self.transient {
            let most = one.rows.min((height / 2).max(1));
            for row in last_rows(&one.text, width, most) {
                self.write(&mut written, one.paint, &row);
                written.text(Paint::Plain, "\n");
                self.below += 1;
            }
        }
        written
    }

    /// Erases, with the next write, a line that an editor has shown below these rows, `prompt` columns to the right.
    fn erase_input(&mut self, line: &str, prompt: usize, (width, _): (usize, usize)) {
        let columns = |line: &str| line.chars().map(|c| c.width().unwrap_or(0)).sum::<usize>();
        let mut rows = 0;
        for (nth, line) in line.split('\n').enumerate() {
            let before = if nth == 0 { prompt } else { 0 };
            rows += (before + columns(line)).div_ceil(width.max(2)).max(1);
        }
        self.erase_rows += rows;
    }

    fn write(&self, written: &mut Painted, paint: Paint, text: &str) {
        written.text(if self.colour { paint } else { Paint::Plain }, text);
    }

    /// Tracks where the text ends: a terminal begins a new row when one is full.
    fn follow(&mut self, paint: Paint, text: &str, width: usize) {
        for c in sanitized(text).chars() {
            if c == '\n' {
                self.last.clear();
                self.columns = 0;
                continue;
            }
            let columns = if c == '\t' { 8 - self.columns % 8 } else { c.width().unwrap_or(0) };
            if self.columns + columns > width {
                self.last.clear();
                self.columns = 0;
            }
            self.columns += columns;
            match self.last.last_mut() {
                Some((last, text)) if *last == paint => text.push(c),
                _ => self.last.push((paint, c.to_string())),
            }
        }
    }
}

/// The last rows of a text, wrapped at the width of the terminal.
fn last_rows(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut rows = Vec::new();
    for line in sanitized(text.trim_end()).replace('\t', "    ").lines() {
        let (mut row, mut columns) = (String::new(), 0);
        for c in line.chars() {
            let next = c.width().unwrap_or(0);
            if columns + next > width - 1 {
                rows.push(std::mem::take(&mut row));
                columns = 0;
            }
            columns += next;
            row.push(c);
        }
        rows.push(row);
    }
    rows.split_off(rows.len().saturating_sub(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::output::Channel;
    use crate::chat::tests::FakeTerminal;

    const SIZE: (usize, usize) = (10, 24);

    fn said(text: &str) -> Output {
        let mut output = Output::default();
        output.push(Channel::Reply, Paint::Plain, text);
        output
    }

    fn transient(text: &str) -> Output {
        let transient = Transient { paint: Paint::Dim, text: text.to_owned(), rows: 2 };
        Output { transient: Some(vec![transient]), ..Output::default() }
    }

    #[test]
    fn text_continues_above_transient_lines() {
        let (mut rows, mut screen) = (Rows::new(false), FakeTerminal::new(SIZE.0));
        let steps: [(Output, &[&str]); 7] = [
            (transient("thinking…"), &["thinking…", ""]),
            (said("one two"), &["one two", "thinking…", ""]),
            (said(" three four"), &["one two th", "ree four", "thinking…", ""]),
            (transient("a b c d e f g h i j k"), &["one two th", "ree four", " f g h i ", "j k", ""]),
            (transient(""), &["one two th", "ree four", ""]),
            (said("!\nnew"), &["one two th", "ree four!", "new", ""]),
            (said("\n"), &["one two th", "ree four!", "new", ""]),
        ];
        for (output, expected) in steps {
            screen.write(&rows.show(&output, SIZE));
            assert_eq!(screen.rows, expected, "{output:?}");
        }
    }

    #[test]
    fn typed_line_below_is_erased() {
        let (mut rows, mut screen) = (Rows::new(false), FakeTerminal::new(SIZE.0));
        screen.write(&rows.show(&said("half a s"), SIZE));
        // The editor's rows: the prompt and a line that needs two.
        screen.rows.pop();
        screen.rows.extend(["> 12345678".to_owned(), "9".to_owned(), String::new()]);
        rows.erase_input("123456789", 2, SIZE);
        screen.write(&rows.show(&said("entence"), SIZE));
        assert_eq!(screen.rows, ["half a sen", "tence", ""]);
    }
}
