//! Putting a stream together: stored events, and those that follow from messages and runs.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::event::derived::{RunEnd, RunRow, of_message};
use houston_domain::event::{Committed, Event, MessageBody};
use houston_domain::id::{MessageId, RunId};
use houston_domain::model::{PricedApart, Usage};
use houston_domain::run::RunStatus;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::stream_metadata;
use crate::message::{message_type, source};

/// A message as it is read for a stream.
#[derive(Debug)]
pub(crate) struct StreamMessage {
    pub(super) id: MessageId,
    pub(super) seq: i64,
    pub(super) at: DateTime<Utc>,
    pub(super) source: String,
    pub(super) message_type: String,
    pub(super) content: String,
    pub(super) metadata: Value,
}

impl StreamMessage {
    /// A stored event that names it.
    pub(super) fn named_by(self, event: Event, run_id: RunId) -> Committed {
        let body = body(&self.source, &self.message_type, self.content, self.metadata);
        Committed { seq: self.seq, run_id, at: self.at, event, body: Some(body) }
    }

    /// Its event, if that follows from it, in the stream of `run`.
    pub(super) fn committed(self, run: RunId) -> Option<Committed> {
        let (seq, at) = (self.seq, self.at);
        let body = body(&self.source, &self.message_type, self.content, self.metadata);
        let event = of_message(body.source, body.message_type, self.id)?;
        Some(Committed { seq, run_id: run, at, event, body: Some(body) })
    }
}

/// The content of a message, for its event.
pub(super) fn body(from: &str, kind: &str, content: String, metadata: Value) -> MessageBody {
    MessageBody {
        source: source(from),
        message_type: message_type(kind),
        content,
        metadata: stream_metadata(metadata),
    }
}

/// A run as it is read for a stream.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamRun {
    id: Uuid,
    first_seq: i64,
    created_at: DateTime<Utc>,
    started_seq: Option<i64>,
    started_at: Option<DateTime<Utc>>,
    started_message_id: Option<Uuid>,
    last_seq: Option<i64>,
    ended_at: Option<DateTime<Utc>>,
    status: String,
    iterations: u32,
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    reasoning_tokens: u64,
    /// As a decimal number, with its trailing zeros.
    last_cost: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
}

impl From<StreamRun> for RunRow {
    fn from(run: StreamRun) -> Self {
        let end = RunEnd {
            status: RunStatus::from_name(&run.status).unwrap_or(RunStatus::Failed),
            iterations: run.iterations,
            usage: Usage {
                input_tokens: run.input_tokens,
                output_tokens: run.output_tokens,
                cache_read_tokens: run.cache_read_tokens,
                cache_write_tokens: run.cache_write_tokens,
                reasoning_tokens: run.reasoning_tokens,
                cost: run.last_cost.and_then(|cost| cost.parse().ok()),
                long_cache_write_tokens: 0,
                billed: None,
                tier: None,
                apart: PricedApart::NOTHING,
            },
            error_code: run.error_code,
            error_message: run.error_message,
        };
        let first = run.started_seq.zip(run.started_at).zip(run.started_message_id);
        Self {
            queued: (run.first_seq, run.created_at),
            first_attempt: first.map(|((seq, at), message)| (seq, at, MessageId(message))),
            end: run.last_seq.zip(run.ended_at).map(|(seq, at)| (seq, at, end)),
        }
    }
}

/// Rows of a stretch of a stream.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    /// Stored events, with their runs.
    pub(super) events: Vec<Committed>,
    pub(super) messages: Vec<StreamMessage>,
    /// The runs that the stretch is part of.
    pub(super) runs: Vec<StreamRun>,
}

impl Stretch {
    /// The events at positions above `after`, up to `to`, in order.
    pub(super) fn events(self, after: i64, to: i64) -> Vec<Committed> {
        let mut begins: Vec<(i64, RunId)> =
            self.runs.iter().map(|run| (run.first_seq, RunId(run.id))).collect();
        begins.sort_unstable_by_key(|(first_seq, _)| *first_seq);
        // Runs of an agentable never overlap.
        let run_at = |seq: i64| {
            let before = begins.partition_point(|(first_seq, _)| *first_seq <= seq);
            before.checked_sub(1).and_then(|nth| begins.get(nth)).map(|(_, run)| *run)
        };
        let mut events: BTreeMap<i64, Committed> = BTreeMap::new();
        for run in self.runs {
            let run_id = RunId(run.id);
            for (seq, at, event) in RunRow::from(run).events() {
                events.insert(seq, Committed { seq, run_id, at, event, body: None });
            }
        }
        let of_messages = self.messages.into_iter().filter_map(|message| {
            let run = run_at(message.seq)?;
            message.committed(run)
        });
        // A stored event takes precedence over one that follows.
        for event in of_messages.chain(self.events) {
            events.insert(event.seq, event);
        }
        events.into_values().filter(|event| event.seq > after && event.seq <= to).collect()
    }
}

/// The id reserved for the message of the iteration that begins with the event, and the iteration's number; `None` if
/// none begins.
pub(super) fn next_message(event: &Event) -> Option<(MessageId, u32)> {
    match event {
        Event::AttemptStarted { next_message_id, iteration, .. } => Some((*next_message_id, *iteration)),
        Event::StepFinished { next_message_id, iteration } => Some((*next_message_id, iteration + 1)),
        _ => None,
    }
}
