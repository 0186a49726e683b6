//! What the parent and the child write to each other: one JSON value per line.
//!
//! The child begins with `ready` or `missing`. A script's child then reads one [`Script`](crate::Script), asks for
//! [`Message::Calls`] as often as it likes and reads one line of answers for each, pairs of a value and an error, which is
//! null if the call succeeded, and ends with [`Message::End`]. A converter reads its document to the end and answers with
//! [`Message::Text`] or [`Message::Unreadable`]. A child for evaluations reads one request a line and answers each with
//! [`Message::Evaluated`].

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::outcome::Fault;

/// What is converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// A page in UTF-8 to Markdown, without scripts, styles and navigation.
    HtmlToMarkdown,
    PdfToText,
    /// An expression such as `20% of 85` or `5 ft 3 inches to cm` to its result.
    Calculation,
}

/// What a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Script,
    Convert(Conversion),
    /// Answers one request after another.
    Evaluation,
    /// Builds the walls, says so and ends.
    Check,
}

/// The tasks, by the first argument of a child.
pub(crate) const TASKS: [(&str, Task); 6] = [
    ("script", Task::Script),
    ("html", Task::Convert(Conversion::HtmlToMarkdown)),
    ("pdf", Task::Convert(Conversion::PdfToText)),
    ("calculation", Task::Convert(Conversion::Calculation)),
    ("evaluation", Task::Evaluation),
    ("check", Task::Check),
];

/// The options of a child. Programs that are no sandbox refuse them: the binary of a test, say, which would otherwise run
/// its tests again.
pub(crate) const CPU_SECONDS: &str = "--cpu-seconds";
pub(crate) const OUTPUT: &str = "--output";

/// What a child writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// The walls are built.
    Ready,
    /// They cannot be built: what the machine lacks. The last line.
    Missing(Vec<String>),
    Calls(Vec<Asked>),
    End(End),
    Text {
        text: String,
        /// Whether the text is longer than the parent wanted.
        cut: bool,
    },
    Evaluated {
        answer: Box<RawValue>,
        /// Milliseconds of CPU time that the child has used since its start.
        cpu_ms: u64,
    },
    /// The document cannot be converted, and why.
    Unreadable(String),
}

/// A call as the child asks for it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) tool: String,
    pub(crate) input: Box<RawValue>,
}

/// How a script ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) result: EndResult,
    /// As [`crate::Run`] has it.
    pub(crate) console: String,
}

/// The last line of a console that had more than its limit.
pub(crate) const CUT: &str = "[the console had more, which was cut]\n";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndResult {
    Value(Box<RawValue>),
    Thrown(Fault),
    Invalid(Fault),
    TimedOut,
    OutOfMemory,
    /// The result has this many bytes as JSON.
    TooLarge(usize),
    /// It waits for a promise that nothing will settle.
    Stuck,
}
