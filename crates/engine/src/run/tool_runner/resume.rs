//! Continuing the open calls of a run: of one that was taken over, and of one that waited for a person.

use std::collections::HashMap;

use houston_domain::code_call;
use houston_domain::question::{Question, QuestionState};
use houston_domain::tool_call::{PausedCall, ToolCall, ToolResponse};
use houston_faults::mutation::{self, Mutation};
use houston_store::history::CommittedIntent;

use super::cells::cell_of;
use super::guard::Intents;
use super::held::{Held, WaitingCall, cell_asked};
use super::{Cells, Made, Origin, Plans, Responses, ToolRunner};
use crate::error::Result;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// Open calls of a turn.
#[derive(Default)]
pub(crate) struct OpenCalls {
    /// The responses there are.
    pub(crate) responses: Responses,
    /// The cells of calls that were started.
    pub(crate) cells: Cells,
    /// The cells of calls that waited for a person: they were not started.
    pub(crate) held: Cells,
    /// What calls have begun that have paused.
    pub(crate) paused: Vec<PausedCall>,
}

impl OpenCalls {
    /// Reads what is committed about `calls`, and about those that code has made which they run, from Postgres.
    pub(crate) async fn read<S: RunStorage>(journal: &Journal<'_, S>, calls: &[ToolCall]) -> Result<Self> {
        let committed = Committed::read(journal).await?;
        let mut open = Self::default();
        for ToolCall { id, .. } in calls {
            open.add(id, committed.about(id));
        }
        let mut of_code: Vec<&str> = committed.ids().collect();
        of_code.sort_unstable();
        of_code.dedup();
        of_code.retain(|id| calls.iter().any(|call| code_call::is_within(id, &call.id)));
        for id in of_code {
            match committed.about(id) {
                Made::Answered(_) => {}
                Made::Asked(question) if question.state != QuestionState::Open => {}
                made => open.add(id, made),
            }
        }
        Ok(open)
    }

    fn add(&mut self, call: &str, made: Made) {
        let call = call.to_owned();
        match made {
            Made::Answered(response) => self.responses.push((call, response)),
            Made::Started(cell, _) => self.cells.extend(cell.map(|cell| (call, cell))),
            Made::Paused(cell, paused, _) => {
                self.paused.push(paused);
                self.cells.push((call, cell));
            }
            Made::Asked(question) => self.held.extend(cell_asked(&question).map(|cell| (call, cell))),
            Made::No | Made::Refused(_) => {}
        }
    }

    /// Calls that were stopped, with those that waited.
    pub(super) fn stopped(responses: Responses, cells: Cells, waiting: Held) -> Self {
        let mut open = Self { responses, cells, ..Self::default() };
        for WaitingCall { call, cell, paused, .. } in waiting.calls {
            match paused {
                None => open.held.push((call, cell)),
                Some(paused) => {
                    open.paused.push(paused);
                    if cell_of(&open.cells, &call).is_none() {
                        open.cells.push((call, cell));
                    }
                }
            }
        }
        open
    }
}

/// What is committed about the calls of a run.
#[derive(Debug, Default)]
pub(super) struct Committed {
    pub(super) intents: HashMap<String, CommittedIntent>,
    questions: Vec<Question>,
}

impl Committed {
    /// What is committed about a call.
    pub(super) fn about(&self, call: &str) -> Made {
        let find = |is: &dyn Fn(&Question) -> bool| {
            self.questions.iter().find(|question| is(question)).cloned().map(Box::new)
        };
        let is_approval = |question: &Question| {
            question.asked.approval.is_some() && question.asked.subject.as_deref() == Some(call)
        };
        match self.intents.get(call) {
            Some(CommittedIntent { response: Some(response), .. }) => Made::Answered(response.clone()),
            Some(CommittedIntent { cell, paused: Some(paused), .. }) => {
                let question = find(&|question| Some(question.asked.id) == paused.question);
                Made::Paused(*cell, paused.clone(), question)
            }
            Some(CommittedIntent { cell, .. }) => Made::Started(Some(*cell), find(&is_approval)),
            None => find(&is_approval).map_or(Made::No, Made::Asked),
        }
    }

    /// The ids of the calls that something is committed about.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        let asked = self.questions.iter().filter_map(|question| question.asked.subject.as_deref());
        self.intents.keys().map(String::as_str).chain(asked)
    }

    async fn read<S: RunStorage>(journal: &Journal<'_, S>) -> Result<Self> {
        let run = journal.run();
        let intents = journal.retrying(|storage| storage.committed_intents(run)).await?;
        Ok(Self { intents, questions: journal.questions().await? })
    }
}

impl ToolRunner {
    /// How the open calls of a turn go on. `said`: the text beside the calls.
    pub(crate) async fn resume<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        calls: Vec<ToolCall>,
        said: &str,
    ) -> Result<Plans> {
        self.recorded = Committed::read(journal).await?;
        let origin = Origin::Turn { intents: Intents::of(said, &calls), history: &[] };
        let made = |call: ToolCall| {
            let made = match self.recorded.about(&call.id) {
                Made::No if mutation::is(Mutation::Intent) => Made::Started(None, None),
                // Cannot happen: an entry and its intents are one commit. If it did, the call must not be repeated.
                Made::No => Made::Answered(ToolResponse::outcome_unknown()),
                made => made,
            };
            (call, made)
        };
        let calls = calls.into_iter().map(made).collect();
        self.plan(journal, &origin, calls).await
    }
}
