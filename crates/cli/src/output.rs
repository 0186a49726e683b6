//! All output to stdout and stderr: data on stdout, messages to a person on stderr.
//!
//! Titles, messages, tool results and error texts come from users, models and providers. Written unchanged, they could
//! retitle the window, clear the screen or write to the clipboard. So every text passes through [`sanitized`], and no
//! other module may write (an architecture test checks that). Houston's own escape sequences are in [`Painted`].

use std::borrow::Cow;
use std::fs::File;
use std::io::{IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;

use serde::Serialize;

/// An output stream of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// How a text is highlighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Bold,
    Dim,
    Red,
}

/// Text for a terminal: sanitised text, and Houston's own escape sequences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Painted(String);

impl Painted {
    pub(crate) fn text(&mut self, paint: Paint, text: &str) {
        let (begin, end) = match paint {
            Paint::Plain => ("", ""),
            Paint::Bold => ("\u{1b}[1m", "\u{1b}[0m"),
            Paint::Dim => ("\u{1b}[2m", "\u{1b}[0m"),
            Paint::Red => ("\u{1b}[31m", "\u{1b}[0m"),
        };
        self.0.push_str(begin);
        self.0.push_str(&sanitized(text));
        self.0.push_str(end);
    }

    /// Moves the cursor up by this many rows, to the first column, and erases everything below.
    pub(crate) fn erase_rows(&mut self, rows: usize) {
        if rows > 0 {
            self.0.push_str(&format!("\u{1b}[{rows}A\r\u{1b}[J"));
        }
    }

    /// Resets what rustyline has set: the mode for pastes, and the row with its prompt.
    pub(crate) fn leave_editor(&mut self) {
        self.0.push_str("\u{1b}[?2004l\r\u{1b}[K");
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Writes a line to stdout.
pub(crate) fn print(line: &str) {
    write(Stream::Out, &format!("{}\n", sanitized(line)));
}

/// Writes a line to stderr.
pub(crate) fn print_stderr(line: &str) {
    write(Stream::Err, &format!("{}\n", sanitized(line)));
}

/// Writes a value to stdout as JSON on one line.
pub(crate) fn print_json(value: &impl Serialize) {
    print_json_text(&serde_json::to_string(value).unwrap_or_default());
}

/// Writes a value to stdout as JSON, or what a person reads.
pub(crate) fn print_either(is_json: bool, value: &impl Serialize, text: &str) {
    match is_json {
        true => print_json(value),
        false => print(text),
    }
}

/// Writes a text that is JSON already to stdout, with a line feed.
pub(crate) fn print_json_text(json: &str) {
    write(Stream::Out, &format!("{}\n", escaped(json)));
}

/// Writes a text that programs read to stdout, without a line feed: unchanged, unless stdout is a terminal.
pub(crate) fn print_data(text: &str) {
    match is_terminal(Stream::Out) {
        true => write(Stream::Out, &sanitized(text)),
        false => write(Stream::Out, text),
    }
}

/// Writes text without a line feed.
pub(crate) fn paint(stream: Stream, painted: &Painted) {
    write(stream, painted.as_str());
}

/// Whether the stream is a terminal.
pub(crate) fn is_terminal(stream: Stream) -> bool {
    match stream {
        Stream::Out => std::io::stdout().is_terminal(),
        Stream::Err => std::io::stderr().is_terminal(),
    }
}

/// Sets the mode of files that stdout and stderr are redirected to, to 0600. Failures are ignored.
pub(crate) fn keep_redirected_files_private() {
    for stream in
        [std::io::stdout().as_fd().try_clone_to_owned(), std::io::stderr().as_fd().try_clone_to_owned()]
    {
        let Ok(file) = stream.map(File::from) else { continue };
        let Ok(metadata) = file.metadata() else { continue };
        if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
            let _ = file.set_permissions(std::fs::Permissions::from_mode(0o600));
        }
    }
}

/// The writer of log lines. Colours stay; other escape sequences do not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        write(Stream::Err, &coloured(&String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes the text. A reader that has closed the stream is no error.
fn write(stream: Stream, text: &str) {
    let _ = match stream {
        Stream::Out => {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        }
        Stream::Err => std::io::stderr().lock().write_all(text.as_bytes()),
    };
}

/// The text without anything that controls a terminal or reorders what it displays. Line feeds and tabs stay; other
/// control characters become visible (`␛`); carriage returns and bidirectional controls are removed.
pub(crate) fn sanitized(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| matches!(c, '\n' | '\t') || !c.is_control() && !is_bidi_control(c)) {
        return Cow::Borrowed(text);
    }
    text.chars().filter_map(visible).collect::<String>().into()
}

fn visible(c: char) -> Option<char> {
    match c {
        '\n' | '\t' => Some(c),
        '\r' => None,
        c if is_bidi_control(c) => None,
        '\u{7f}' => Some('␡'),
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)),
        '\u{80}'..='\u{9f}' => Some('\u{fffd}'),
        c => Some(c),
    }
}

fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// JSON text in which every character that [`sanitized`] would change is `\\u…`: such characters occur only in strings.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || c == '\t' || visible(c) == Some(c) {
            text.push(c);
        } else {
            text.push_str(&format!("\\u{:04x}", u32::from(c)));
        }
    }
    text
}

/// A log line: only escape sequences for colours (`ESC [ digits m`) stay.
fn coloured(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("\u{1b}[") {
        text.push_str(&sanitized(&rest[..at]));
        let after = &rest[at + 2..];
        let digits = after.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(after.len());
        if after[digits..].starts_with('m') {
            text.push_str(&rest[at..=at + 2 + digits]);
            rest = &after[digits + 1..];
        } else {
            text.push_str("␛[");
            rest = after;
        }
    }
    text.push_str(&sanitized(rest));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}]0;title\u{7}\u{1b}[2Jb\r\n\u{9b}1mc\td\u{7f}\u{202e}e\u{2066}";

    #[test]
    fn escape_sequences_in_text_are_neutralised() {
        assert_eq!(sanitized(HOSTILE), "a␛]0;title␇␛[2Jb\n\u{fffd}1mc\td␡e");
        assert!(matches!(sanitized("plain ä 日本 👩‍🔬\n\t"), Cow::Borrowed(_)));
        let mut painted = Painted::default();
        painted.text(Paint::Red, HOSTILE);
        assert_eq!(painted.as_str().matches('\u{1b}').count(), 2);
    }

    #[test]
    fn json_keeps_its_value_and_has_no_controls() {
        let json = serde_json::to_string(HOSTILE).unwrap();
        let written = escaped(&json);
        assert!(written.chars().all(|c| !c.is_control() && !is_bidi_control(c)), "{written}");
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), HOSTILE);
        assert_eq!(escaped("{\n  \"a\": 1\n}"), "{\n  \"a\": 1\n}");
    }

    #[test]
    fn log_lines_keep_only_colours() {
        let line = "\u{1b}[2m12:00\u{1b}[0m \u{1b}[38;5;1mx\u{1b}[m \u{1b}[2J\u{1b}]0;t\u{7}";
        assert_eq!(coloured(line), "\u{1b}[2m12:00\u{1b}[0m \u{1b}[38;5;1mx\u{1b}[m ␛[2J␛]0;t␇");
    }
}
