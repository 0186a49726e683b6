//! The limits of one run, as `jobs/orchestrator.toml` and the agent types set them.

use serde::{Deserialize, Serialize};

use crate::answering::WrongSetting;

/// When a run stops although the model would continue. `[limits]` of `jobs/orchestrator.toml`:
///
/// ```toml
/// [limits]
/// max_iterations = 20
/// max_same_tool = 5
/// max_duration_s = 600
/// max_output_tokens = 4096
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Model calls of one run.
    pub max_iterations: u32,
    /// Turns in a row that ask for the same single tool.
    pub max_same_tool: u32,
    /// Duration of one attempt, in seconds.
    pub max_duration_s: u64,
    /// Entries of the open session's history; 0 means no limit. Tasks set one, because they are short.
    #[serde(default)]
    pub max_history_entries: usize,
    /// Tokens the model may write in one answer.
    pub max_output_tokens: u32,
}

/// Limits that an agent type overrides; `None` keeps the value of `orchestrator.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitChanges {
    /// See [`Limits::max_iterations`].
    pub max_iterations: Option<u32>,
    /// See [`Limits::max_same_tool`].
    pub max_same_tool: Option<u32>,
    /// See [`Limits::max_duration_s`].
    pub max_duration_s: Option<u64>,
    /// See [`Limits::max_history_entries`].
    pub max_history_entries: Option<usize>,
    /// See [`Limits::max_output_tokens`].
    pub max_output_tokens: Option<u32>,
}

impl Limits {
    /// These limits with `changes` applied.
    #[must_use]
    pub fn with(self, changes: LimitChanges) -> Self {
        Self {
            max_iterations: changes.max_iterations.unwrap_or(self.max_iterations),
            max_same_tool: changes.max_same_tool.unwrap_or(self.max_same_tool),
            max_duration_s: changes.max_duration_s.unwrap_or(self.max_duration_s),
            max_history_entries: changes.max_history_entries.unwrap_or(self.max_history_entries),
            max_output_tokens: changes.max_output_tokens.unwrap_or(self.max_output_tokens),
        }
    }
}

impl LimitChanges {
    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Checks that none is 0, of which nothing could be done. Pointers are from these limits.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first that is 0.
    pub fn check(&self) -> Result<(), WrongSetting> {
        let none = [
            ("/max_iterations", self.max_iterations == Some(0)),
            ("/max_same_tool", self.max_same_tool == Some(0)),
            ("/max_duration_s", self.max_duration_s == Some(0)),
            ("/max_history_entries", self.max_history_entries == Some(0)),
            ("/max_output_tokens", self.max_output_tokens == Some(0)),
        ];
        match none.into_iter().find(|(_, is_none)| *is_none) {
            Some((pointer, _)) => Err(WrongSetting::new(pointer, "must be 1 or more")),
            None => Ok(()),
        }
    }

    /// These changes, each reduced to at most the limit in `bounds`.
    #[must_use]
    pub fn within(self, bounds: Limits) -> Self {
        // For entries, 0 means no limit.
        let entries = match (self.max_history_entries, bounds.max_history_entries) {
            (Some(0), most) => most,
            (Some(entries), most) if most > 0 => entries.min(most),
            (Some(entries), _) => entries,
            (None, most) => most,
        };
        Self {
            max_iterations: Some(
                self.max_iterations.unwrap_or(bounds.max_iterations).min(bounds.max_iterations),
            ),
            max_same_tool: Some(self.max_same_tool.unwrap_or(bounds.max_same_tool).min(bounds.max_same_tool)),
            max_duration_s: Some(
                self.max_duration_s.unwrap_or(bounds.max_duration_s).min(bounds.max_duration_s),
            ),
            max_history_entries: Some(entries),
            max_output_tokens: Some(
                self.max_output_tokens.unwrap_or(bounds.max_output_tokens).min(bounds.max_output_tokens),
            ),
        }
    }
}
