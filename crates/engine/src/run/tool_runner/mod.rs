//! [`ToolRunner`]: the tool calls of one turn, from their plans to their results.

mod asking;
mod cells;
mod code;
mod execution;
mod fallback;
mod focus;
mod guard;
mod held;
mod pausing;
mod record;
mod resume;
mod task;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use chrono_tz::Tz;
use houston_domain::budget::Raises;
use houston_domain::guard::{CompiledGrant, DecidedBy, Intent as StatedIntent};
use houston_domain::history::Entry;
use houston_domain::id::MessageId;
use houston_domain::question::Question;
use houston_domain::skill::USE_SKILL;
use houston_domain::skill::entry::read_in;
use houston_domain::step::{Intent, Step};
use houston_domain::tool_call::{EffectClass, ToolCall, ToolErrorCode, ToolResponse};
use houston_faults::mutation::{self, Mutation};
use houston_tools::{CallContext, Offer, Plan, Skills, TaskKind};
use rust_decimal::Decimal;
use serde_json::json;

use self::cells::{add_cells, add_response, cell_of, name_of, title};
use self::execution::{Work, noted, observe};
use self::guard::{Intents, Judged, Judgement};
use self::held::{HeldCall, Others};
use self::record::begin_spans;
use self::resume::Committed;
use crate::error::Interrupted;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;
use crate::setup::Setup;
use crate::setup::guards::Taint;

pub(crate) use self::cells::{Cells, add_tool_result};
pub(crate) use self::execution::{ExternalCall, ToolsOutcome};
pub(crate) use self::held::{Decided, Held};
pub(crate) use self::record::{PendingRecord, WrittenRecords};
pub(crate) use self::resume::{OpenCalls, Resumed};

/// Call ids with their responses.
pub(crate) type Responses = Vec<(String, ToolResponse)>;

/// The tools a run may call.
pub(crate) struct ToolRunner {
    setup: Arc<Setup>,
    /// The tools the run may call, without `read_result`.
    offer: Offer,
    /// The same with `read_result`, for runs that have large results.
    offer_with_results: Offer,
    /// Whether the session has large results, so that `read_result` is offered.
    has_results: bool,
    /// What the session has read.
    taint: Taint,
    /// The skills of the run; `None`: none.
    skills: Option<Arc<Skills>>,
    /// The user's time zone.
    zone: Tz,
    /// What an earlier attempt has committed about the calls of the run: code that is run again reads it.
    recorded: Committed,
    /// What people have added to the budgets.
    pub(crate) raises: Raises,
    /// What calls that ask models may cost which have begun in this turn, in US dollars.
    reserved: Decimal,
    /// The kinds of task the agent may create, once a call has asked.
    task_kinds: OnceLock<Arc<[TaskKind]>>,
    /// What calls may have changed: see [`Self::note_written`].
    written: Vec<String>,
}

/// How the call of a plan's step begins.
#[derive(Debug)]
pub(crate) enum Begin<'q> {
    /// It is judged first.
    New,
    /// A person was asked about it, and has answered.
    Decided(&'q Question),
    /// It was begun before, and has no response.
    Again,
}

/// The calls of a turn after its step was prepared.
pub(crate) enum Prepared<T> {
    /// All calls have a response; the step with them is not committed yet.
    Answered { responses: Responses, records: Option<WrittenRecords<T>> },
    /// Calls are open. Those of `external` act outside of Houston: their intents are to be committed, then they are
    /// executed. Those of `held` wait for a person.
    Open { responses: Responses, external: ExternalCalls, held: Held, records: Option<WrittenRecords<T>> },
}

/// Calls that act outside of Houston and have not been started.
pub(crate) struct ExternalCalls(Vec<ExternalCall>);

impl ExternalCalls {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ToolRunner {
    pub(crate) fn new(
        setup: Arc<Setup>,
        [offer, offer_with_results]: [Offer; 2],
        skills: Option<Skills>,
        has_results: bool,
        taint: Taint,
        zone: Tz,
    ) -> Self {
        let skills = skills.map(Arc::new);
        let recorded = Committed::default();
        let (raises, reserved, task_kinds) = (Raises::default(), Decimal::ZERO, OnceLock::new());
        Self {
            setup,
            offer,
            offer_with_results,
            has_results,
            skills,
            taint,
            zone,
            recorded,
            raises,
            reserved,
            task_kinds,
            written: Vec::new(),
        }
    }

