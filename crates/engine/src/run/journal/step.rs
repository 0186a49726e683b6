//! Building steps: what every step contains, and the ends of runs.

use houston_domain::error_message::ErrorMessage;
use houston_domain::event::Event;
use houston_domain::history::Role;
use houston_domain::id::MessageId;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::{ModelError, Usage};
use houston_domain::run::RunStatus;
use houston_domain::step::{Ending, NewMessage, RunTransition, Step};
use houston_llm::Switch;
use serde_json::Value;

use super::{DrivenParts, Journal};
use crate::run::storage::RunStorage;

impl<S: RunStorage> Journal<'_, S> {
    /// A new step. It contains only the events of model fallbacks that no step has reported yet.
    pub(crate) fn step(&mut self, transition: RunTransition) -> Step {
        Step {
            write: self.new_id(),
            run: self.run(),
            entries: Vec::new(),
            frames: Vec::new(),
            events: std::mem::take(&mut self.switches).into_iter().map(fallback).collect(),
            messages: Vec::new(),
            intents: Vec::new(),
            responses: Vec::new(),
            cells: Vec::new(),
            pauses: Vec::new(),
            large_results: Vec::new(),
            questions: None,
            state: None,
            plan: None,
            iterations: self.open_iteration - 1,
            usage: Usage::default(),
            model: None,
            call: None,
            more_calls: Vec::new(),
            untrusted: self.owner.untrusted,
            transition,
        }
    }

    /// A new step after which the run continues.
    pub(crate) fn next_step(&mut self) -> Step {
        self.step(RunTransition::Continue { read: false, event: None })
    }

    /// Adds what only the journal knows, before a step is committed.
    pub(super) fn complete(&mut self, step: &mut Step) {
        self.count_iteration(step);
        self.settle_error_message(step);
        self.report_message(step);
        self.book(step);
        step.plan = self.plan.take();
        if let Some(driven) = self.driven.take() {
            let DrivenParts { messages, questions, state } = *driven;
            for (content, metadata) in messages {
                add_message(step, self.new_id(), content, metadata);
            }
            if !questions.is_empty() {
                let of_step = step.questions.get_or_insert_default();
                of_step.asked.splice(..0, questions.asked);
                of_step.superseded.extend(questions.superseded);
            }
            step.state = state.map(Box::new);
        }
    }

    /// Adds the model calls that have ended, however they ended: each is counted once, in this commit.
    fn book(&self, step: &mut Step) {
        for call in &*self.settled() {
            step.usage += call.usage;
            // One that is complete is recorded as steps usually are.
            match &step.call {
                None if !call.estimated => step.call = Some(call.clone()),
                _ => step.more_calls.push((self.new_id(), call.clone())),
            }
        }
    }

    /// Sets the step's count of iterations: the open one counts if the step closes it.
    fn count_iteration(&self, step: &mut Step) {
        let closes = match &step.transition {
            RunTransition::Continue { event, .. } => event.is_some(),
            RunTransition::Complete { .. } | RunTransition::Terminate { .. } => true,
            RunTransition::Retry { .. } | RunTransition::Wait { .. } | RunTransition::Release { .. } => false,
        };
        step.iterations = self.open_iteration - u32::from(!closes);
    }

    /// Adds what was found out about the message to the first step with an answer, or to the end: an attempt that finds an answer
    /// knows that it was said.
    fn report_message(&mut self, step: &mut Step) {
        let answered = step.entries.iter().any(|entry| entry.role == Role::Assistant);
        if answered || ending_status(&step.transition).is_some() {
            let said = self.shift.take().into_iter().chain(self.analysed.take());
            step.events.splice(..0, said.map(|event| *event));
        }
    }

    /// Marks the run's error message as settled, once the model has answered again or the run ends. Does nothing if the run
    /// has no error message.
    fn settle_error_message(&mut self, step: &mut Step) {
        let ending = ending_status(&step.transition);
        let answered = step.entries.iter().any(|entry| entry.role == Role::Assistant);
        if matches!(ending, Some(RunStatus::Failed | RunStatus::DeadLettered))
            || !(answered || ending.is_some())
        {
            return;
        }
        if let Some(error) = self.error.take() {
            show_error(step, &error.settled(ending.is_none_or(RunStatus::answers)));
        }
    }

    /// The event that closes the open iteration.
    pub(crate) fn step_finished(&self) -> Event {
        Event::StepFinished { iteration: self.open_iteration, next_message_id: self.new_id() }
    }

    /// The event that ends the run with `status`. `code` and `message` say why, if it failed.
    pub(crate) fn run_finished(
        &self,
        status: RunStatus,
        code: Option<String>,
        message: Option<String>,
    ) -> Event {
        Event::RunFinished {
            status,
            iteration: Some(self.open_iteration),
            usage: self.total_usage(),
            message: message
                .or_else(|| (!status.answers()).then(|| status.notice().map(str::to_owned)).flatten()),
            code,
            result: self.result.clone().filter(|_| status.answers()),
        }
    }

    /// The outcome of an attempt that `error` ended.
    pub(crate) fn ending_by(&self, status: RunStatus, error: &ModelError) -> Ending {
        Ending {
            status,
            error_code: Some(error.code.as_str().to_owned()),
            error_message: Some(error.message.clone()),
        }
    }

    /// The end of a run that nothing continues. `code` and `message` say why, if it failed.
    pub(crate) fn terminated(
        &self,
        status: RunStatus,
        code: Option<String>,
        message: Option<String>,
    ) -> RunTransition {
        let event = self.run_finished(status, code.clone(), message.clone());
        RunTransition::Terminate {
            event,
            ending: Ending { status, error_code: code, error_message: message },
        }
    }
}

/// The status with which a step ends the run, if it ends it.
pub(crate) fn ending_status(transition: &RunTransition) -> Option<RunStatus> {
    match transition {
        RunTransition::Complete { ending, .. } | RunTransition::Terminate { ending, .. } => {
            Some(ending.status)
        }
        _ => None,
    }
}

fn fallback(Switch { from, to, code, message }: Switch) -> Event {
    let code = code.as_str().to_owned();
    Event::ModelFallback { from: from.to_string(), to: to.to_string(), code, message }
}

/// Adds an agent's message and its event to a step.
pub(crate) fn add_message(step: &mut Step, id: MessageId, content: String, metadata: Value) {
    step.messages.push(NewMessage {
        id,
        event: step.events.len(),
        source: Source::Agent,
        message_type: MessageType::Text,
        content,
        metadata,
    });
    step.events.push(Event::MessageSent { message_id: id });
}

/// Adds the run's error message to a step, or changes it, with its event.
pub(crate) fn show_error(step: &mut Step, error: &ErrorMessage) {
    step.messages.push(NewMessage {
        id: error.id,
        event: step.events.len(),
        source: Source::Error,
        message_type: MessageType::Text,
        content: error.content.clone(),
        metadata: error.metadata.clone(),
    });
    step.events.push(error.event());
}
