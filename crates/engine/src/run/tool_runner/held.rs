//! Calls that wait for a person: asked about with the step of their turn, carried out or refused once they are decided.

use chrono::{DateTime, Utc};
use houston_domain::guard::{CompiledGrant, Intent};
use houston_domain::history::Entry;
use houston_domain::id::{MessageId, QuestionId};
use houston_domain::question::approval::{self, Approval, ApprovalAnswer};
use houston_domain::question::{NewQuestion, Question, QuestionKind, QuestionState};
use houston_domain::step::Step;
use houston_domain::tool_call::{ToolCall, ToolResponse};
use houston_tools::{Paused, Plan};
use serde_json::Value;

use super::guard::Intents;
use super::record::{self, PendingRecord};
use super::{Cells, Plans, ToolRunner, cell_of, title};
use crate::error::Interrupted;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// A call that a person must allow, before the question is asked.
pub(crate) struct HeldCall {
    pub(super) call: ToolCall,
    /// Why a person is asked.
    pub(super) why: String,
    /// Whether a lasting yes answers the question.
    pub(super) lasting: bool,
    /// What says what it would change, if something does.
    previewed: Option<PendingRecord>,
}

impl HeldCall {
    pub(super) fn new<S: RunStorage>(
        journal: &Journal<'_, S>,
        call: ToolCall,
        (why, lasting): (String, bool),
        plan: Plan,
    ) -> Self {
        let previewed = match plan {
            Plan::Record(record) if record.has_preview() => {
                Some(PendingRecord::new(journal, call.id.clone(), record, None))
            }
            _ => None,
        };
        Self { call, why, lasting, previewed }
    }
}

/// The calls of a turn that wait for a person.
#[derive(Debug, Default)]
pub(crate) struct Held {
    calls: Vec<WaitingCall>,
    /// When the first of those goes on that wait for a time.
    pub(crate) until: Option<DateTime<Utc>>,
    /// How many unread messages were there when it was last decided that they go on waiting.
    pub(crate) unread: i32,
}

/// A call that waits.
#[derive(Debug)]
pub(super) struct WaitingCall {
    pub(super) call: String,
    /// The question; `None`: it waits for a time.
    pub(super) question: Option<QuestionId>,
    /// Its thread message.
    pub(super) cell: MessageId,
    /// Whether it has begun, and has paused in its middle.
    begun: bool,
}

impl Held {
    /// No call: what is waited for comes at a time.
    pub(crate) fn until(until: DateTime<Utc>, unread: i32) -> Self {
        Self { calls: Vec::new(), until: Some(until), unread }
    }

    /// A call that a person must allow.
    pub(super) fn add(&mut self, call: String, question: QuestionId, cell: MessageId) {
        self.calls.push(WaitingCall { call, question: Some(question), cell, begun: false });
    }

    /// A call that has paused.
    pub(super) fn add_paused(
        &mut self,
        call: String,
        (question, until): (Option<QuestionId>, Option<DateTime<Utc>>),
        cell: MessageId,
    ) {
        self.calls.push(WaitingCall { call, question, cell, begun: true });
        if question.is_none() {
            self.until = self.until.into_iter().chain(until).min();
        }
    }

    /// Whether there are any.
    pub(crate) fn is_open(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn has(&self, call: &str) -> bool {
        self.calls.iter().any(|held| held.call == call)
    }

    /// Their questions.
    pub(crate) fn questions(&self) -> Vec<QuestionId> {
        self.calls.iter().filter_map(|held| held.question).collect()
    }

    /// These and others. Looked at again if they were not looked at after the same message.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.unread = match (self.is_open(), others.is_open()) {
            (true, true) => self.unread.min(others.unread),
            (true, false) => self.unread,
            (false, _) => others.unread,
        };
        self.until = self.until.into_iter().chain(others.until).min();
        self.calls.extend(others.calls);
        self
    }

    pub(super) fn into_calls(self) -> Vec<WaitingCall> {
        self.calls
    }

    /// The calls with their cells: those that have begun, and those that have not.
    pub(crate) fn cells(self) -> (Cells, Cells) {
        let (begun, others): (Vec<_>, Vec<_>) = self.calls.into_iter().partition(|held| held.begun);
        let cells = |calls: Vec<WaitingCall>| calls.into_iter().map(|held| (held.call, held.cell)).collect();
        (cells(begun), cells(others))
    }
}

/// How a call that waited for a person goes on.
pub(crate) enum Decided {
    /// It is carried out. A note for the model, if the arguments are not those of the history.
    CarryOut { call: ToolCall, note: Option<String> },
    /// It is not carried out; the model reads this.
    Answer(ToolResponse),
    /// It has begun, and goes on with the answer of a person.
    GoOn { call: ToolCall, paused: Paused },
    /// It has begun, and ends; the model reads this.
    Begun(ToolResponse),
}

/// A call that waited for a person and is decided.
pub(super) struct DecidedCall {
    pub(super) call: ToolCall,
    pub(super) cell: MessageId,
    pub(super) decided: Decided,
}

