//! The steps of a sequence.

use houston_domain::event::Event;
use houston_domain::history::{Block, Entry};
use houston_domain::id::MessageId;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::step::{Intent, ModelCall, NewMessage, RunTransition, Step};
use houston_domain::tool_call::{EffectClass, ToolErrorCode, ToolResponse};
use houston_store::Error;
use houston_store::claim::{ClaimedRun, Fence};
use houston_store::step::{Commit, CommittedStep};
use serde_json::json;

use super::Scene;
use super::sequence::{End, FenceOf, Shape};
use super::twin::Twin;
use crate::step::{ending, finished};
use crate::test_store::TestStore;

fn transition(test: &TestStore, end: End) -> RunTransition {
    let next = || Event::StepFinished { iteration: 1, next_message_id: test.ids.next() };
    match end {
        End::Poll => RunTransition::Continue { read: true, event: None },
        End::Continue { read } => RunTransition::Continue { read, event: Some(next()) },
        End::Complete => RunTransition::Complete {
            event: finished(RunStatus::Completed),
            continue_event: next(),
            ending: ending(RunStatus::Completed),
        },
        End::Terminate(status) => {
            let mut ending = ending(status);
            if status == RunStatus::Failed {
                (ending.error_code, ending.error_message) = (Some("TIMEOUT".into()), Some("too slow".into()));
            }
            RunTransition::Terminate { event: finished(status), ending }
        }
        End::Retry { counts } => RunTransition::Retry {
            event: Event::HandedOver { iteration: 1 },
            at: chrono::DateTime::UNIX_EPOCH,
            counts,
            ending: ending(RunStatus::Retrying),
        },
        End::Release => RunTransition::Release { event: Event::HandedOver { iteration: 1 } },
    }
}

/// The step of a run. It answers and starts calls of `twin`.
fn new_step(scene: &Scene<'_>, twin: &mut Twin, claimed: &ClaimedRun, shape: &Shape) -> Step {
    let test = &scene.side.test;
    let mut step = test.step(claimed, transition(test, shape.end));
    if matches!(shape.end, End::Poll) {
        return step;
    }
    step.entries =
        (0..shape.entries).map(|nth| Entry::assistant(vec![Block::text(format!("ä {nth}"))])).collect();
    for nth in 0..shape.messages {
        let id = if nth == 1 {
            houston_domain::error_message::ErrorMessage::id_of(claimed.run)
        } else {
            test.ids.next()
        };
        step.messages.push(NewMessage {
            id,
            event: nth,
            source: if nth == 1 { Source::Error } else { Source::Agent },
            message_type: MessageType::Text,
            content: format!("hello {nth}"),
            metadata: json!({"nth": nth}),
        });
        step.events.push(Event::MessageSent { message_id: id });
    }
    if let Some(succeeds) = shape.tools.answers {
        for open in twin.open_calls.drain(..) {
            answer_call(&mut step, open, succeeds);
        }
    }
    for (effect, is_answered) in &shape.tools.starts {
        let call = start_call(test, &mut step, *effect);
        if *is_answered {
            answer_call(&mut step, call, true);
        } else {
            twin.open_calls.push(call);
        }
    }
    step.usage = Usage { input_tokens: 7, output_tokens: 5, reasoning_tokens: 1, ..Usage::default() };
    step.model = shape.call.is_some().then(|| "openai/gpt-5-mini".to_owned());
    step.call = shape.call.map(|cost| ModelCall {
        provider: "openai".into(),
        model: "gpt-5-mini".into(),
        iteration: 1,
        usage: Usage { cost: cost.map(|cost| cost.parse().unwrap()), ..step.usage },
        estimated: false,
        reported: false,
        timing: None,
    });
    step
}

/// Adds a call that is about to execute, with its message.
fn start_call(test: &TestStore, step: &mut Step, effect: EffectClass) -> (String, MessageId) {
    let cell: MessageId = test.ids.next();
    let call = cell.to_string();
    step.intents.push(Intent { call: call.clone(), name: "send_mail".into(), effect, cell });
    step.messages.push(NewMessage {
        id: cell,
        event: step.events.len(),
        source: Source::Agent,
        message_type: MessageType::Tool,
        content: "send_mail".into(),
        metadata: json!({"status": "running"}),
    });
    step.events.push(Event::MessageSent { message_id: cell });
    (call, cell)
}

fn answer_call(step: &mut Step, (call, cell): (String, MessageId), succeeds: bool) {
    let (response, status) = if succeeds {
        (ToolResponse::success("done"), "done")
    } else {
        (ToolResponse::failure(ToolErrorCode::Unknown, "nobody knows"), "failed")
    };
    step.responses.push((call, response));
    step.cells.push((cell, json!({"status": status})));
}

/// What the caller learns of a commit, without ids and times.
fn learned(result: &houston_store::Result<Commit>) -> String {
    match result {
        Ok(Commit::Done(CommittedStep { events, read, continued, opened, cancel_seq, waiting })) => {
            let events: Vec<_> = events
                .iter()
                .map(|committed| {
                    let event = serde_json::to_value(&committed.event).unwrap();
                    (committed.seq, event["type"].clone(), event["status"].clone(), event["code"].clone())
                })
                .collect();
            format!("{events:?} {read:?} {continued} {opened} {cancel_seq:?} {}", waiting.len())
        }
        Ok(Commit::AlreadyCommitted) => "already committed".into(),
        Err(Error::Fenced) => "fenced".into(),
        Err(Error::PlanChanged) => "plan changed".into(),
        Err(error) => panic!("{error}"),
    }
}

impl Scene<'_> {
    /// Commits a step, once or twice.
    pub(super) async fn step(&self, twin: &mut Twin, claimed: &ClaimedRun, shape: &Shape) -> String {
        let fence = match shape.fence {
            FenceOf::Present => claimed.fence,
            FenceOf::Earlier => twin.earlier.unwrap_or(claimed.fence),
            FenceOf::Other => Fence { token: self.ids().next(), ..claimed.fence },
        };
        let mut step = new_step(self, twin, claimed, shape);
        if twin.is_plan {
            let ends = matches!(shape.end, End::Complete | End::Terminate(_));
            step.plan = Some(Box::new(self.plan_changes(twin, &shape.plan, ends).await));
        }
        let change = shape.record.as_ref().map(|record| self.change(twin, record));
        let mut all = Vec::new();
        let mut is_done = false;
        for _ in 0..=usize::from(shape.repeats) {
            let result = match &change {
                // Before what tools write is repeated, it is asked whether it was committed.
                Some(_) if is_done => self.is_committed(&fence, &step).await,
                Some(change) => self.commit_with_record(claimed, &fence, &step, change).await,
                None => self.store.runs().commit(&fence, &step).await,
            };
            if let Some(change) = change.as_ref().filter(|_| !is_done) {
                self.assert_written(claimed, change, matches!(result, Ok(Commit::Done(_)))).await;
            }
            if let Ok(Commit::Done(done)) = &result {
                if shape.entries == 0 {
                    self.assert_read(fence.agentable, &done.events).await;
                }
                twin.counted.iter_mut().for_each(|of| of.commit(shape));
            }
            is_done = matches!(result, Ok(Commit::Done(_)));
            all.push(learned(&result));
        }
        all.join("\n")
    }

    /// Asks whether a step with records was committed.
    async fn is_committed(&self, fence: &Fence, step: &Step) -> houston_store::Result<Commit> {
        assert!(self.store.runs().was_committed(fence, step.write).await?);
        Ok(Commit::AlreadyCommitted)
    }
}
