//! Continuing the open calls of a run: of one that was taken over, each call as its effect class allows; and calls that
//! waited for a person.

use std::collections::HashMap;

use houston_domain::code_call;
use houston_domain::guard::Intent;
use houston_domain::id::MessageId;
use houston_domain::question::{Question, QuestionState, approval, input};
use houston_domain::step::Step;
use houston_domain::tool_call::PausedCall;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolResponse};
use houston_faults::mutation::{self, Mutation};
use houston_store::history::CommittedIntent;
use houston_tools::{Paused, Plan};

use super::execution::{ExternalCall, Work};
use super::guard::{Intents, Judged, Judgement};
use super::held::{Decided, DecidedCall, Held, cell_asked, question_of};
use super::pausing::Resuming;
use super::{Cells, ExternalCalls, Others, Plans, Prepared, Responses, ToolRunner, cut};
use crate::error::Interrupted;
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
    /// Reads what is committed about `calls` from Postgres.
    pub(crate) async fn read<S: RunStorage>(
        journal: &Journal<'_, S>,
        calls: &[ToolCall],
    ) -> Result<Self, Interrupted> {
        let Committed { mut intents, questions } = Committed::read(journal).await?;
        let mut open = Self::default();
        for ToolCall { id, .. } in calls {
            match (intents.remove(id), question_of(&questions, id)) {
                (Some(CommittedIntent { response: Some(response), .. }), _) => {
                    open.responses.push((id.clone(), response));
                }
                (Some(CommittedIntent { cell, paused, .. }), _) => {
                    open.paused.extend(paused);
                    open.cells.push((id.clone(), cell));
                }
                (None, Some(question)) => {
                    open.held.extend(cell_asked(question).map(|cell| (id.clone(), cell)));
                }
                (None, None) => {}
            }
        }
        open.add_made_by_code(calls, intents, &questions);
        Ok(open)
    }

    /// Adds what code has called that `calls` run: `intents` are those of other calls.
    fn add_made_by_code(
        &mut self,
        calls: &[ToolCall],
        intents: HashMap<String, CommittedIntent>,
        questions: &[Question],
    ) {
        let is_made = |id: &str| calls.iter().any(|call| code_call::is_within(id, &call.id));
        for question in questions.iter().filter(|question| question.state == QuestionState::Open) {
            let id = question.asked.subject.as_deref().filter(|id| is_made(id) && !intents.contains_key(*id));
            self.held.extend(id.map(str::to_owned).zip(cell_asked(question)));
        }
        let open = intents.into_iter().filter(|(id, intent)| intent.response.is_none() && is_made(id));
        for (id, intent) in open {
            self.paused.extend(intent.paused);
            self.cells.push((id, intent.cell));
        }
    }
}

/// What is committed about the calls of a run.
#[derive(Debug, Default)]
pub(super) struct Committed {
    pub(super) intents: HashMap<String, CommittedIntent>,
    pub(super) questions: Vec<Question>,
}

impl Committed {
    async fn read<S: RunStorage>(journal: &Journal<'_, S>) -> Result<Self, Interrupted> {
        let (agentable, run) = (journal.agentable(), journal.run());
        let intents = journal.retrying(|storage| storage.committed_intents(run)).await?;
        let questions = journal.retrying(|storage| storage.questions_of(agentable, run)).await?;
        Ok(Self { intents, questions })
    }
}

/// How the open calls of a run go on.
pub(crate) struct Resumed<T> {
    /// What is committed before, because calls were decided that waited for a person.
    pub(crate) step: Option<Step>,
    pub(crate) prepared: Prepared<T>,
}

/// The open calls of a turn, sorted by what is committed about them.
#[derive(Default)]
struct Sorted {
    responses: Responses,
    external: Vec<ExternalCall>,
    held: Held,
    /// Calls that waited for a person and are decided, with their cells.
    decided: Vec<DecidedCall>,
}

impl Sorted {
    /// A call without an intent, with the question about it.
    fn add_asked(&mut self, call: &ToolCall, question: &Question) {
        let Some(cell) = cell_asked(question) else { return };
        if question.state == QuestionState::Open {
            return self.held.add(call.id.clone(), question.asked.id, cell);
        }
        let decided = Decided::by(question, call.clone());
        self.decided.push(DecidedCall { call: call.clone(), cell, decided });
    }

