//! Committing a turn of the model: its history entry, the user's messages, and its tool calls.

use std::ops::ControlFlow;

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::agent::step::{Next, TurnOutcome};
use houston_domain::event::Event;
use houston_domain::id::MessageId;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::step::{Intent, NewMessage, RunTransition, Step};
use houston_domain::tool_call::{EffectClass, Record, ToolCall, ToolErrorCode, ToolResponse};
use houston_faults::mutation::{self, Mutation};
use houston_tools::Plan;
use serde_json::{Value, json};

use crate::commit::{PendingRecord, add_message, succeeded};
use crate::drive::DriveOutcome;
use crate::error::Interrupted;
use crate::run_driver::RunDriver;
use crate::task::tasks_started;
use crate::tool_call::{ExternalCall, Work};

/// The calls of one turn, grouped by how they are executed.
#[derive(Default)]
struct Plans {
    /// Calls whose response is known without executing anything: (call id, response).
    answered: Vec<(String, ToolResponse)>,
    /// Calls that write rows of Houston's own tables.
    recorded: Vec<PendingRecord>,
    /// Calls that act outside of Houston.
    external: Vec<ExternalCall>,
    /// Messages to the user: (call id, content).
    messages: Vec<(String, String)>,
}

impl RunDriver<'_> {
    /// Commits a turn together with its tool calls that need only Postgres, then executes the others.
    pub(crate) async fn commit_turn(
        &mut self,
        turn: TurnOutcome,
        reasoning: String,
        streamed: String,
        usage: Usage,
    ) -> Result<ControlFlow<DriveOutcome>, Interrupted> {
        let mut step = self.step(usage, RunTransition::Continue { read: false, event: None });
        step.entries.extend(turn.entry);
        if !reasoning.trim().is_empty() {
            step.events.push(Event::Thought { text: reasoning });
        }
        if let Some(reply) = turn.reply {
            // The user has read the streamed text, so exactly that text is stored.
            let content = if streamed.trim().is_empty() { reply } else { streamed.clone() };
            let mut metadata = self.label();
            if self.run.next(self.now()) == Next::Done(RunStatus::MaxTokens) {
                metadata["truncated"] = json!(true);
            }
            add_message(&mut step, self.next_message, content, metadata);
        }
        let mut plans = self.plan(&turn.calls);
        for (call, response) in &mut plans.answered {
            *response = self.store_large_result(&mut step, call, response.clone());
        }
        self.send_messages(&mut step, &plans.messages, &streamed);
        let cells = self.add_tool_cells(&mut step, &turn.calls);
        for external in &mut plans.external {
            external.cell = cells.iter().find(|(call, _)| *call == external.call.id).map(|(_, cell)| *cell);
        }
        if plans.external.is_empty() {
            return self.commit_without_intents(step, plans, &turn.calls, &cells).await;
        }
        self.commit_intents(step, plans, &turn.calls, &cells).await
    }

    /// Metadata of the agent's messages: whether the model is simulated, and which agent of a team wrote them.
    pub(crate) fn label(&self) -> Value {
        let mut label = if self.answering.simulated { json!({"simulated": true}) } else { json!({}) };
        self.answered_by.label(&mut label);
        label
    }

    /// Plans the calls of a turn. Calls beyond `max_tool_calls` are refused.
    fn plan(&self, calls: &[ToolCall]) -> Plans {
        let mut plans = Plans::default();
        let most = self.engine.config.context.max_tool_calls;
        for (nth, call) in calls.iter().enumerate() {
            if nth >= most {
                let reason = format!("not executed: a turn may have {most} calls. Call this tool again.");
                let refused = ToolResponse::failure(ToolErrorCode::RateLimited, reason);
                plans.answered.push((call.id.clone(), refused));
                continue;
            }
            let context = self.call_context(call);
            match self.offer().plan(call, &context) {
                Plan::Answer(response) => plans.answered.push((call.id.clone(), self.cut(response))),
                Plan::Record(Record::SendMessage { content }) => {
                    plans.answered.push((call.id.clone(), ToolResponse::success("Message sent.")));
                    plans.messages.push((call.id.clone(), content));
                }
                Plan::Record(record) => match self.pending_record(call, self.with_page_size(record)) {
                    Ok(recorded) => plans.recorded.push(recorded),
                    Err(refused) => plans.answered.push((call.id.clone(), refused)),
                },
                Plan::Execute(work) => plans.external.push(ExternalCall {
                    call: call.clone(),
                    context,
                    cell: None,
                    work: Work::Execute(work),
                }),
            }
        }
        plans
    }

    /// Adds the messages the agent sends. The first has the id of the streamed message, if it begins with the streamed text.
    fn send_messages(&self, step: &mut Step, messages: &[(String, String)], streamed: &str) {
        for (nth, (_, content)) in messages.iter().enumerate() {
            let id = if nth == 0 && content.starts_with(streamed) {
                self.next_message
            } else {
                self.engine.ids.next()
            };
            add_message(step, id, content.clone(), self.label());
        }
    }

    /// Adds a thread message (cell) for every call except `send_message`. Returns (call id, message id).
    fn add_tool_cells(&self, step: &mut Step, calls: &[ToolCall]) -> Vec<(String, MessageId)> {
        let mut cells = Vec::new();
        for call in calls.iter().filter(|call| call.name != SEND_MESSAGE) {
            let cell: MessageId = self.engine.ids.next();
            step.messages.push(NewMessage {
                id: cell,
                event: step.events.len(),
                source: Source::Agent,
                message_type: MessageType::Tool,
                content: title(&call.name),
                metadata: json!({"tool": call.name, "call_id": call.id, "status": "started"}),
            });
            step.events.push(Event::ToolCalled {
                call_id: call.id.clone(),
                name: call.name.clone(),
                input: call.input.clone(),
                message_id: cell,
            });
            cells.push((call.id.clone(), cell));
        }
        cells
    }

    /// Commits a turn without outside calls: entry, records and results are one commit.
    async fn commit_without_intents(
        &mut self,
        mut step: Step,
        plans: Plans,
        calls: &[ToolCall],
        cells: &[(String, MessageId)],
    ) -> Result<ControlFlow<DriveOutcome>, Interrupted> {
        let mut responses = plans.answered;
        let tx = if plans.recorded.is_empty() {
            None
        } else {
            let (tx, recorded) = self.record(&plans.recorded).await?;
            let succeeded = succeeded(&recorded);
            tasks_started(&mut step, &plans.recorded, &recorded, cells);
            responses.extend(self.store_large_results(&mut step, recorded));
            Some((tx, succeeded))
        };
        for call in calls {
            let response = responses.iter().find(|(id, _)| *id == call.id).map(|(_, response)| response);
            let cell = cells.iter().find(|(id, _)| *id == call.id).map(|(_, cell)| *cell);
            if let (Some(response), Some(cell)) = (response, cell) {
                add_tool_result(&mut step, &call.id, cell, response);
            }
        }
        self.close_turn(&mut step, responses);
        let status = self.ending_status(&step.transition);
        let done = match tx {
            Some((tx, succeeded)) => self.commit_recorded(tx, &plans.recorded, &succeeded, step).await?,
            None => self.commit(step).await?,
        };
        Ok(match status {
            Some(status) if !done.continued => ControlFlow::Break(DriveOutcome::Ended(status)),
            _ => ControlFlow::Continue(()),
        })
    }

    /// Commits a turn with outside calls: its intents are committed before the calls are executed.
    async fn commit_intents(
        &mut self,
        mut step: Step,
        plans: Plans,
        calls: &[ToolCall],
        cells: &[(String, MessageId)],
    ) -> Result<ControlFlow<DriveOutcome>, Interrupted> {
        for call in calls {
            let cell = cells.iter().find(|(id, _)| *id == call.id).map(|(_, cell)| *cell);
            let external = plans.external.iter().find(|external| external.call.id == call.id);
            let effect = external
                .and_then(|external| self.offer().get(&external.call.name))
                .map_or(EffectClass::Idempotent, |tool| tool.definition().effect);
            step.intents.push(Intent {
                call: call.id.clone(),
                name: call.name.clone(),
                effect,
                cell: cell.unwrap_or(self.next_message),
            });
        }
        if mutation::is(Mutation::Intent) {
            step.intents.clear();
        }
        let mut known = plans.answered;
        if plans.recorded.is_empty() {
            self.add_known_responses(&mut step, &known, cells);
            self.commit(step).await?;
        } else {
            let (tx, recorded) = self.record(&plans.recorded).await?;
            let succeeded = succeeded(&recorded);
            tasks_started(&mut step, &plans.recorded, &recorded, cells);
            known.extend(self.store_large_results(&mut step, recorded));
            self.add_known_responses(&mut step, &known, cells);
            self.commit_recorded(tx, &plans.recorded, &succeeded, step).await?;
        }
        houston_faults::fault!("C9")?;
        self.execute(plans.external, known).await
    }

    /// Adds the responses that are known before the outside calls are executed.
    fn add_known_responses(
        &self,
        step: &mut Step,
        known: &[(String, ToolResponse)],
        cells: &[(String, MessageId)],
    ) {
        for (call, response) in known {
            if let Some((_, cell)) = cells.iter().find(|(id, _)| id == call) {
                add_tool_result(step, call, *cell, response);
            }
            step.responses.push((call.clone(), response.clone()));
        }
    }

    /// Adds the tool results to the history once all responses are known, and lets the step continue or end the run.
    pub(crate) fn close_turn(&mut self, step: &mut Step, responses: Vec<(String, ToolResponse)>) {
        if let Some(results) = self.run.on_tools(responses) {
            step.entries.push(results);
        }
        match self.run.next(self.now()) {
            Next::CallModel => {
                step.transition = RunTransition::Continue { read: true, event: Some(self.step_finished()) };
            }
            Next::Done(status) => self.set_ending(step, status),
            Next::CallTools(_) => {}
        }
    }
}

/// Adds the result of a call: its event, and the new status of its cell.
pub(crate) fn add_tool_result(step: &mut Step, call: &str, cell: MessageId, response: &ToolResponse) {
    step.events.push(Event::ToolReturned {
        call_id: call.to_owned(),
        content: response.text().to_owned(),
        is_error: !response.is_success(),
        message_id: cell,
    });
    let status = if response.is_success() { "done" } else { "failed" };
    match step.messages.iter_mut().find(|message| message.id == cell) {
        Some(message) => message.metadata["status"] = json!(status),
        None => step.cells.push((cell, json!({"status": status}))),
    }
}

/// The content of a tool's cell: the tool's name as words, such as "Create note".
fn title(name: &str) -> String {
    let words = name.replace('_', " ");
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
