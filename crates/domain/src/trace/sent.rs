//! The history that the model was sent before each of its answers.

use super::checkpoint::summary;
use super::{Line, Trace};
use crate::history::Entry;

impl Trace {
    /// What the model was sent for its answer `nth` (the first one is 1): entries from before the run and of the run, with a
    /// summary in the place of what was compressed. `None`: there is no such answer. A trace has neither the system prompt nor
    /// what is sent after the history.
    #[must_use]
    pub fn history_before_answer(&self, nth: usize) -> Option<Vec<Entry>> {
        let mut history: Vec<Entry> = Vec::new();
        // How many entries a summary replaces.
        let mut compressed = self.header.compressed.as_ref().map(|of| (of.entries, summary(&of.summary)));
        let mut answers = 0;
        for line in &self.lines {
            match line {
                Line::Before(entry) => history.push(entry.clone()),
                Line::Message { content, .. } | Line::Results { content, .. } => {
                    history.push(Entry::user(content.clone()));
                }
                Line::Answer { content, .. } => {
                    answers += 1;
                    if answers == nth {
                        if let Some((entries, summary)) = compressed {
                            history.splice(..entries.min(history.len()), [summary]);
                        }
                        return Some(history);
                    }
                    if !content.is_empty() {
                        history.push(Entry::assistant(content.clone()));
                    }
                }
                Line::Compressed { summary: text, remaining, .. } => {
                    compressed = Some((history.len().saturating_sub(*remaining), summary(text)));
                }
                Line::Tool { .. } | Line::Plan(_) | Line::Step(_) | Line::Advance(_) | Line::Event { .. } => {
                }
            }
        }
        None
    }
}
