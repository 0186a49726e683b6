//! Calls that pause in their middle: their tools need a person, or have begun something that is asked for later. What they
//! need to go on is committed with the call, and from then on the call goes on and is not started again.

use std::time::Duration;

use chrono::TimeDelta;
use houston_domain::client_offer;
use houston_domain::guard::Intent;
use houston_domain::id::MessageId;
use houston_domain::question::input::{self, InputAnswer};
use houston_domain::question::{NewQuestion, Question, QuestionKind, QuestionState};
use houston_domain::step::Step;
use houston_domain::storable::{storable, storable_value};
use houston_domain::tool_call::{MAX_STATE_BYTES, PausedCall};
use houston_domain::tool_call::{ToolCall, ToolErrorCode, ToolResponse};
use houston_tools::{CallQuestion, Pause, Paused, Until};
use serde_json::json;

use super::ToolRunner;
use super::execution::{ExternalCall, Work};
use super::held::Decided;
use crate::error::Result;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// How long tools may take to end what goes on elsewhere when a run ends.
const GIVE_UP: Duration = Duration::from_secs(5);

/// How a call that pauses goes on.
pub(super) enum Pausing {
    /// At once, after its state is committed.
    Now(PausedCall),
    /// When what it waits for has happened.
    Later(PausedCall),
    /// It cannot: it has failed.
    Failed(ToolResponse),
}

/// How a paused call goes on that has asked this question; `None`: it waits for the answer.
pub(super) fn decided(paused: &PausedCall, question: Option<&Question>) -> Option<Decided> {
    let response = match question.map(|question| (question.state, &question.answer)) {
        Some((QuestionState::Open, _)) => return None,
        Some((QuestionState::Answered, Some(answer))) if InputAnswer::from_value(answer).is_some() => {
            let paused = Paused { state: paused.state.clone(), answer: Some(answer.clone()) };
            return Some(Decided::GoOn(paused));
        }
        Some((QuestionState::Expired, _)) => input::expired(),
        Some((QuestionState::Superseded, _)) => input::superseded(),
        _ => input::closed(),
    };
    Some(Decided::Answer(response))
}

impl ToolRunner {
    /// Adds to a step that a call pauses, with the question to a person if it needs one.
    pub(super) fn pause<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        call: &ToolCall,
        cell: Option<MessageId>,
        pause: Pause,
    ) -> Pausing {
        let Pause { state, until } = pause;
        let bytes = state.to_string().len();
        if bytes > MAX_STATE_BYTES {
            return Pausing::Failed(ToolResponse::failure(
                ToolErrorCode::IoError,
                format!(
                    "begun, but not finished: going on needs {bytes} bytes to be kept; at most {MAX_STATE_BYTES} are"
                ),
            ));
        }
        let mut paused = PausedCall { tool: call.name.clone(), state, question: None, until: None };
        let is_now = match until {
            Until::Elapsed(time) => {
                let time = TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX);
                paused.until = journal.now().checked_add_signed(time);
                time.is_zero()
            }
            Until::Answered(question) => {
                let question = asked(journal, call, cell, question);
                paused.question = Some(question.id);
                step.questions.get_or_insert_default().asked.push(question);
                let waiting = json!({"status": "waiting"});
                step.cells.extend(cell.map(|cell| (cell, waiting)));
                false
            }
        };
        step.pauses.push((call.id.clone(), Some(paused.clone())));
        if is_now { Pausing::Now(paused) } else { Pausing::Later(paused) }
    }

    /// A call that goes on.
    pub(super) fn going_on<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        call: ToolCall,
        cell: Option<MessageId>,
        paused: Paused,
        intent: Option<&Intent>,
    ) -> ExternalCall {
        let (call, note) = self.limited(call);
        let context = self.call_context(journal, &call);
        ExternalCall { note, ..ExternalCall::new(call, context, cell, Work::GoOn(paused), intent) }
    }

    /// Ends what goes on elsewhere of paused calls, because their run ends.
    pub(crate) async fn give_up(&self, paused: Vec<PausedCall>) {
        let tools = paused.into_iter().filter_map(|of| Some((self.offer().get(&of.tool)?.clone(), of.state)));
        let ends = tools.map(|(tool, state)| async move { tool.give_up(state).await });
        let all = futures_util::future::join_all(ends);
        if tokio::time::timeout(GIVE_UP, all).await.is_err() {
            tracing::info!("a paused call was not ended in time; it may go on where it runs");
        }
    }

    /// The unread messages that a call which waits for a time has not to be woken for.
    pub(super) async fn seen_messages<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        paused: &PausedCall,
    ) -> Result<i32> {
        if paused.question.is_some() {
            return Ok(0);
        }
        let agentable = journal.agentable();
        Ok(journal.retrying(|storage| storage.unread(agentable)).await?.count)
    }
}

/// The question of a call. Its text and schema come from others, so what Postgres cannot store is removed.
fn asked<S: RunStorage>(
    journal: &Journal<'_, S>,
    call: &ToolCall,
    cell: Option<MessageId>,
    question: CallQuestion,
) -> NewQuestion {
    let CallQuestion { mut text, mut content, of_client } = question;
    storable(&mut text);
    content.iter_mut().for_each(storable_value);
    let subject = if of_client { client_offer::subject(&call.id) } else { input::subject(&call.id) };
    NewQuestion {
        subject: Some(subject),
        schema: Some(input::answer_schema(content.as_ref())),
        expires_at: journal.approvals_expire_at(),
        message_id: cell,
        ..journal.question(QuestionKind::Input, text)
    }
}
