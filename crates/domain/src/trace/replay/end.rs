//! What is compared when all lines were replayed: the steps and messages that events report, and the end of the run.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{Difference, Replay, of_next};
use crate::agent::step::Next;
use crate::event::Event;
use crate::run::RunStatus;
use crate::trace::Line;

impl Replay<'_> {
    /// Compares the ends of steps and the messages with the events that report them.
    pub(super) fn check_steps(&mut self) -> Result<(), Box<Difference>> {
        if self.trace.lines.iter().all(|line| !matches!(line, Line::Event { .. })) {
            return Ok(());
        }
        let steps: BTreeSet<u32> = self.steps.iter().map(|(_, step)| *step).collect();
        for iteration in std::mem::take(&mut self.followed) {
            if !steps.contains(&iteration) {
                return Err(self.differs("event", Value::Null, json!({"step_finished": iteration})));
            }
            self.events += 1;
        }
        if let Some((line, step)) = self.steps.iter().find(|(_, step)| *step > self.iterations).copied() {
            self.line = line;
            return Err(self.differs("event", json!({"step_finished": step}), Value::Null));
        }
        let (replies, sent) = self.said;
        if replies > sent {
            return Err(self.differs("event", json!({"messages": sent}), json!({"messages": replies})));
        }
        self.events += sent;
        Ok(())
    }

    pub(super) fn end(&mut self, at: DateTime<Utc>, event: &Event) -> Result<RunStatus, Box<Difference>> {
        let Event::RunFinished { status, .. } = event else { return Ok(RunStatus::Failed) };
        self.events += 1;
        if self.iterations == 0 && self.run.is_none() && self.own == 0 {
            return Ok(*status);
        }
        // A clock ends a run while it waits for its model; everything else ends it at its last entry.
        if *status == RunStatus::MaxDuration {
            self.now = at;
        }
        let next = self.next();
        let is_same = match (status, &next) {
            (RunStatus::Cancelled | RunStatus::Failed | RunStatus::DeadLettered, _) => true,
            (RunStatus::MaxDuration, Next::CallTools(_)) => true,
            (status, next) => *next == Next::Done(*status),
        };
        if is_same {
            return Ok(*status);
        }
        Err(self.differs("end", json!({"done": status}), of_next(&next)))
    }
}
