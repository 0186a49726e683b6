//! The line the cursor stands in.

use super::{Paint, Screen};
use crate::chat::output::{Channel, Output, one_line};

/// What stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing.
    Start,
    /// Text that stays.
    Text(Channel),
    /// The cell of a tool call at work.
    Cell(String),
    /// Text that goes when something is said.
    Passing,
    /// The prompt, and what a person has typed after it.
    Prompt,
}

const ERASE: &str = "\r\u{1b}[K";
pub(super) const UP_AND_ERASE: &str = "\u{1b}[A\r\u{1b}[K";

impl Screen {
    /// Goes to the start of a line.
    pub(super) fn clear(&mut self, out: &mut Output) {
        match &self.line {
            Line::Start => {}
            Line::Text(channel) => out.push(*channel, "\n"),
            Line::Cell(_) => out.push(Channel::Talk, "\n"),
            Line::Prompt if !self.style.live => out.push(Channel::Talk, "\n"),
            Line::Passing | Line::Prompt => out.push(Channel::Talk, ERASE),
        }
        self.line = Line::Start;
    }

    /// Writes a line that stays.
    pub(super) fn talk(&mut self, out: &mut Output, paint: Paint, text: &str) {
        self.clear(out);
        out.push(Channel::Talk, &self.painted(paint, text));
        out.push(Channel::Talk, "\n");
    }

    /// Writes a line that goes by, where lines can.
    pub(super) fn pass(&mut self, out: &mut Output, text: &str) {
        if self.style.live {
            self.clear(out);
            out.push(Channel::Talk, &self.painted(Paint::Dim, text));
            self.line = Line::Passing;
        }
    }

    /// A tool is at work.
    pub(super) fn begin_cell(&mut self, out: &mut Output, id: &str, name: &str) {
        self.clear(out);
        let title = title(name);
        out.push(Channel::Talk, &self.painted(Paint::Dim, &title));
        self.cells.insert(id.to_owned(), title);
        self.line = Line::Cell(id.to_owned());
    }

    /// It has answered, or failed.
    pub(super) fn end_cell(&mut self, out: &mut Output, id: &str, failed: Option<&str>) {
        let title = self.cells.remove(id).unwrap_or_else(|| "⚙ …".to_owned());
        if !matches!(&self.line, Line::Cell(open) if open == id) {
            self.clear(out);
            out.push(Channel::Talk, &self.painted(Paint::Dim, &title));
        }
        match failed {
            None => out.push(Channel::Talk, &self.painted(Paint::Dim, " done")),
            Some(why) => {
                out.push(Channel::Talk, &self.painted(Paint::Red, &format!(" failed: {}", one_line(why))))
            }
        }
        out.push(Channel::Talk, "\n");
        self.line = Line::Start;
    }

    pub(super) fn painted(&self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Bold => "1",
            Paint::Dim => "2",
            Paint::Red => "31",
        };
        if self.style.colour && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// `create_note` → `⚙ Create note …`, as the thread titles it.
pub(super) fn title(name: &str) -> String {
    let words = one_line(&name.replace('_', " "));
    let mut chars = words.chars();
    let title: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
    format!("⚙ {title} …")
}
