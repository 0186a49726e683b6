//! Answers in a form that was asked for: one JSON value that fits a schema, or a call of a client's tool. An answer that does
//! not fit goes back to the model with what is wrong, [`MAX_MENDS`] times; what was wrong is in the history, so a worker that
//! takes the run over goes on counting.

use houston_domain::agent::TurnOutcome;
use houston_domain::error_message::RESULT_MISMATCH;
use houston_domain::frame::{MessageBlock, element, escape};
use houston_domain::history::{Block, Entry, Role};
use houston_domain::model::{ModelAnswer, StopReason};
use houston_llm::read_result;

use super::{Flow, RunDriver};
use crate::run::journal::add_message;
use crate::run::storage::RunStorage;
use crate::setup::{Wanted, answer_schema};

/// How often a model is asked to mend its answer.
const MAX_MENDS: usize = 2;
/// The frame that says what is wrong with an answer.
const FRAME: &str = "result_mismatch";

/// What becomes of an answer.
pub(super) enum Judged {
    /// It is kept: it has the form, or no form was asked for.
    Kept,
    /// The model is asked to mend it.
    Mend(MessageBlock),
    /// It is still wrong, for this reason.
    Wrong(String),
}

impl<S: RunStorage> RunDriver<'_, S> {
    /// Judges the answer with which the run would end. A text that only wraps its value becomes the value; text beside calls is
    /// no answer.
    pub(super) fn judge(&mut self, turn: &mut TurnOutcome, stop: StopReason) -> Judged {
        let output = &self.setup.wanted.output;
        let must_call = self.must_call();
        if output.is_none() && must_call.is_empty() {
            return Judged::Kept;
        }
        if !turn.calls.is_empty() {
            turn.reply = None;
            return Judged::Kept;
        }
        let Some(reply) = &mut turn.reply else { return Judged::Kept };
        let reason = match output {
            _ if !must_call.is_empty() => format!("it calls none of the tools {}", must_call.join(", ")),
            Some(output) => match read_result(&answer_schema(output), reply, stop).map(str::to_owned) {
                Ok(json) => {
                    self.journal.result = serde_json::from_str(&json).ok();
                    *reply = json;
                    return Judged::Kept;
                }
                Err(reason) => reason,
            },
            None => return Judged::Kept,
        };
        let own = self.run.own_history();
        let start = self.journal.mark.start(FRAME);
        let is_mend = |block: &Block| matches!(block, Block::Text { text, .. } if text.starts_with(&start));
        let is_asked = |entry: &&Entry| entry.role == Role::User && entry.content.iter().any(is_mend);
        if own.iter().filter(is_asked).count() >= MAX_MENDS {
            return Judged::Wrong(reason);
        }
        let form =
            if must_call.is_empty() { "with the JSON object only" } else { "with a call of one of them" };
        let text = format!("Your answer is not what was asked for: {reason}. Answer again {form}.");
        Judged::Mend(MessageBlock { text: element(FRAME, &format!("\n{}\n", escape(&text))), frame: true })
    }

    /// The client's tools of which one must be called. None after a call of one that failed, such as one that the client left
    /// without an answer until it expired: the model would wait for the client again and again.
    pub(super) fn must_call(&self) -> &[String] {
        let Wanted { must_call, .. } = &self.setup.wanted;
        let own = self.run.own_history();
        let failed = own.iter().flat_map(|entry| &entry.content).filter_map(|block| match block {
            Block::ToolResult { tool_use_id, is_error: true, .. } => Some(tool_use_id),
            _ => None,
        });
        let failed: Vec<&String> = failed.collect();
        let is_failed = |block: &Block| match block {
            Block::ToolUse { id, name, .. } => failed.contains(&id) && must_call.contains(name),
            _ => false,
        };
        let is_over = !failed.is_empty() && own.iter().flat_map(|entry| &entry.content).any(is_failed);
        if is_over { &[] } else { must_call }
    }

    /// Leaves out of an answer what it calls of the client's tools besides the first, if the client wants one call at once.
    pub(super) fn keep_one_call(&self, answer: &mut ModelAnswer) {
        let of = &self.setup.wanted.one_call_of;
        let mut calls = 0;
        answer.content.retain(|block| match block {
            Block::ToolUse { name, .. } if of.contains(name) => {
                calls += 1;
                calls == 1
            }
            _ => true,
        });
    }

    /// Ends the run whose answer is still wrong. The text is kept.
    pub(super) async fn end_mismatched(&mut self, turn: TurnOutcome, reason: String) -> Flow {
        let mut step = self.journal.next_step();
        step.entries.extend(turn.entry);
        if let Some(reply) = turn.reply {
            add_message(&mut step, self.journal.next_message, self.model.shown(&reply), self.label());
        }
        let text = format!("the answer does not fit the schema that was asked for: {reason}");
        let notice = houston_domain::error_message::user_text(RESULT_MISMATCH);
        self.terminate(step, RESULT_MISMATCH, notice, text).await
    }
}
