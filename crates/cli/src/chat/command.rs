//! Parses a line typed at the prompt, and reads the images that it posts with a message: they are checked before anything is
//! sent.

use std::fmt::Display;
use std::path::Path;

use houston_domain::id::{ImageId, UserId};
use houston_domain::image::{ImageHeader, MAX_IMAGE_BYTES, to_base64};
use houston_protocol::message::MessageImage;

use super::error::{ChatError, Result};

/// A parsed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Post this message.
    Post(String),
    /// Post an image with this message, which may be empty.
    Image {
        path: String,
        text: String,
    },
    /// An empty line.
    Empty,
    Help,
    /// Show that many of the last messages.
    History(u8),
    Cancel,
    New,
    Quit,
    /// Looks like a command, but is none: the word, or the whole line when its argument is wrong.
    Unknown(String),
}

/// The text of `/help`.
pub(crate) const HELP: &str = "\
/image PATH [message]  post an image, with a message
/history [n]           show the last n messages of this conversation (20)
/cancel                cancel the open run (also Ctrl-C)
/new                   start a new conversation
/quit                  leave (also Ctrl-D); posted messages are answered all the same
Any other line is sent as a message, also during a run. To send a line that begins with /, begin it with a space.";

impl Command {
    /// Parses a line. A line that is one unknown word after a slash is taken for a mistyped command, not for a message.
    pub(crate) fn read(line: &str) -> Self {
        let text = line.trim();
        if let Some(command) = image(line) {
            return command;
        }
        let mut words = text.split_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next());
        if line.starts_with(' ') || !first.starts_with('/') || words.next().is_some() {
            return if text.is_empty() { Self::Empty } else { Self::Post(text.to_owned()) };
        }
        match (first, second) {
            ("/help", None) => Self::Help,
            ("/history", None) => Self::History(20),
            ("/history", Some(count)) => count
                .parse()
                .ok()
                .filter(|count| (1..=100).contains(count))
                .map_or_else(|| Self::Unknown(text.to_owned()), Self::History),
            ("/cancel", None) => Self::Cancel,
            ("/new", None) => Self::New,
            ("/quit" | "/exit", None) => Self::Quit,
            (_, None) => Self::Unknown(first.to_owned()),
            (_, Some(_)) => Self::Post(text.to_owned()),
        }
    }
}

/// `/image PATH [message]`.
fn image(line: &str) -> Option<Command> {
    let rest = line
        .strip_prefix("/image")
        .filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))?;
    let rest = rest.trim();
    if rest.is_empty() {
        return Some(Command::Unknown("/image without the path of a file".to_owned()));
    }
    let (path, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some(Command::Image { path: path.to_owned(), text: text.trim().to_owned() })
}

/// The image in a file, and the id that it has when `user` posts it.
///
/// # Errors
/// [`ChatError`]: the file cannot be read, or is no image that is accepted.
pub(crate) fn read_image(path: &Path, user: UserId) -> Result<(MessageImage, ImageId)> {
    let wrong =
        |why: &dyn Display| ChatError::usage(format!("the image {} is not sent: {why}", path.display()));
    let bytes = bytes(path).map_err(|error| wrong(&error))?;
    ImageHeader::read(&bytes).map_err(|error| wrong(&error))?;
    let image = MessageImage { data: Some(to_base64(&bytes)), url: None };
    Ok((image, ImageId::of(user, &bytes)))
}

/// The bytes of a file; one more than an image may have, if there are more.
fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_IMAGE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_commands_or_typos() {
        let post = |text: &str| Command::Post(text.to_owned());
        let image = |path: &str, text: &str| Command::Image { path: path.to_owned(), text: text.to_owned() };
        for (line, expected) in [
            ("hello /quit", post("hello /quit")),
            ("  \t", Command::Empty),
            ("/help ", Command::Help),
            (" /help", post("/help")),
            ("/history", Command::History(20)),
            ("/history 5", Command::History(5)),
            ("/history 500", Command::Unknown("/history 500".to_owned())),
            ("/quti", Command::Unknown("/quti".to_owned())),
            ("/image a/plan.png", image("a/plan.png", "")),
            ("/image plan.png  What is this? ", image("plan.png", "What is this?")),
            (" /image plan.png", post("/image plan.png")),
            ("/images plan.png", post("/images plan.png")),
            ("/image", Command::Unknown("/image without the path of a file".to_owned())),
            ("/quit", Command::Quit),
            ("/new", Command::New),
            ("/cancel", Command::Cancel),
            ("/sim chunks=20", post("/sim chunks=20")),
            ("/sim chunks=20 delay_ms=0", post("/sim chunks=20 delay_ms=0")),
        ] {
            assert_eq!(Command::read(line), expected, "{line:?}");
        }
    }
}
