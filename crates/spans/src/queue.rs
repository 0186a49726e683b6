//! Spans of messages and of the attempts of runs.

use std::time::Duration;

use houston_domain::id::{MessageId, RunId};

use crate::parent::TraceParent;
use crate::record::{KeyValue, SpanKind, attribute};
use crate::span::{Begun, Span, Spans};

/// An attempt that begins later than so long after its message has a trace of its own, which refers to that of the message:
/// traces of hours are of no use. One of a trace that is not sampled stays in it, or it would be sampled.
const LONGEST_TRACE: Duration = Duration::from_secs(60);

/// An attempt of a run.
#[derive(Debug, Clone, Copy)]
pub struct AttemptInfo {
    /// The queue of the run.
    pub queue: &'static str,
    /// The id of the run.
    pub run: RunId,
    /// Number of the attempt, from 1.
    pub number: i32,
    /// From the acceptance of the run to this attempt.
    pub waited: Duration,
}

fn of_queue(queue: &'static str, operation: &'static str) -> Vec<KeyValue> {
    vec![
        attribute("messaging.system", "houston"),
        attribute("messaging.operation.type", operation),
        attribute("messaging.operation.name", operation),
        attribute("messaging.destination.name", queue),
    ]
}

impl Span {
    /// A message is about to be posted, which may open a run of this queue.
    pub fn send(&self, queue: &'static str) -> Self {
        self.child(|| {
            let attributes = of_queue(queue, "send");
            Begun { name: format!("send {queue}").into(), kind: SpanKind::Producer, attributes }
        })
    }

    /// The message was posted; this run answers it.
    pub fn sent(&self, message: MessageId, run: RunId) {
        self.set(|_| {
            vec![
                attribute("messaging.message.id", message.to_string()),
                attribute("houston.run.id", run.to_string()),
            ]
        });
    }

    /// The attempt ended.
    pub fn attempted(&self, outcome: &'static str) {
        self.set(|_| vec![attribute("houston.outcome", outcome)]);
        if matches!(outcome, "lost" | "error" | "failed" | "dead_lettered") {
            self.failed(outcome);
        }
    }
}

impl Spans {
    /// An attempt begins. `parent` is stored with the run.
    pub fn attempt(&self, attempt: AttemptInfo, parent: Option<&TraceParent>) -> Span {
        let AttemptInfo { queue, run, number, waited } = attempt;
        let (parent, link) = match parent {
            Some(link) if waited > LONGEST_TRACE && link.0.is_sampled => (None, Some(link)),
            parent => (parent, None),
        };
        let make = || {
            let mut attributes = of_queue(queue, "process");
            attributes.push(attribute("houston.run.id", run.to_string()));
            attributes.push(attribute("houston.attempt", i64::from(number)));
            Begun { name: format!("process {queue}").into(), kind: SpanKind::Consumer, attributes }
        };
        self.begin(make, parent, link)
    }
}
