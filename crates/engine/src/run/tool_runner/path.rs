//! The path of a call, whoever asks for it: a model in its turn, code, or a step of a plan. What is committed about the call
//! says how it goes on; a new one is judged by the guards, and then asked about, answered, recorded or begun. [`ToolRunner::plan`]
//! decides that. [`ToolRunner::prepare`] writes it to the step of a turn, and the driver of a plan to the steps of the plan.
//! What acts outside is started once that is committed: see [`execution`](super::execution).

use std::sync::Arc;

use houston_domain::guard::{CompiledGrant, DecidedBy, Intent as StatedIntent};
use houston_domain::history::Entry;
use houston_domain::id::{MessageId, QuestionId};
use houston_domain::question::{Question, QuestionState};
use houston_domain::skill::USE_SKILL;
use houston_domain::skill::entry::read_in;
use houston_domain::step::{Intent, Step};
use houston_domain::tool_call::{EffectClass, PausedCall, ToolCall, ToolErrorCode, ToolResponse};
use houston_faults::mutation::{self, Mutation};
use houston_tools::{CallContext, Paused, Plan};
use serde_json::json;

use super::cells::{add_cells, add_response, cell_of, name_of};
use super::execution::{ExternalCall, Work, noted, observe};
use super::guard::{Intents, Judged, Judgement};
use super::held::{Decided, Held, HeldCall, cell_asked};
use super::record::{PendingRecord, StepRows, begin_spans};
use super::{Cells, Responses, ToolRunner, add_tool_result, cut, pausing};
use crate::error::Result;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// Who asks for calls.
pub(crate) enum Origin<'o> {
    /// A turn. `history`: that of the session, in which the user may have written the addresses of calls.
    Turn { intents: Intents, history: &'o [Entry] },
    /// Code, or the tool whose fallback is called. `intent`: what the model said that call is for.
    Code { intent: Option<StatedIntent>, history: &'o [Entry] },
    /// A step of a plan: intent and response are rows of the plan's steps, no model reads notes, and expressions read the result.
    Step,
}

impl Origin<'_> {
    /// What the model said a call is for.
    fn intent(&self, call: &str) -> Option<&StatedIntent> {
        match self {
            Self::Turn { intents, .. } => intents.of_call(call),
            Self::Code { intent, .. } => intent.as_ref(),
            Self::Step => None,
        }
    }

    fn history(&self) -> &[Entry] {
        match self {
            Self::Turn { history, .. } | Self::Code { history, .. } => history,
            Self::Step => &[],
        }
    }
}

/// What is committed about a call.
pub(crate) enum Made {
    /// Nothing: it is judged.
    No,
    /// Nothing, and it is not made, for this reason.
    Refused(ToolResponse),
    /// Its response.
    Answered(ToolResponse),
    /// It was started, with this thread message; a person may have allowed it before.
    Started(Option<MessageId>, Option<Box<Question>>),
    /// It was started, and has paused, maybe with a question.
    Paused(MessageId, PausedCall, Option<Box<Question>>),
    /// A person was asked.
    Asked(Box<Question>),
}

impl Made {
    /// The question that the call waits for.
    fn open_question(&mut self) -> Option<&mut Question> {
        let question = match self {
            Self::Asked(question) | Self::Paused(_, _, Some(question)) => question,
            _ => return None,
        };
        (question.state == QuestionState::Open).then_some(&mut **question)
    }
}

