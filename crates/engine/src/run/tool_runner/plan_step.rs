//! Calls of tools that are steps of a plan. Their intents and responses are rows of the plan's steps, not of the history.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolErrorCode, ToolResponse};
use houston_tools::{Acted, Plan};

use super::execution::{ExternalCall, Work};
use super::record::{PendingRecord, WrittenRecords};
use super::{Plans, Responses, ToolRunner, cut};
use crate::error::Interrupted;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// How a call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It is judged first.
    New,
    /// A person has allowed it.
    Allowed,
    /// It was begun before, and has no response.
    Again,
}

/// What a call comes to.
pub(crate) enum StepCall {
    /// It has its response.
    Answered(ToolResponse),
    /// It writes rows of Houston's own tables.
    Record(StepRecord),
    /// It acts outside of Houston.
    External(StepWork),
    /// A person must allow it first, for this reason.
    Held(String),
}

/// A call that writes rows with the step that has its response.
pub(crate) struct StepRecord(PendingRecord);

/// A call that acts outside of Houston and has not been started.
pub(crate) struct StepWork(Box<ExternalCall>);

impl ToolRunner {
    /// The names of the tools that may be called.
    pub(crate) fn names(&self) -> Vec<String> {
        self.offer().tools().iter().map(|tool| tool.definition().name.clone()).collect()
    }

    /// Whether another worker may execute a call of this tool again.
    pub(crate) fn may_repeat(&self, tool: &str) -> bool {
        self.offer().get(tool).is_some_and(|tool| tool.definition().effect != EffectClass::Effect)
    }

    /// Whether a call of this tool that failed for a passing reason is repeated unless its step says otherwise.
    pub(crate) fn is_retried(&self, tool: &str) -> bool {
        let effect = self.offer().get(tool).map(|tool| tool.definition().effect);
        matches!(effect, Some(EffectClass::Read | EffectClass::Idempotent))
    }

    /// Prepares the call of a step.
    pub(crate) async fn step_call<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        call: ToolCall,
        begin: Begin,
    ) -> Result<StepCall, Interrupted> {
        self.taint.add(&self.setup, &self.offer_with_results, &call.name);
        self.note_written(journal, std::slice::from_ref(&call));
        let mut plans = Plans::default();
        match begin {
            Begin::New => self.plan_call(journal, &call, None, (&[], &[]), &mut plans),
            Begin::Allowed => {
                let (call, note) = self.limited(call);
                let context = self.call_context(journal, &call);
                let plan = self.offer().plan(&call, &context);
                plans.add(journal, call, context, plan, (note, None));
            }
            Begin::Again => plans.external.push(self.again(journal, call)),
        }
        if let Some(held) = plans.held.pop() {
            return Ok(StepCall::Held(held.why));
        }
        if let Some((_, response)) = plans.answered.pop() {
            return Ok(StepCall::Answered(response));
        }
        if let Some(record) = plans.recorded.pop() {
            return Ok(StepCall::Record(StepRecord(record)));
        }
        let Some(external) = plans.external.pop() else {
            return Ok(StepCall::Answered(ToolResponse::outcome_unknown()));
        };
        if external.work.is_code() {
            return Ok(StepCall::Answered(not_for_plans(&external.call.name)));
        }
        self.with_material(journal, external).await.map(|call| StepCall::External(StepWork(Box::new(call))))
    }

    /// A call that was begun before, as its effect class allows.
    fn again<S: RunStorage>(&self, journal: &Journal<'_, S>, call: ToolCall) -> ExternalCall {
        let (call, note) = self.limited(call);
        let context = self.call_context(journal, &call);
        let effect =
            self.offer().get(&call.name).map_or(EffectClass::Effect, |tool| tool.definition().effect);
        let work = match effect {
            EffectClass::Effect => Work::unknown(),
            EffectClass::Checkable => Work::Check,
            EffectClass::Read | EffectClass::Idempotent => match self.offer().plan(&call, &context) {
                Plan::Execute(work) => Work::Execute(work),
                Plan::Begin(work) => Work::Begin(work),
                Plan::Ask(ask) => Work::Ask(ask),
                Plan::Answer(response) => Work::answered(response),
                Plan::Code(_) | Plan::Record(_) | Plan::Message { .. } => Work::unknown(),
            },
        };
        ExternalCall { call, context, cell: None, work, note, intent: None, fallback: None }
    }

    /// Starts a call whose intent is committed.
    pub(crate) fn start_step<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        StepWork(call): StepWork,
    ) -> BoxFuture<'static, ToolResponse> {
        let name = call.call.name.clone();
        let running = self.start_call(journal, *call, None);
        let metrics = Arc::clone(&journal.services.metrics);
        async move {
            let returned = running.await;
            let response = match returned.acted {
                Acted::Done(response) => response,
                Acted::Paused(_) => not_for_plans(&name),
            };
            metrics.tools.answered(&response);
            response
        }
        .boxed()
    }

    /// Writes rows for calls in a transaction behind the fence. Returns it, with the response to each call.
    pub(crate) async fn write_step_records<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        records: Vec<StepRecord>,
    ) -> Result<(WrittenRecords<S::Transaction>, Responses), Interrupted> {
        self.write_records(journal, records.into_iter().map(|StepRecord(record)| record).collect()).await
    }

    /// The response as the plan keeps it.
    pub(crate) fn step_response<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        response: ToolResponse,
    ) -> ToolResponse {
        self.taint.add_result(response.text());
        cut(journal, response)
    }

    /// What an executor returned was read.
    pub(crate) fn read_untrusted(&mut self) {
        self.taint.add_untrusted();
    }
}

fn not_for_plans(tool: &str) -> ToolResponse {
    let reason = format!("{tool} waits or runs code, so it cannot be a step of a plan: call it directly");
    ToolResponse::failure(ToolErrorCode::ValidationError, reason)
}