    /// The skills of the run.
    pub(crate) fn skills(&self) -> Option<&Arc<Skills>> {
        self.skills.as_ref()
    }

    /// The names of the tools that may be called.
    pub(crate) fn names(&self) -> Vec<String> {
        self.offer().tools().iter().map(|tool| tool.definition().name.clone()).collect()
    }

    /// Whether a call of this tool that failed for a passing reason is repeated unless its step says otherwise.
    pub(crate) fn is_retried(&self, tool: &str) -> bool {
        let effect = self.offer().get(tool).map(|tool| tool.definition().effect);
        matches!(effect, Some(EffectClass::Read | EffectClass::Idempotent))
    }

    /// The tools the model is offered now.
    pub(crate) fn offer(&self) -> &Offer {
        if self.has_results { &self.offer_with_results } else { &self.offer }
    }

    /// The responses to those calls whose expressions take more than an evaluation may.
    pub(crate) async fn try_expressions<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        calls: &[ToolCall],
    ) -> HashMap<String, ToolResponse> {
        let mut refused = HashMap::new();
        for call in calls {
            if !self.offer().get(&call.name).is_some_and(|tool| tool.takes_expressions()) {
                continue;
            }
            if let Err(problem) = houston_meter::try_expressions(journal.owner.tenant.0, &call.input).await {
                let text = format!("{}: mend the plan and call this again:\n{problem}", call.name);
                refused.insert(call.id.clone(), ToolResponse::failure(ToolErrorCode::ValidationError, text));
            }
        }
        refused
    }

