//! The line that is being written.

use super::{Paint, Screen};
use crate::chat::output::{Channel, Output, Passing, one_line};

/// What it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing.
    Start,
    /// Text that stays.
    Text(Channel),
    /// The cell of a tool call at work.
    Cell(String),
    /// The prompt, and what a person has typed after it.
    Prompt,
}

impl Screen {
    /// Goes to the start of a line.
    pub(super) fn clear(&mut self, out: &mut Output) {
        match &self.line {
            Line::Start => {}
            Line::Text(channel) => out.push(*channel, Paint::Plain, "\n"),
            Line::Cell(_) | Line::Prompt => out.push(Channel::Talk, Paint::Plain, "\n"),
        }
        self.line = Line::Start;
    }

    /// Writes a line that stays.
    pub(super) fn talk(&mut self, out: &mut Output, paint: Paint, text: &str) {
        self.clear(out);
        self.passing = None;
        out.push(Channel::Talk, paint, text);
        out.push(Channel::Talk, Paint::Plain, "\n");
    }

    /// Shows a line that goes by, where lines can.
    pub(super) fn pass(&mut self, text: &str) {
        if self.style.live {
            self.passing = Some(Passing { paint: Paint::Dim, text: text.to_owned(), rows: 1 });
        }
    }

    /// A tool is at work.
    pub(super) fn begin_cell(&mut self, out: &mut Output, id: &str, name: &str) {
        self.clear(out);
        self.passing = None;
        let title = title(name);
        out.push(Channel::Talk, Paint::Dim, &title);
        self.cells.insert(id.to_owned(), title);
        self.line = Line::Cell(id.to_owned());
    }

    /// It has answered, or failed.
    pub(super) fn end_cell(&mut self, out: &mut Output, id: &str, failed: Option<&str>) {
        let title = self.cells.remove(id).unwrap_or_else(|| "⚙ …".to_owned());
        if !matches!(&self.line, Line::Cell(open) if open == id) {
            self.clear(out);
            out.push(Channel::Talk, Paint::Dim, &title);
        }
        match failed {
            None => out.push(Channel::Talk, Paint::Dim, " done"),
            Some(why) => out.push(Channel::Talk, Paint::Red, &format!(" failed: {}", one_line(why))),
        }
        out.push(Channel::Talk, Paint::Plain, "\n");
        self.line = Line::Start;
    }
}

/// `create_note` → `⚙ Create note …`, as the thread titles it.
pub(super) fn title(name: &str) -> String {
    let words = one_line(&name.replace('_', " "));
    let mut chars = words.chars();
    let title: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
    format!("⚙ {title} …")
}
