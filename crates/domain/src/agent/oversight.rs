//! What the overseer needs of a run: its trace, and the notes that warn the model.

use super::AgentRun;
use crate::history::{Block, Entry};
use crate::overseer::{self, Finding, Measured, Trace, note};

impl AgentRun {
    /// Lets the overseer look at the run, with these settings.
    #[must_use]
    pub fn overseen(self, settings: overseer::Settings) -> Self {
        Self { overseer: settings, ..self }
    }

    /// What the overseer has found, if anything.
    #[must_use]
    pub fn finding(&self, measured: &Measured) -> Option<Finding> {
        overseer::judge(&self.overseer, &self.trace, measured)
    }

    /// What the overseer looks at.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// A person let the run go on: the count of a signal starts anew ([`Trace::start_anew`]), and so does the one that
    /// `limits.max_same_tool` ends, which the same calls raise.
    pub fn start_anew(&mut self, signal: overseer::Signal, at: u64) {
        self.trace.start_anew(signal, at);
        if signal.is_of_turns() {
            let since = self.trace.answers().saturating_sub(at);
            self.streak.start_anew(u32::try_from(since).unwrap_or(u32::MAX));
            self.progress.same_tool = self.streak.turns();
        }
    }

    pub(super) fn count_streak(&mut self, names: &[&str]) {
        self.streak.add(names);
        self.progress.same_tool = self.streak.turns();
    }

    /// A message was read: what repeats from now on is counted anew.
    pub(super) fn forget_streaks(&mut self) {
        self.streak.clear();
        self.progress.same_tool = 0;
        self.trace.on_message();
    }

    /// Takes the results of a turn, and adds to them what the model is to be warned of.
    pub(super) fn oversee(&mut self, results: &mut Entry) {
        self.trace.on_results(results);
        let warnings = overseer::warnings(&self.overseer, &self.trace);
        let mut texts = note::texts(&warnings);
        texts.extend(self.warning.take());
        if let Some(Block::ToolResult { content, .. }) = results.content.last_mut() {
            content.push_str(&note::of(&texts));
        }
    }

    /// Warns the model of something that does not follow from its turns, with the results of its next turn. A text that the
    /// run has in its history is not repeated.
    pub fn warn(&mut self, text: String) {
        let own = self.history.len().saturating_sub(self.own_entries);
        let is_there =
            |block: &Block| matches!(block, Block::ToolResult { content, .. } if note::has(content, &text));
        if !self.history[own..].iter().flat_map(|entry| &entry.content).any(is_there) {
            self.warning = Some(text);
        }
    }
}

#[cfg(test)]
mod tests;
