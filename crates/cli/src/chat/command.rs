//! What a line typed at the prompt asks for.

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Post this message.
    Say(String),
    /// Nothing.
    Nothing,
    Help,
    /// Show that many of the last messages.
    History(u8),
    Cancel,
    New,
    Quit,
    /// Neither a message nor a command.
    Unknown(String),
}

/// What `/help` shows.
pub(crate) const HELP: &str = "\
/history [n]  the last messages of this conversation (20)
/cancel       stop what the agent is doing (also Ctrl-C)
/new          begin another conversation
/quit         leave (also Ctrl-D); what was posted is answered all the same
Anything else is sent, also while the agent is at work. Begin with a space to send a line like these.";

impl Command {
    /// Reads a line. A slash with one unknown word is rather a slip than a message.
    pub(crate) fn read(line: &str) -> Self {
        let text = line.trim();
        let mut words = text.split_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next());
        if line.starts_with(' ') || !first.starts_with('/') || words.next().is_some() {
            return if text.is_empty() { Self::Nothing } else { Self::Say(text.to_owned()) };
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
            (_, Some(_)) => Self::Say(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_commands_or_slips() {
        let say = |text: &str| Command::Say(text.to_owned());
        for (line, expected) in [
            ("hello /quit", say("hello /quit")),
            ("  \t", Command::Nothing),
            ("/help ", Command::Help),
            (" /help", say("/help")),
            ("/history", Command::History(20)),
            ("/history 5", Command::History(5)),
            ("/history 500", Command::Unknown("/history 500".to_owned())),
            ("/quti", Command::Unknown("/quti".to_owned())),
            ("/quit", Command::Quit),
            ("/new", Command::New),
            ("/cancel", Command::Cancel),
            ("/sim chunks=20", say("/sim chunks=20")),
            ("/sim chunks=20 delay_ms=0", say("/sim chunks=20 delay_ms=0")),
        ] {
            assert_eq!(Command::read(line), expected, "{line:?}");
        }
    }
}