    /// The user wrote a message instead of answering: nothing waits any more.
    fn supersede(&mut self, calls: &[ToolCall]) {
        let (begun, others) = std::mem::take(&mut self.held).cells();
        let begun = begun.into_iter().map(|of| (of, Decided::Begun(input::superseded())));
        let others = others.into_iter().map(|of| (of, Decided::Answer(approval::superseded())));
        for ((id, cell), decided) in begun.chain(others) {
            let call = calls.iter().find(|call| call.id == id);
            self.decided.extend(call.map(|call| DecidedCall { call: call.clone(), cell, decided }));
        }
    }
}

impl ToolRunner {
    /// How the open calls of a run go on: what is to be executed, what waits for a person, and the responses there are.
    /// `said`: the text beside the calls.
    pub(crate) async fn resume<S: RunStorage>(
        &mut self,
        journal: &mut Journal<'_, S>,
        calls: Vec<ToolCall>,
        said: &str,
    ) -> Result<Resumed<S::Transaction>, Interrupted> {
        let committed = Committed::read(journal).await?;
        let intents = Intents::of(said, &calls);
        let mut sorted = self.sort(journal, &calls, &committed, &intents);
        self.recorded = committed;
        let mut superseded = Vec::new();
        if sorted.held.is_open() {
            let agentable = journal.agentable();
            let unread = journal.retrying(|storage| storage.unread(agentable)).await?;
            if unread.from_user {
                superseded = sorted.held.questions();
                sorted.supersede(&calls);
            } else {
                sorted.held.unread = unread.count;
            }
        }
        let Sorted { mut responses, mut external, held, decided } = sorted;
        if decided.is_empty() {
            let external = ExternalCalls(external);
            let prepared = Prepared::Open { responses, external, held, records: None };
            return Ok(Resumed { step: None, prepared });
        }
        let mut step = journal.next_step();
        if !superseded.is_empty() {
            step.questions.get_or_insert_default().superseded = superseded;
        }
        let cells: Cells = decided.iter().map(|of| (of.call.id.clone(), of.cell)).collect();
        let intent = |id: &str| intents.of_call(calls.iter().position(|call| call.id == id)?);
        let decided = decided.into_iter().map(|DecidedCall { call, decided, .. }| (call, decided));
        let (plans, calls) = self.plan_decided(journal, decided, intent);
        let others = Others { held, are_open: !external.is_empty(), keep_whole: false };
        let prepared = match self.carry_out(journal, &mut step, plans, &calls, &cells, others).await? {
            Prepared::Answered { responses: new, records } => {
                responses.extend(new);
                Prepared::Answered { responses, records }
            }
            Prepared::Open { responses: new, external: ExternalCalls(more), held, records } => {
                responses.extend(new);
                external.extend(more);
                Prepared::Open { responses, external: ExternalCalls(external), held, records }
            }
        };
        Ok(Resumed { step: Some(step), prepared })
    }

