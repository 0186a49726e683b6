//! Renders the thread for `/history`.

use houston_domain::message::{MessageType, Source};
use houston_protocol::message::MessageResponse;

use super::line::title;
use super::{Paint, Screen};
use crate::chat::notice::notice;
use crate::chat::output::{Channel, Output, one_line};

impl Screen {
    /// Renders messages, given oldest first.
    pub(crate) fn thread(&mut self, messages: &[MessageResponse]) -> Output {
        let mut out = Output::default();
        if messages.is_empty() {
            self.write_line(&mut out, Paint::Dim, "there are no messages yet");
        }
        for message in messages {
            self.message(&mut out, message);
        }
        self.with_transient(out)
    }

    fn message(&mut self, out: &mut Output, message: &MessageResponse) {
        match (message.source, message.message_type) {
            (_, MessageType::Tool) => {
                let state = match message.metadata["status"].as_str().unwrap_or_default() {
                    "started" => "",
                    status => status,
                };
                self.write_line(out, Paint::Dim, format!("{} {state}", title(&message.content)).trim_end());
            }
            (Source::User, _) => self.write_line(out, Paint::Bold, &format!("> {}", message.content)),
            (Source::System, _) => {
                self.write_line(out, Paint::Dim, &notice(&message.metadata, &message.content))
            }
            (Source::Error, _) => {
                self.write_line(out, Paint::Red, &format!("✗ {}", one_line(&message.content)))
            }
            (Source::Agent, _) => {
                self.clear(out);
                out.push(Channel::Reply, Paint::Plain, message.content.trim_end());
                out.push(Channel::Reply, Paint::Plain, "\n");
            }
        }
    }
}
