//! Tasks: what one agent asks another to do on its own, and how much of that there may be.

use serde::{Deserialize, Serialize};

/// Bytes of the instructions of a task: they are the first message it reads.
pub const MAX_INSTRUCTIONS_BYTES: usize = 32 * 1024;

/// A task as a model asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedTask {
    /// One line.
    pub title: String,
    /// All it needs to know: it reads nothing else of the conversation.
    pub instructions: String,
    /// Of which kind, where its creator may create several.
    pub kind: Option<String>,
    /// The tools it may call, of those it could; all of them when left out.
    pub tools: Option<Vec<String>>,
}

/// How many tasks there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskLimits {
    /// Levels below what people talk with: 1, and a task creates none.
    pub max_depth: i32,
    /// Tasks of one agentable that are open at once.
    pub max_open: i32,
    /// Tasks that one run creates.
    pub max_per_run: i32,
    /// Characters of the note that keeps the result of a task which wrote no note itself.
    pub note_chars: i32,
    /// Characters of the result in the report to the agent that created the task.
    pub report_chars: i32,
    /// Titles of the task's notes in that report.
    pub report_notes: i32,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            max_depth: 1,
            max_open: 5,
            max_per_run: 10,
            note_chars: 16_000,
            report_chars: 4_000,
            report_notes: 20,
        }
    }
}