    /// Sorts the open calls by what is committed about them.
    fn sort<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        calls: &[ToolCall],
        committed: &Committed,
        intents: &Intents,
    ) -> Sorted {
        let mut sorted = Sorted::default();
        for (nth, call) in calls.iter().enumerate() {
            let said = intents.of_call(nth);
            let intent = committed.intents.get(&call.id);
            let question = question_of(&committed.questions, &call.id);
            match (intent, question) {
                (Some(CommittedIntent { response: Some(response), .. }), _) => {
                    sorted.responses.push((call.id.clone(), response.clone()));
                }
                (Some(CommittedIntent { cell, paused: Some(paused), .. }), _) => {
                    match Resuming::of(paused, call, &committed.questions) {
                        Resuming::Waits(id) => {
                            sorted.held.add_paused(call.id.clone(), (Some(id), None), *cell);
                        }
                        Resuming::Decided(decided) => {
                            sorted.decided.push(DecidedCall { call: call.clone(), cell: *cell, decided });
                        }
                        Resuming::GoesOn => {
                            let paused = Paused { state: paused.state.clone(), answer: None };
                            let going = self.going_on(journal, call.clone(), Some(*cell), paused, said);
                            sorted.external.push(going);
                        }
                    }
                }
                (Some(CommittedIntent { cell, .. }), None) => {
                    sorted.external.push(self.repeat(journal, call.clone(), Some(*cell), None, said));
                }
                (Some(CommittedIntent { cell, .. }), Some(question)) => {
                    if let Decided::CarryOut { call, note } = Decided::by(question, call.clone()) {
                        sorted.external.push(self.repeat(journal, call, Some(*cell), note, said));
                    }
                }
                (None, Some(question)) => sorted.add_asked(call, question),
                (None, None) if mutation::is(Mutation::Intent) => {
                    sorted.external.extend(self.execute_again(journal, call.clone()));
                }
                // Cannot happen: an entry and its intents are one commit. If it did, the call must not be repeated.
                (None, None) => sorted.responses.push((call.id.clone(), ToolResponse::outcome_unknown())),
            }
        }
        sorted
    }

    /// Plans the calls that people have decided. A call that is carried out is judged again: its arguments or the guards may
    /// have changed since. Returns the plans, and the calls with the arguments that hold.
    pub(super) fn plan_decided<'i, S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        decided: impl IntoIterator<Item = (ToolCall, Decided)>,
        intent: impl Fn(&str) -> Option<&'i Intent>,
    ) -> (Plans, Vec<ToolCall>) {
        let (mut plans, mut calls) = (Plans::default(), Vec::new());
        for (call, decided) in decided {
            match decided {
                Decided::Answer(response) => {
                    plans.answered.push((call.id.clone(), cut(journal, response)));
                    calls.push(call);
                }
                Decided::Begun(response) => {
                    plans.begun.push(call.id.clone());
                    plans.answered.push((call.id.clone(), cut(journal, response)));
                    calls.push(call);
                }
                Decided::GoOn { call, paused } => {
                    plans.begun.push(call.id.clone());
                    let intent = intent(&call.id);
                    let Judged { judgement, .. } = self.judge(journal, &call, intent, &[], &[]);
                    calls.push(call.clone());
                    match judgement {
                        Judgement::Refuse(response) => plans.answered.push((call.id, response)),
                        Judgement::Allow | Judgement::Hold { .. } => {
                            plans.external.push(self.going_on(journal, call, None, paused, intent));
                        }
                    }
                }
                Decided::CarryOut { call, note } => {
                    let intent = intent(&call.id);
                    let Judged { call, judgement, note: lowered, .. } =
                        self.judge(journal, &call, intent, &[], &[]);
                    calls.push(call.clone());
                    match judgement {
                        Judgement::Refuse(response) => plans.answered.push((call.id, response)),
                        Judgement::Allow | Judgement::Hold { .. } => {
                            let context = self.call_context(journal, &call);
                            let plan = self.offer().plan(&call, &context);
                            let plan = self.failing_later(journal, &call.name, plan);
                            plans.add(journal, call, context, plan, (joined(note, lowered), intent));
                        }
                    }
                }
            }
        }
        (plans, calls)
    }

    /// How a call whose outcome is unknown after a crash is executed, by its effect class.
    pub(super) fn repeat<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        call: ToolCall,
        cell: Option<MessageId>,
        note: Option<String>,
        intent: Option<&Intent>,
    ) -> ExternalCall {
        let (call, lowered) = self.limited(call);
        let note = joined(note, lowered);
        let context = self.call_context(journal, &call);
        let effect =
            self.offer().get(&call.name).map_or(EffectClass::Effect, |tool| tool.definition().effect);
        let work = match effect {
            EffectClass::Effect => Work::unknown(),
            EffectClass::Checkable => Work::Check,
            EffectClass::Read | EffectClass::Idempotent => match self.offer().plan(&call, &context) {
                Plan::Execute(work) => Work::Execute(work),
                Plan::Begin(work) => Work::Begin(work),
                Plan::Code(code) => Work::Code(code),
                Plan::Ask(ask) => Work::Ask(ask),
                Plan::Answer(response) => Work::answered(response),
                Plan::Record(_) | Plan::Message { .. } => Work::unknown(),
            },
        };
        ExternalCall { call, context, cell, work, note, intent: intent.cloned(), fallback: None }
    }

    /// Executes a call as if it had never started. Only for tests with the mutation `Intent`.
    fn execute_again<S: RunStorage>(&self, journal: &Journal<'_, S>, call: ToolCall) -> Option<ExternalCall> {
        let context = self.call_context(journal, &call);
        match self.offer().plan(&call, &context) {
            Plan::Execute(work) => {
                let work = Work::Execute(work);
                Some(ExternalCall {
                    call,
                    context,
                    cell: None,
                    work,
                    note: None,
                    intent: None,
                    fallback: None,
                })
            }
            Plan::Answer(_)
            | Plan::Record(_)
            | Plan::Message { .. }
            | Plan::Code(_)
            | Plan::Ask(_)
            | Plan::Begin(_) => None,
        }
    }
}

/// Two notes as one.
fn joined(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}\n{second}")),
        (first, second) => first.or(second),
    }
}
