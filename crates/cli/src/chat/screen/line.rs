//! The line that is being written.

use houston_protocol::agui::EntityId;

use super::{Paint, Screen};
use crate::chat::output::{Channel, Output, Transient, one_line};

/// What the current line contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing.
    Start,
    /// Text of this channel.
    Text(Channel),
    /// The title of an open tool call.
    ToolCall(EntityId),
    /// The prompt, and what the user has typed after it.
    Prompt,
}

impl Screen {
    /// Moves to the start of a line.
    pub(super) fn clear(&mut self, out: &mut Output) {
        match &self.line {
            Line::Start => {}
            Line::Text(channel) => out.push(*channel, Paint::Plain, "\n"),
            Line::ToolCall(_) | Line::Prompt => out.push(Channel::Info, Paint::Plain, "\n"),
        }
        self.line = Line::Start;
    }

    /// Writes a line that stays.
    pub(super) fn write_line(&mut self, out: &mut Output, paint: Paint, text: &str) {
        self.clear(out);
        self.transient = None;
        out.push(Channel::Info, paint, text);
        out.push(Channel::Info, Paint::Plain, "\n");
    }

    /// Sets the status line below everything else, on a terminal.
    pub(super) fn set_status(&mut self, text: &str) {
        if self.style.live {
            self.transient = Some(Transient { paint: Paint::Dim, text: text.to_owned(), rows: 1 });
        }
    }

    /// Writes the title of a tool call that begins.
    pub(super) fn start_tool_call(&mut self, out: &mut Output, id: EntityId, name: &str) {
        self.clear(out);
        self.transient = None;
        let title = title(name);
        out.push(Channel::Info, Paint::Dim, &title);
        self.tool_calls.insert(id, title);
        self.line = Line::ToolCall(id);
    }

    /// Writes the result of a tool call: done, or the first line of the error.
    pub(super) fn end_tool_call(&mut self, out: &mut Output, id: EntityId, failed: Option<&str>) {
        let title = self.tool_calls.remove(&id).unwrap_or_else(|| "⚙ …".to_owned());
        if !matches!(&self.line, Line::ToolCall(open) if *open == id) {
            self.clear(out);
            out.push(Channel::Info, Paint::Dim, &title);
        }
        match failed {
            None => out.push(Channel::Info, Paint::Dim, " done"),
            Some(why) => out.push(Channel::Info, Paint::Red, &format!(" failed: {}", one_line(why))),
        }
        out.push(Channel::Info, Paint::Plain, "\n");
        self.line = Line::Start;
    }
}

/// `create_note` → `⚙ Create note …`, as messages of the type `tool` are titled.
pub(super) fn title(name: &str) -> String {
    let words = one_line(&name.replace('_', " "));
    let mut chars = words.chars();
    let title: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
    format!("⚙ {title} …")
}
