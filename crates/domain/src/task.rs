//! Tasks: work that an agent gives to another agent, and how much of it is allowed.

use serde::{Deserialize, Serialize};

/// Maximum length of the instructions of a task, in bytes: they are the first message it reads.
pub const MAX_INSTRUCTIONS_BYTES: usize = 32 * 1024;

/// `[tasks]` of `jobs/orchestrator.toml`: how many tasks are allowed.
///
/// ```toml
/// [tasks]
/// max_depth = 1
/// max_open = 5
/// max_per_run = 10
/// note_chars = 16_000
/// report_chars = 4_000
/// report_notes = 20
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskLimits {
    /// Levels of tasks below an agentable that is not a task; 1: tasks cannot create tasks.
    pub max_depth: i32,
    /// Open tasks of one agentable.
    pub max_open: i32,
    /// Tasks that one run may create.
    pub max_per_run: i32,
    /// Characters of the note with the result of a task that wrote no note itself.
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
