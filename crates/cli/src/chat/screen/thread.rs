//! The thread as `/history` shows it.

use super::line::title;
use super::{Paint, Screen};
use crate::chat::message::Message;
use crate::chat::notice::notice;
use crate::chat::output::{Channel, Output, one_line};

impl Screen {
    /// Shows messages, given oldest first.
    pub(crate) fn thread(&mut self, messages: &[Message]) -> Output {
        let mut out = Output::default();
        if messages.is_empty() {
            self.talk(&mut out, Paint::Dim, "nothing has been said yet");
        }
        for message in messages {
            self.message(&mut out, message);
        }
        self.below(out)
    }

    fn message(&mut self, out: &mut Output, message: &Message) {
        match (message.source.as_str(), message.message_type.as_str()) {
            (_, "tool") => {
                let state = match message.metadata["status"].as_str().unwrap_or_default() {
                    "started" => "",
                    status => status,
                };
                self.talk(out, Paint::Dim, format!("{} {state}", title(&message.content)).trim_end());
            }
            ("user", _) => self.talk(out, Paint::Bold, &format!("> {}", message.content)),
            ("system", _) => self.talk(out, Paint::Dim, &notice(&message.metadata, &message.content)),
            ("error", _) => self.talk(out, Paint::Red, &format!("✗ {}", one_line(&message.content))),
            _ => {
                self.clear(out);
                out.push(Channel::Reply, Paint::Plain, message.content.trim_end());
                out.push(Channel::Reply, Paint::Plain, "\n");
            }
        }
    }
}