    /// Plans the calls of a turn. Calls beyond `max_tool_calls` are `refused`, and those beyond `left`, which the run may still
    /// make. `said`: the text beside the calls, which may say what they are for. `history`: that of the session, in which the user may have written their addresses.
    pub(crate) fn plan<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        calls: &[ToolCall],
        (said, left): (&str, usize),
        history: &[Entry],
        mut refused: HashMap<String, ToolResponse>,
    ) -> Plans {
        let intents = Intents::of(said, calls);
        let mut plans = Plans::default();
        let most = journal.services.config.context.max_tool_calls;
        for (nth, call) in calls.iter().enumerate() {
            if nth >= most.min(left) {
                let reason = if nth >= left {
                    "not executed: the run has made all the calls it may make".to_owned()
                } else {
                    format!("not executed: a turn may have {most} calls. Call this tool again.")
                };
                let refused = ToolResponse::failure(ToolErrorCode::RateLimited, reason);
                plans.answered.push((call.id.clone(), refused));
                continue;
            }
            if let Some(response) = refused.remove(&call.id) {
                plans.answered.push((call.id.clone(), response));
                continue;
            }
            self.plan_call(journal, call, intents.of_call(nth), (history, &[]), &mut plans);
        }
        plans
    }

    /// Plans the call of a plan's step. Its intent and its response are rows of the plan's steps, not of the history.
    pub(crate) async fn plan_step<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        call: ToolCall,
        begin: Begin<'_>,
    ) -> Result<Plans, Interrupted> {
        self.taint.add(&self.setup, &self.offer_with_results, &call.name);
        let (mut plans, mut calls) = (Plans::default(), vec![call.clone()]);
        match begin {
            Begin::New => {
                self.plan_call(journal, &call, None, (&[], &[]), &mut plans);
                self.grant_held(journal, &mut plans, |_| None, &[]).await?;
            }
            Begin::Decided(question) => {
                // No model reads that the arguments were changed, and expressions read the result.
                let decided = Decided::by(question, call.clone()).without_note();
                (plans, calls) = self.plan_decided(journal, [(call, decided)], |_| None);
            }
            Begin::Again => plans.external.push(self.repeat(journal, call, None, None, None)),
        }
        self.note_written(journal, &calls);
        if let Some(external) = plans.external.pop() {
            match external.work.is_code() {
                true => plans.answered.push((external.call.id, not_for_plans(&external.call.name))),
                false => plans.external.push(self.with_material(journal, external).await?),
            }
        }
        Ok(plans)
    }

    /// Plans a call that the guards allow, or refuse, or hold until a person allows it.
    fn plan_call<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        call: &ToolCall,
        intent: Option<&StatedIntent>,
        (history, grants): (&[Entry], &[CompiledGrant]),
        plans: &mut Plans,
    ) {
        let Judged { call: limited, judgement, by, note } =
            self.judge(journal, call, intent, history, grants);
        plans.decided_by.extend(by.map(|by| (call.id.clone(), by)));
        if let Judgement::Refuse(response) = judgement {
            return plans.answered.push((limited.id, response));
        }
        let mut context = self.call_context(journal, &limited);
        if let Some(skills) = context.skills.as_mut().filter(|_| limited.name == USE_SKILL) {
            *skills = Arc::new(skills.having_read(read_in(history, &journal.mark)));
        }
        let plan = self.offer().plan(&limited, &context);
        let judgement = match (judgement, &plan) {
            (Judgement::Allow, Plan::Record(record)) => {
                record.asks().map_or(Judgement::Allow, |why| Judgement::Hold { why, lasting: false })
            }
            (judgement, _) => judgement,
        };
        match judgement {
            // A call that fails already, because its arguments are wrong, needs no approval.
            Judgement::Hold { why, lasting } if !matches!(&plan, Plan::Answer(response) if !response.is_success()) =>
            {
                plans.held.push(HeldCall::new(journal, call.clone(), (why, lasting), plan));
            }
            _ => {
                let plan = self.failing_later(journal, &limited.name, plan);
                plans.add(journal, limited, context, plan, (note, intent));
            }
        }
    }

    /// What a tool is given besides its arguments.
    fn call_context<S: RunStorage>(&self, journal: &Journal<'_, S>, call: &ToolCall) -> CallContext {
        let (agentable, run) = (journal.agentable(), journal.run());
        CallContext {
            tenant: journal.owner.tenant,
            agentable,
            user: journal.owner.user,
            run,
            idempotency_key: call.idempotency_key(agentable, run),
            now: journal.now(),
            zone: self.zone,
            tasks: self.task_kinds(journal),
            reached: Arc::clone(&self.setup.reached),
            guards: Arc::clone(&self.setup.guards),
            skills: self.skills.clone(),
            files: journal.command_files(),
            // A child token: a tool that cancels it does not cancel the run.
            stop: journal.signals.cancel().child_token(),
            progress: cells::progress_of(journal),
        }
    }

    /// Adds the calls of a turn to its step: their cells, the questions about those that a person must allow, and the results
    /// that need no action outside. Rows of Houston's own tables are written, but not committed yet.
    pub(crate) async fn prepare<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        mut plans: Plans,
        calls: &[ToolCall],
    ) -> Result<Prepared<S::Transaction>, Interrupted> {
        let cells = add_cells(journal, step, calls, &mut plans);
        // What this turn reads, the next one may send out.
        for call in calls {
            self.taint.add(&self.setup, &self.offer_with_results, &call.name);
        }
        let held = self.ask(journal, step, std::mem::take(&mut plans.held), &cells).await?;
        let others = Others { held, are_open: false, keep_whole: false };
        self.carry_out(journal, step, plans, calls, &cells, others).await
    }

    /// Adds what `calls` do to the step, and the results there are. `cells` are the thread messages of the calls. While
    /// others are open, the turn stays open, and the responses are kept for a worker that takes the run over.
    async fn carry_out<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        mut plans: Plans,
        calls: &[ToolCall],
        cells: &Cells,
        others: Others,
    ) -> Result<Prepared<S::Transaction>, Interrupted> {
        let Others { held, are_open, keep_whole } = others;
        let mut responses = Responses::with_capacity(calls.len());
        observe(journal, calls, &plans.answered, &mut Vec::new());
        for (call, response) in plans.answered {
            let response = match keep_whole {
                true => cut(journal, response),
                false => self.store_large_result(journal, step, name_of(calls, &call), &call, response),
            };
            responses.push((call, response));
        }
        let stays_open = are_open || held.is_open() || !plans.external.is_empty();
        if stays_open {
            let begun = std::mem::take(&mut plans.begun);
            for call in &begun {
                step.pauses.push((call.clone(), None));
                let goes_on = plans.external.iter().any(|external| external.call.id == *call);
                let cell = cell_of(cells, call).filter(|_| goes_on);
                step.cells.extend(cell.map(|cell| (cell, json!({"status": "started"}))));
            }
            let not_new = |call: &str| held.has(call) || begun.iter().any(|of| of == call);
            self.add_intents(step, &mut plans.external, calls, cells, not_new, journal.next_message);
        }
        let records = if plans.recorded.is_empty() {
            None
        } else {
            let mut begun = begin_spans(journal, calls, &mut plans.recorded);
            let (records, written) = self.write_records(journal, plans.recorded).await?;
            records.add_task_events(step, cells);
            observe(journal, calls, &written, &mut begun);
            for (call, response) in written {
                self.taint.add_result(response.text());
                let response = match keep_whole {
                    true => response,
                    false => self.store_large_result(journal, step, name_of(calls, &call), &call, response),
                };
                responses.push((call, response));
            }
            Some(records)
        };
        if stays_open {
            for (call, response) in &responses {
                add_response(step, call, response, cells);
            }
            return Ok(Prepared::Open { responses, external: ExternalCalls(plans.external), held, records });
        }
        for call in calls {
            let response = responses.iter().find(|(id, _)| *id == call.id).map(|(_, response)| response);
            if let (Some(response), Some(cell)) = (response, cell_of(cells, &call.id)) {
                add_tool_result(step, &call.id, cell, response);
            }
        }
        Ok(Prepared::Answered { responses, records })
    }

    /// Adds an intent for every call of a turn that stays open, except for those that wait for a person and those that have
    /// one: `not_new`.
    fn add_intents(
        &self,
        step: &mut Step,
        external: &mut [ExternalCall],
        calls: &[ToolCall],
        cells: &Cells,
        not_new: impl Fn(&str) -> bool,
        reply: MessageId,
    ) {
        for call in external.iter_mut() {
            call.cell = cell_of(cells, &call.call.id);
        }
        for call in calls.iter().filter(|call| !not_new(&call.id)) {
            let external = external.iter().find(|external| external.call.id == call.id);
            let effect = external
                .and_then(|external| self.offer().get(&external.call.name))
                .map_or(EffectClass::Idempotent, |tool| tool.definition().effect);
            step.intents.push(Intent {
                call: call.id.clone(),
                name: call.name.clone(),
                effect,
                cell: cell_of(cells, &call.id).unwrap_or(reply),
            });
        }
        if mutation::is(Mutation::Intent) {
            step.intents.clear();
        }
    }
}

