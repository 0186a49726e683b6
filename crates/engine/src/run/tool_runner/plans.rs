//! [`Plans`]: what the calls of a turn will do.

use houston_domain::guard::{DecidedBy, Intent};
use houston_domain::tool_call::ToolCall;
use houston_tools::{CallContext, Plan};

use super::call::{ExternalCall, Work, noted};
use super::held::HeldCall;
use super::record::PendingRecord;
use super::{Responses, cut};
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// The calls of one turn, grouped by how they are executed.
#[derive(Default)]
pub(crate) struct Plans {
    /// Calls whose response is known without executing anything.
    pub(super) answered: Responses,
    /// Calls that write rows of Houston's own tables.
    pub(super) recorded: Vec<PendingRecord>,
    /// Calls that act outside of Houston.
    pub(super) external: Vec<ExternalCall>,
    /// Calls that a person must allow first.
    pub(super) held: Vec<HeldCall>,
    /// Calls that have begun and go on, or have ended.
    pub(super) begun: Vec<String>,
    /// What decided about the calls.
    pub(super) decided_by: Vec<(String, DecidedBy)>,
    /// The contents of the messages to the user.
    pub(crate) messages: Vec<String>,
}

impl Plans {
    /// Adds what a call does. `note`: what the model reads before its result.
    pub(super) fn add<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        call: ToolCall,
        context: CallContext,
        plan: Plan,
        (note, intent): (Option<String>, Option<&Intent>),
    ) {
        match plan {
            Plan::Answer(response) => {
                self.answered.push((call.id, cut(journal, noted(response, note.as_deref()))));
            }
            Plan::Message { content, response } => {
                self.answered.push((call.id, response));
                self.messages.push(content);
            }
            Plan::Record(record) => self.recorded.push(PendingRecord::new(journal, call.id, record, note)),
            Plan::Execute(work) => self.add_external(call, context, Work::Execute(work), note, intent),
            Plan::Begin(work) => self.add_external(call, context, Work::Begin(work), note, intent),
            Plan::Ask(ask) => self.add_external(call, context, Work::Ask(ask), note, intent),
            Plan::Code(code) => self.add_external(call, context, Work::Code(code), note, intent),
        }
    }

    fn add_external(
        &mut self,
        call: ToolCall,
        context: CallContext,
        work: Work,
        note: Option<String>,
        intent: Option<&Intent>,
    ) {
        let intent = intent.cloned();
        self.external.push(ExternalCall { call, context, cell: None, work, note, intent, fallback: None });
    }

    /// Whether a lasting yes may answer the question about a held call.
    pub(super) fn may_be_granted(&self) -> bool {
        self.held.iter().any(|held| held.lasting)
    }

    /// Adds the calls of other plans, which are judged.
    pub(super) fn extend(&mut self, other: Self) {
        self.answered.extend(other.answered);
        self.recorded.extend(other.recorded);
        self.external.extend(other.external);
        self.begun.extend(other.begun);
        self.messages.extend(other.messages);
    }
}