impl Decided {
    /// `question` is about `call` and closed.
    pub(crate) fn by(question: &Question, call: ToolCall) -> Self {
        let answer = question.answer.as_ref().and_then(ApprovalAnswer::from_value);
        // Plans asked so once, and such a question may still be open.
        let answer =
            answer.or((question.answer == Some(Value::Bool(true))).then_some(ApprovalAnswer::APPROVE));
        Self::Answer(match (question.state, answer) {
            (QuestionState::Answered, Some(ApprovalAnswer::Approve { .. })) => {
                return Self::CarryOut { call, note: None };
            }
            (QuestionState::Answered, Some(ApprovalAnswer::Edit { input })) => {
                let note = (input != call.input).then(|| approval::edited_note(&input));
                return Self::CarryOut { call: ToolCall { input, ..call }, note };
            }
            (QuestionState::Answered, Some(ApprovalAnswer::Respond { message })) => {
                ToolResponse::success(message)
            }
            (QuestionState::Answered, Some(ApprovalAnswer::Reject { message })) => {
                approval::rejected(message.as_deref())
            }
            (QuestionState::Expired, _) => approval::expired(),
            (QuestionState::Superseded, _) => approval::superseded(),
            // An answer that is none of these was stored by something else than the API.
            _ => approval::rejected(None),
        })
    }

    /// The same without a note for the model.
    pub(super) fn without_note(self) -> Self {
        match self {
            Self::CarryOut { call, .. } => Self::CarryOut { call, note: None },
            other => other,
        }
    }
}

/// The calls of a turn besides those that a step carries out.
#[derive(Default)]
pub(super) struct Others {
    /// Those that wait for a person.
    pub(super) held: Held,
    /// Whether calls without a response are executed.
    pub(super) are_open: bool,
    /// Whether large results are kept whole: code reads them, not the model.
    pub(super) keep_whole: bool,
}

/// The thread message that shows the call of an approval.
pub(super) fn cell_asked(question: &Question) -> Option<MessageId> {
    question.asked.approval.as_ref()?.message_id
}

/// The question that is about a call.
pub(super) fn question_of<'q>(questions: &'q [Question], call: &str) -> Option<&'q Question> {
    let is_about = |question: &&Question| {
        question.asked.approval.is_some() && question.asked.subject.as_deref() == Some(call)
    };
    questions.iter().find(is_about)
}

impl ToolRunner {
    /// Takes out of `plans` the held calls that a person has allowed for good, and plans them. Grants are read only when a call
    /// is held that they may cover.
    pub(crate) async fn grant<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        plans: &mut Plans,
        (calls, said): (&[ToolCall], &str),
        history: &[Entry],
    ) -> Result<(), Interrupted> {
        if !plans.may_be_granted() {
            return Ok(());
        }
        let intents = Intents::of(said, calls);
        let intent = |id: &str| intents.of_call(calls.iter().position(|call| call.id == id)?);
        self.grant_held(journal, plans, intent, history).await
    }

    /// As [`Self::grant`]; `intent`: what the model said a call is for.
    pub(super) async fn grant_held<'i, S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        plans: &mut Plans,
        intent: impl Fn(&str) -> Option<&'i Intent>,
        history: &[Entry],
    ) -> Result<(), Interrupted> {
        if !plans.may_be_granted() {
            return Ok(());
        }
        let (agentable, user) = (journal.agentable(), journal.owner.user);
        let grants = journal.retrying(|storage| storage.grants(agentable, user)).await?;
        let grants = CompiledGrant::of_stored(&grants);
        if grants.is_empty() {
            return Ok(());
        }
        let (lasting, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut plans.held).into_iter().partition(|held| held.lasting);
        plans.held = others;
        for HeldCall { call, .. } in lasting {
            plans.decided_by.retain(|(of, _)| *of != call.id);
            self.plan_call(journal, &call, intent(&call.id), (history, &grants), plans);
        }
        Ok(())
    }

    /// Adds the questions about `held` to the step, with what the calls would change.
    pub(super) async fn ask<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        held: Vec<HeldCall>,
        cells: &Cells,
    ) -> Result<Held, Interrupted> {
        let mut waiting = Held::default();
        if held.is_empty() {
            return Ok(waiting);
        }
        let mut asked = self.questions(journal, held).await?;
        for question in &mut asked {
            let call = question.subject.clone().unwrap_or_default();
            let cell = cell_of(cells, &call).unwrap_or(journal.next_message);
            question.approval.iter_mut().for_each(|approval| approval.message_id = Some(cell));
            waiting.add(call, question.id, cell);
        }
        step.questions.get_or_insert_default().asked.append(&mut asked);
        Ok(waiting)
    }

    /// The questions about `held`, with what the calls would change, and without the thread messages that show them.
    pub(crate) async fn questions<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        held: Vec<HeldCall>,
    ) -> Result<Vec<NewQuestion>, Interrupted> {
        let previewed: Vec<&PendingRecord> = held.iter().filter_map(|held| held.previewed.as_ref()).collect();
        let previews =
            if previewed.is_empty() { Vec::new() } else { record::previews(journal, &previewed).await? };
        let mut previews = previews.into_iter();
        let expires_at = journal.approvals_expire_at();
        let mut questions = Vec::with_capacity(held.len());
        for HeldCall { call, why, lasting, previewed } in held {
            let preview = previewed.and_then(|_| previews.next().flatten());
            let tool = self.offer().get(&call.name);
            let schema = tool.map(|tool| tool.definition().input_schema.clone());
            let pin = tool.and_then(|tool| tool.pin()).map(str::to_owned);
            questions.push(NewQuestion {
                id: journal.new_id(),
                kind: QuestionKind::Approval,
                subject: Some(call.id),
                text: approval::question_text(&title(&call.name), &why),
                schema: Some(approval::answer_schema(
                    schema.as_deref().unwrap_or(&Value::Bool(true)),
                    lasting,
                )),
                default_value: None,
                expires_at,
                approval: Some(Box::new(Approval {
                    tool: call.name,
                    input: call.input,
                    why,
                    message_id: None,
                    preview,
                    lasting,
                    pin,
                })),
                message_id: None,
            });
        }
        Ok(questions)
    }
}