/// What a call answers that a step of a plan must not make.
fn not_for_plans(tool: &str) -> ToolResponse {
    let reason = format!("{tool} waits or runs code, so it cannot be a step of a plan: call it directly");
    ToolResponse::failure(ToolErrorCode::ValidationError, reason)
}

/// A tool's response, cut to `max_tool_result_bytes` and without the mark of frames.
fn cut<S: RunStorage>(journal: &Journal<'_, S>, response: ToolResponse) -> ToolResponse {
    let unmarked = match journal.mark.remove_mark(response.text()) {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    };
    let response = match unmarked {
        Some(text) => response.map_text(|_| text),
        None => response,
    };
    response.cut(journal.services.config.context.max_tool_result_bytes)
}

/// The calls of one turn, or of a plan's step, grouped by how they are executed.
#[derive(Default)]
pub(crate) struct Plans {
    /// Calls whose response is known without executing anything.
    pub(crate) answered: Responses,
    /// Calls that write rows of Houston's own tables.
    pub(crate) recorded: Vec<PendingRecord>,
    /// Calls that act outside of Houston.
    pub(crate) external: Vec<ExternalCall>,
    /// Calls that a person must allow first.
    pub(crate) held: Vec<HeldCall>,
    /// Calls that have begun and go on, or have ended.
    begun: Vec<String>,
    /// What decided about the calls.
    decided_by: Vec<(String, DecidedBy)>,
    /// The contents of the messages to the user.
    pub(crate) messages: Vec<String>,
}

impl Plans {
    /// Adds what a call does. `note`: what the model reads before its result.
    fn add<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        call: ToolCall,
        context: CallContext,
        plan: Plan,
        (note, intent): (Option<String>, Option<&StatedIntent>),
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
        intent: Option<&StatedIntent>,
    ) {
        let intent = intent.cloned();
        self.external.push(ExternalCall { call, context, cell: None, work, note, intent, fallback: None });
    }

    /// Whether a lasting yes may answer the question about a held call.
    fn may_be_granted(&self) -> bool {
        self.held.iter().any(|held| held.lasting)
    }

    /// Adds the calls of other plans, which are judged.
    fn extend(&mut self, other: Self) {
        self.answered.extend(other.answered);
        self.recorded.extend(other.recorded);
        self.external.extend(other.external);
        self.begun.extend(other.begun);
        self.messages.extend(other.messages);
    }
}
