//! Continuing the open calls of a run that was taken over, each as its effect class allows.

use houston_domain::id::MessageId;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolResponse};
use houston_faults::mutation::{self, Mutation};
use houston_store::history::CommittedIntent;
use houston_tools::Plan;

use super::call::{ExternalCall, Work};
use super::{Cells, ExternalCalls, Responses, ToolRunner};
use crate::error::Interrupted;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// Open calls whose intents were committed: those with a response, and the cells of the others.
pub(crate) struct OpenCalls {
    pub(crate) responses: Responses,
    pub(crate) cells: Cells,
}

impl OpenCalls {
    /// Reads the calls of the run from Postgres.
    ///
    /// # Errors
    /// As [`Journal::retrying`].
    pub(crate) async fn read<S: RunStorage>(journal: &Journal<'_, S>) -> Result<Self, Interrupted> {
        let run = journal.run();
        let (mut responses, mut cells) = (Responses::new(), Cells::new());
        let intents = journal.retrying(|storage| storage.committed_intents(run)).await?;
        for (call, CommittedIntent { cell, response }) in intents {
            match response {
                Some(response) => responses.push((call, response)),
                None => cells.push((call, cell)),
            }
        }
        Ok(Self { responses, cells })
    }
}

impl ToolRunner {
    /// How the open calls of a run that was taken over continue: what is to be executed, and the responses there are.
    ///
    /// # Errors
    /// As [`Journal::retrying`].
    pub(crate) async fn resume<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        calls: Vec<ToolCall>,
    ) -> Result<(ExternalCalls, Responses), Interrupted> {
        let run = journal.run();
        let intents = journal.retrying(|storage| storage.committed_intents(run)).await?;
        let (mut responses, mut external) = (Responses::new(), Vec::new());
        for call in calls {
            match intents.get(&call.id) {
                Some(CommittedIntent { response: Some(response), .. }) => {
                    responses.push((call.id.clone(), response.clone()));
                }
                Some(CommittedIntent { cell, .. }) => external.push(self.repeat(journal, call, *cell)),
                None if mutation::is(Mutation::Intent) => external.extend(self.execute_again(journal, call)),
                // Cannot happen: an entry and its intents are one commit. If it did, the call must not be repeated.
                None => responses.push((call.id.clone(), ToolResponse::outcome_unknown())),
            }
        }
        Ok((ExternalCalls(external), responses))
    }

    /// How a call whose outcome is unknown after a crash is executed, by its effect class.
    fn repeat<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        call: ToolCall,
        cell: MessageId,
    ) -> ExternalCall {
        let context = self.call_context(journal, &call);
        let effect =
            self.offer().get(&call.name).map_or(EffectClass::Effect, |tool| tool.definition().effect);
        let work = match effect {
            EffectClass::Effect => Work::unknown(),
            EffectClass::Checkable => Work::Check,
            EffectClass::Read | EffectClass::Idempotent => match self.offer().plan(&call, &context) {
                Plan::Execute(work) => Work::Execute(work),
                Plan::Answer(response) => Work::answered(response),
                Plan::Record(_) | Plan::Message { .. } => Work::unknown(),
            },
        };
        ExternalCall { call, context, cell: Some(cell), work }
    }

    /// Executes a call as if it had never started. Only for tests with the mutation `Intent`.
    fn execute_again<S: RunStorage>(&self, journal: &Journal<'_, S>, call: ToolCall) -> Option<ExternalCall> {
        let context = self.call_context(journal, &call);
        match self.offer().plan(&call, &context) {
            Plan::Execute(work) => {
                Some(ExternalCall { call, context, cell: None, work: Work::Execute(work) })
            }
            Plan::Answer(_) | Plan::Record(_) | Plan::Message { .. } => None,
        }
    }
}
