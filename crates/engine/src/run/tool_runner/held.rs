//! Calls that wait for a person: asked about with the step of their turn, carried out or refused once they are decided.

use chrono::{DateTime, Utc};
use houston_domain::id::{MessageId, QuestionId};
use houston_domain::question::approval::{self, Approval, ApprovalAnswer};
use houston_domain::question::{NewQuestion, Question, QuestionKind, QuestionState};
use houston_domain::step::Step;
use houston_domain::tool_call::{PausedCall, ToolCall, ToolResponse};
use houston_tools::{Paused, Plan};
use serde_json::Value;

use super::cells::{cell_of, title};
use super::record::{self, PendingRecord};
use super::{Cells, ToolRunner};
use crate::error::Result;
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
    pub(super) calls: Vec<WaitingCall>,
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
    question: Option<QuestionId>,
    /// Its thread message.
    pub(super) cell: MessageId,
    /// What it keeps, if it has begun and has paused in its middle.
    pub(super) paused: Option<PausedCall>,
}

impl Held {
    /// A call that a person must allow.
    pub(super) fn add(&mut self, call: String, question: QuestionId, cell: MessageId) {
        self.calls.push(WaitingCall { call, question: Some(question), cell, paused: None });
    }

    /// A call that has paused.
    pub(super) fn add_paused(&mut self, call: String, paused: PausedCall, cell: MessageId) {
        if paused.question.is_none() {
            self.until = self.until.into_iter().chain(paused.until).min();
        }
        self.calls.push(WaitingCall { call, question: paused.question, cell, paused: Some(paused) });
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
}

/// How a call that waited for a person goes on.
pub(super) enum Decided {
    /// It is carried out. A note for the model, if the arguments are not those of the history.
    CarryOut { call: ToolCall, note: Option<String> },
    /// It is not carried out; the model reads this.
    Answer(ToolResponse),
    /// It has begun, and goes on with the answer of a person.
    GoOn(Paused),
}

impl Decided {
    /// `question` is about `call` and closed.
    pub(super) fn by(question: &Question, call: &ToolCall) -> Self {
        let answer = question.answer.as_ref().and_then(ApprovalAnswer::from_value);
        // Plans asked so once, and such a question may still be open.
        let answer =
            answer.or((question.answer == Some(Value::Bool(true))).then_some(ApprovalAnswer::APPROVE));
        Self::Answer(match (question.state, answer) {
            (QuestionState::Answered, Some(ApprovalAnswer::Approve { .. })) => {
                return Self::CarryOut { call: call.clone(), note: None };
            }
            (QuestionState::Answered, Some(ApprovalAnswer::Edit { input })) => {
                let note = (input != call.input).then(|| approval::edited_note(&input));
                return Self::CarryOut { call: ToolCall { input, ..call.clone() }, note };
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
}

/// The thread message that shows the call of an approval.
pub(super) fn cell_asked(question: &Question) -> Option<MessageId> {
    question.asked.approval.as_ref()?.message_id
}

impl ToolRunner {
    /// Adds the questions about `held` to the step, with what the calls would change.
    pub(super) async fn ask<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        held: Vec<HeldCall>,
        cells: &Cells,
    ) -> Result<Held> {
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
    ) -> Result<Vec<NewQuestion>> {
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
            let text = approval::question_text(&title(&call.name), &why);
            let schema = approval::answer_schema(schema.as_deref().unwrap_or(&Value::Bool(true)), lasting);
            let ToolCall { id, name: tool, input, .. } = call;
            let approval = Approval { tool, input, why, message_id: None, preview, lasting, pin };
            questions.push(NewQuestion {
                subject: Some(id),
                schema: Some(schema),
                expires_at,
                approval: Some(Box::new(approval)),
                ..journal.question(QuestionKind::Approval, text)
            });
        }
        Ok(questions)
    }
}