/// What people have allowed of a call.
#[derive(Clone, Copy)]
enum Allowed<'a> {
    Nothing,
    /// What these cover.
    Lasting(&'a [CompiledGrant]),
    /// This call. The model reads the note.
    This(Option<&'a str>),
}

/// Calls, by how they go on.
#[derive(Default)]
pub(crate) struct Plans {
    /// The calls about which the next step says something, as they were asked for or allowed.
    pub(super) calls: Vec<ToolCall>,
    /// The thread messages of those that have one.
    pub(super) cells: Cells,
    /// Responses that are committed.
    returned: Responses,
    /// Calls whose response is known without executing anything.
    pub(crate) answered: Responses,
    /// Calls that write rows of Houston's own tables.
    pub(crate) recorded: Vec<PendingRecord>,
    /// Calls that act outside of Houston, with those that have been started before.
    pub(crate) external: Vec<ExternalCall>,
    /// Calls that a person must allow first.
    pub(crate) held: Vec<HeldCall>,
    /// Calls that wait for what was asked before.
    waiting: Held,
    /// The user wrote a message instead of answering these.
    superseded: Vec<QuestionId>,
    /// Calls that have begun and go on, or have ended.
    begun: Vec<String>,
    /// What decided about the calls.
    pub(super) decided_by: Vec<(String, DecidedBy)>,
    /// The contents of the messages to the user.
    pub(crate) messages: Vec<String>,
    /// Whether code has made the calls: it reads results whole, and the call that runs it is open.
    of_code: bool,
}

/// The calls of a turn once its step is prepared. It is closed if none acts outside and none waits; else the responses are
/// kept for a worker that takes the run over.
pub(crate) struct Prepared {
    pub(crate) responses: Responses,
    /// These act outside of Houston: they are executed once their intents are committed.
    pub(crate) external: Vec<ExternalCall>,
    /// These wait for a person.
    pub(crate) held: Held,
}

impl Plans {
    /// Whether there is something to commit. Otherwise [`Self::known`] is all.
    pub(crate) fn has_new(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The calls as they are committed.
    pub(crate) fn known(self) -> Prepared {
        let Self { returned: responses, external, waiting: held, .. } = self;
        Prepared { responses, external, held }
    }

    /// Adds what a call does. `note`: what the model reads before its result.
    fn add<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        call: ToolCall,
        context: CallContext,
        plan: Plan,
        (note, intent): (Option<String>, Option<&StatedIntent>),
    ) {
        let work = match plan {
            Plan::Answer(response) => {
                let response = cut(journal, noted(response, note.as_deref()));
                return self.answered.push((call.id, response));
            }
            Plan::Message { content, response } => {
                self.messages.push(content);
                return self.answered.push((call.id, response));
            }
            Plan::Record(record) => {
                return self.recorded.push(PendingRecord::new(journal, call.id, record, note));
            }
            Plan::Execute(work) => Work::Execute(work),
            Plan::Begin(work) => Work::Begin(work),
            Plan::Ask(ask) => Work::Ask(ask),
            Plan::Code(code) => Work::Code(code),
        };
        self.external.push(ExternalCall { note, ..ExternalCall::new(call, context, None, work, intent) });
    }
}

impl ToolRunner {
    /// Plans the calls of a turn. Those beyond `max_tool_calls` are refused, and those beyond `left`, which the run may still
    /// make. `said`: the text beside the calls, which may say what they are for.
    pub(crate) async fn plan_turn<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        calls: Vec<ToolCall>,
        (said, left): (&str, usize),
        history: &[Entry],
    ) -> Result<Plans> {
        let origin = Origin::Turn { intents: Intents::of(said, &calls), history };
        let most = journal.services.config.context.max_tool_calls;
        let refused = |reason| Made::Refused(ToolResponse::failure(ToolErrorCode::RateLimited, reason));
        let made = |nth| {
            if nth >= left {
                refused("not executed: the run has made all the calls it may make".to_owned())
            } else if nth >= most {
                refused(format!("not executed: a turn may have {most} calls. Call this tool again."))
            } else {
                Made::No
            }
        };
        let calls = calls.into_iter().enumerate().map(|(nth, call)| (call, made(nth))).collect();
        self.plan(journal, &origin, calls).await
    }

    /// Plans calls, each by what is committed about it. If the user wrote a message instead of answering, none waits any more.
    pub(crate) async fn plan<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        origin: &Origin<'_>,
        mut calls: Vec<(ToolCall, Made)>,
    ) -> Result<Plans> {
        let of_code = matches!(origin, Origin::Code { .. });
        let mut plans = Plans { of_code, ..Plans::default() };
        let open: Vec<_> = calls.iter_mut().filter_map(|(_, made)| made.open_question()).collect();
        if !open.is_empty() {
            let agentable = journal.agentable();
            let unread = journal.retrying(|storage| storage.unread(agentable)).await?;
            plans.waiting.unread = unread.count;
            for question in open.into_iter().filter(|_| unread.from_user) {
                question.state = QuestionState::Superseded;
                plans.superseded.push(question.asked.id);
            }
        }
        for (call, made) in calls {
            if let Origin::Step = origin {
                self.taint.add(&self.setup, &self.offer_with_results, &call.name);
            }
            self.note_written(journal, &call);
            let refused = match made {
                Made::No => self.try_expressions(journal, &call).await,
                _ => None,
            };
            self.plan_made(journal, origin, call, refused.map_or(made, Made::Refused), &mut plans);
        }
        self.grant(journal, origin, &mut plans).await?;
        Ok(plans)
    }

    /// The response to a call whose expressions take more than an evaluation may.
    async fn try_expressions<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        call: &ToolCall,
    ) -> Option<ToolResponse> {
        self.offer().get(&call.name).filter(|tool| tool.takes_expressions())?;
        let problem = houston_meter::try_expressions(journal.owner.tenant.0, &call.input).await.err()?;
        let text = format!("{}: mend the plan and call this again:\n{problem}", call.name);
        Some(ToolResponse::failure(ToolErrorCode::ValidationError, text))
    }

    /// Plans a call by what is committed about it.
    fn plan_made<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        origin: &Origin<'_>,
        mut call: ToolCall,
        made: Made,
        plans: &mut Plans,
    ) {
        let intent = origin.intent(&call.id);
        let (cell, decided) = match made {
            Made::No => {
                self.plan_call(journal, origin, &call, Allowed::Nothing, plans);
                return plans.calls.push(call);
            }
            Made::Refused(response) => {
                plans.answered.push((call.id.clone(), response));
                return plans.calls.push(call);
            }
            Made::Answered(response) => return plans.returned.push((call.id, response)),
            Made::Started(cell, question) => {
                let (call, note) = match question.map(|question| Decided::by(&question, &call)) {
                    Some(Decided::CarryOut { call, note }) => (call, note),
                    _ => (call, None),
                };
                let note = note.filter(|_| !matches!(origin, Origin::Step));
                return plans.external.push(self.repeat(journal, call, cell, note, intent));
            }
            Made::Paused(cell, paused, _) if paused.question.is_none() => {
                let paused = Paused { state: paused.state, answer: None };
                return plans.external.push(self.going_on(journal, call, Some(cell), paused, intent));
            }
            Made::Paused(cell, paused, question) => {
                let Some(decided) = pausing::decided(&paused, question.as_deref()) else {
                    return plans.waiting.add_paused(call.id, paused, cell);
                };
                plans.begun.push(call.id.clone());
                (Some(cell), decided)
            }
            Made::Asked(question) if question.state == QuestionState::Open => {
                if let Some(cell) = cell_asked(&question) {
                    plans.waiting.add(call.id, question.asked.id, cell);
                }
                return;
            }
            Made::Asked(question) => (cell_asked(&question), Decided::by(&question, &call)),
        };
        plans.cells.extend(cell.map(|cell| (call.id.clone(), cell)));
        // One that is carried out is judged again: its arguments or the guards may have changed since.
        match decided {
            Decided::Answer(response) => plans.answered.push((call.id.clone(), cut(journal, response))),
            Decided::GoOn(paused) => match self.judge(journal, &call, intent, &[], &[]).judgement {
                Judgement::Refuse(response) => plans.answered.push((call.id.clone(), response)),
                Judgement::Allow | Judgement::Hold { .. } => {
                    plans.external.push(self.going_on(journal, call.clone(), None, paused, intent));
                }
            },
            Decided::CarryOut { call: allowed, note } => {
                self.note_written(journal, &allowed);
                let note = note.as_deref().filter(|_| !matches!(origin, Origin::Step));
                self.plan_call(journal, origin, &allowed, Allowed::This(note), plans);
                call = allowed;
            }
        }
        plans.calls.push(call);
    }

    /// Plans a call that the guards allow, or refuse, or hold until a person allows it.
    fn plan_call<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        origin: &Origin<'_>,
        call: &ToolCall,
        allowed: Allowed<'_>,
        plans: &mut Plans,
    ) {
        let (intent, history) = (origin.intent(&call.id), origin.history());
        let (grants, edited) = match allowed {
            Allowed::Nothing => (&[][..], None),
            Allowed::Lasting(grants) => (grants, None),
            Allowed::This(note) => (&[][..], note),
        };
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
        let plan = match self.offer().plan(&limited, &context) {
            Plan::Code(_) if matches!(origin, Origin::Step) => Plan::Answer(not_for_plans(&limited.name)),
            plan => plan,
        };
        let hold = match (judgement, &plan) {
            _ if matches!(allowed, Allowed::This(_)) => None,
            (Judgement::Allow, Plan::Record(record)) => record.asks().map(|why| (why, false)),
            // A call that fails already, because its arguments are wrong, needs no approval.
            (Judgement::Hold { .. }, Plan::Answer(response)) if !response.is_success() => None,
            (Judgement::Hold { why, lasting }, _) => Some((why, lasting)),
            _ => None,
        };
        match hold {
            Some(why) => plans.held.push(HeldCall::new(journal, call.clone(), why, plan)),
            None => {
                let plan = self.failing_later(journal, &limited.name, plan);
                let note = joined(edited.map(str::to_owned), note);
                plans.add(journal, limited, context, plan, (note, intent));
            }
        }
    }

    /// Takes out of `plans` the held calls that a person has allowed for good, and plans them. Grants are read only when a call
    /// is held that they may cover.
    async fn grant<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        origin: &Origin<'_>,
        plans: &mut Plans,
    ) -> Result<()> {
        if !plans.held.iter().any(|held| held.lasting) {
            return Ok(());
        }
        let (agentable, user) = (journal.agentable(), journal.owner.user);
        let grants = journal.of_postgres(|store| store.grants(agentable, user)).await?;
        let grants = CompiledGrant::of_stored(&grants);
        if grants.is_empty() {
            return Ok(());
        }
        let (lasting, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut plans.held).into_iter().partition(|held| held.lasting);
        plans.held = others;
        for HeldCall { call, .. } in lasting {
            plans.decided_by.retain(|(of, _)| *of != call.id);
            self.plan_call(journal, origin, &call, Allowed::Lasting(&grants), plans);
        }
        Ok(())
    }

    /// How a call whose outcome is unknown after a crash is executed, by its effect class.
    fn repeat<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        call: ToolCall,
        cell: Option<MessageId>,
        note: Option<String>,
        intent: Option<&StatedIntent>,
    ) -> ExternalCall {
        let (call, lowered) = self.limited(call);
        let context = self.call_context(journal, &call);
        let work = match self.effect_of(&call.name) {
            EffectClass::Effect if !mutation::is(Mutation::Intent) => Work::unknown(),
            EffectClass::Checkable => Work::Check,
            _ => match self.offer().plan(&call, &context) {
                Plan::Execute(work) => Work::Execute(work),
                Plan::Begin(work) => Work::Begin(work),
                Plan::Code(code) => Work::Code(code),
                Plan::Ask(ask) => Work::Ask(ask),
                Plan::Answer(response) => Work::answered(response),
                Plan::Record(_) | Plan::Message { .. } => Work::unknown(),
            },
        };
        ExternalCall { note: joined(note, lowered), ..ExternalCall::new(call, context, cell, work, intent) }
    }

    /// What another worker may do with a call of this tool.
    pub(super) fn effect_of(&self, tool: &str) -> EffectClass {
        self.offer().get(tool).map_or(EffectClass::Effect, |tool| tool.definition().effect)
    }

    /// Adds calls to the step of their turn: their cells, the questions about those that a person must allow, the intents of
    /// those that act outside, and the results that need no action outside. Rows of Houston's own tables are written, but not
    /// committed yet.
    pub(crate) async fn prepare<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        mut plans: Plans,
    ) -> Result<(Prepared, StepRows<S>)> {
        if !plans.superseded.is_empty() {
            step.questions.get_or_insert_default().superseded = std::mem::take(&mut plans.superseded);
        }
        let cells = add_cells(journal, step, &mut plans);
        if !plans.of_code {
            // What this turn reads, the next one may send out.
            for call in &plans.calls {
                self.taint.add(&self.setup, &self.offer_with_results, &call.name);
            }
        }
        let asked = self.ask(journal, step, std::mem::take(&mut plans.held), &cells).await?;
        let Plans { calls, returned, answered, mut recorded, mut external, waiting, begun, of_code, .. } =
            plans;
        let held = asked.and(waiting);
        let mut responses = Responses::with_capacity(calls.len());
        observe(journal, &calls, &answered, &mut Vec::new());
        for (call, response) in answered {
            let response = self.kept(journal, step, (&calls, of_code), &call, response);
            responses.push((call, response));
        }
        let stays_open = of_code || held.is_open() || !external.is_empty();
        if stays_open {
            for call in &begun {
                step.pauses.push((call.clone(), None));
                let goes_on = external.iter().any(|external| external.call.id == *call);
                let cell = cell_of(&cells, call).filter(|_| goes_on);
                step.cells.extend(cell.map(|cell| (cell, json!({"status": "started"}))));
            }
            let is_new = |call: &&ToolCall| !held.has(&call.id) && !begun.contains(&call.id);
            let new = calls.iter().filter(is_new);
            self.add_intents(step, &mut external, new, &cells, journal.next_message);
        }
        let records = if recorded.is_empty() {
            None
        } else {
            let mut begun = begin_spans(journal, &calls, &mut recorded);
            let (records, written) = self.write_records(journal, recorded).await?;
            records.add_task_events(step, &cells);
            observe(journal, &calls, &written, &mut begun);
            for (call, response) in written {
                self.taint.add_result(response.text());
                let response = self.kept(journal, step, (&calls, of_code), &call, response);
                responses.push((call, response));
            }
            Some(records)
        };
        if stays_open {
            responses.iter().for_each(|(call, response)| add_response(step, call, response, &cells));
        } else {
            for ToolCall { id, .. } in &calls {
                let response = responses.iter().find(|(of, _)| of == id);
                if let (Some((_, response)), Some(cell)) = (response, cell_of(&cells, id)) {
                    add_tool_result(step, id, cell, response);
                }
            }
        }
        let responses = returned.into_iter().chain(responses).collect();
        Ok((Prepared { responses, external, held }, records))
    }

    /// A response as its reader gets it: code whole, a model with a preview of what is large.
    fn kept<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        (calls, of_code): (&[ToolCall], bool),
        call: &str,
        response: ToolResponse,
    ) -> ToolResponse {
        if of_code {
            return cut(journal, response);
        }
        self.store_large_result(journal, step, name_of(calls, call), call, response)
    }

    /// Adds an intent for every new call of a turn that stays open.
    fn add_intents<'c>(
        &self,
        step: &mut Step,
        external: &mut [ExternalCall],
        new: impl Iterator<Item = &'c ToolCall>,
        cells: &Cells,
        reply: MessageId,
    ) {
        for call in external.iter_mut() {
            call.cell = call.cell.or_else(|| cell_of(cells, &call.call.id));
        }
        for call in new {
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
pub(super) fn not_for_plans(tool: &str) -> ToolResponse {
    let reason = format!("{tool} waits or runs code, so it cannot be a step of a plan: call it directly");
    ToolResponse::failure(ToolErrorCode::ValidationError, reason)
}

/// Two notes as one.
fn joined(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}\n{second}")),
        (first, second) => first.or(second),
    }
}
