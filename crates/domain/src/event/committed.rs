//! Events as they are committed, and what streams get of them while they are open.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallProgress, Delta, Event};
use crate::id::{AgentableId, RunId};
use crate::message::{MessageType, Source};

/// The content of the message an event refers to, joined in so that a stream needs no second query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageBody {
    /// The author.
    pub source: Source,
    /// Text message or tool cell.
    pub message_type: MessageType,
    /// The text, Markdown.
    pub content: String,
    /// The metadata; `null` when there is none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
}

/// A committed event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    /// Position in the agentable's stream, without gaps.
    pub seq: i64,
    /// The run it belongs to.
    pub run_id: RunId,
    /// When it was committed.
    pub at: DateTime<Utc>,
    /// What happened.
    pub event: Event,
    /// The content of the message the event refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<MessageBody>,
}

/// What the delta bus carries to the open streams of one agentable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Live {
    /// Text while the model writes it.
    Delta(Delta),
    /// How far a tool call is.
    Progress(CallProgress),
    /// Events that were just committed, in order and without gaps among them.
    Committed(Vec<Committed>),
    /// Events were committed: read them from Postgres.
    Nudge,
    /// A stream needs the text written so far; the worker that drives the run answers with deltas from offset
    /// 0.
    TranscriptWanted,
    /// A cancel of this run was requested: the worker that drives it must check Postgres now.
    CancelRequested(RunId),
}

/// A live item and its agentable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveItem {
    /// The agentable.
    pub agentable: AgentableId,
    /// The item.
    pub live: Live,
}
