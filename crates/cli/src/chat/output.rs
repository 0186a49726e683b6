//! What is to be written, and where: decided by [`Screen`](super::screen::Screen), written here.

use std::io::Write;

/// Where a text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    /// What the agent says.
    Reply,
    /// Everything else.
    Talk,
}

/// Texts in the order they are to be written.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct Output(Vec<(Channel, String)>);

impl Output {
    pub(crate) fn push(&mut self, channel: Channel, text: &str) {
        match self.0.last_mut() {
            Some((last, written)) if *last == channel => written.push_str(text),
            _ if text.is_empty() => {}
            _ => self.0.push((channel, text.to_owned())),
        }
    }

    /// Writes replies to stdout, and the talk there too or to stderr. A reader that has gone away is no error.
    pub(crate) fn write(self, talk_to_stderr: bool) {
        for (channel, text) in self.0 {
            let _ = match channel {
                Channel::Talk if talk_to_stderr => std::io::stderr().lock().write_all(text.as_bytes()),
                _ => {
                    let mut out = std::io::stdout().lock();
                    out.write_all(text.as_bytes()).and_then(|()| out.flush())
                }
            };
        }
    }

    /// All texts, those of the talk in brackets when `marked`.
    #[cfg(test)]
    pub(crate) fn shown(&self, marked: bool) -> String {
        let show = |(channel, text): &(Channel, String)| match channel {
            Channel::Talk if marked => format!("[{text}]"),
            _ => text.clone(),
        };
        self.0.iter().map(show).collect()
    }
}

/// The text without control characters, which could move the cursor or retitle the window: what agents and
/// tools say is not to be trusted with the terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// The first line, shortened: for places where only one fits.
pub(crate) fn one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = harmless(text.trim().lines().next().unwrap_or_default());
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_command_the_terminal() {
        assert_eq!(harmless("a\u{1b}[2Jb\r\u{9b}1mc\td\ne\u{7}"), "a[2Jb1mc\td\ne");
        assert_eq!(one_line("\n first\nsecond"), "first");
        assert_eq!(one_line(&"ä".repeat(300)).chars().count(), 201);
    }
}
