//! Facts of Houston's own, as `CUSTOM` events carry them.

use std::borrow::Cow;

use houston_domain::compression::Reason;
use houston_domain::id::{AgentId, MessageId, RunId, SessionId, TeamId};
use houston_domain::message::{MessageType, Source};
use houston_domain::session::CompletionReason;
use houston_domain::team::RoutedBy;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema;
use crate::time::Time;

/// The `name` and the `value` of a `CUSTOM` event, e.g.
/// `{"type":"CUSTOM","name":"houston.title.set","value":{"title":"A trip to Rome"}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "name", content = "value")]
pub enum Fact<'a> {
    /// A person, or Houston itself, posted a message.
    #[serde(rename = "houston.message.posted")]
    MessagePosted { message: Box<PostedMessage<'a>> },
    /// A worker begins to work on the run: the first attempt is 1.
    #[serde(rename = "houston.attempt.started")]
    AttemptStarted { attempt: i32, iteration: u32 },
    /// The attempt failed, and there will be another: the `attempt`th retry of at most `of`.
    #[serde(rename = "houston.retry.scheduled")]
    RetryScheduled { attempt: i32, of: i32, retry_at: Time, code: Cow<'a, str>, message: Cow<'a, str> },
    /// The worker stopped, and another takes the run over.
    #[serde(rename = "houston.run.handed_over")]
    HandedOver { iteration: u32 },
    /// A model failed, and another was asked: both as `provider/model`.
    #[serde(rename = "houston.model.fallback")]
    ModelFallback { from: Cow<'a, str>, to: Cow<'a, str>, code: Cow<'a, str>, message: Cow<'a, str> },
    /// A team's router picked the agent that answers.
    #[serde(rename = "houston.team.routed")]
    TeamRouted {
        #[schema(value_type = schema::TeamId)]
        team_id: TeamId,
        #[schema(value_type = schema::AgentId)]
        agent_id: AgentId,
        #[schema(value_type = String)]
        agent_name: Cow<'a, str>,
        #[schema(value_type = schema::RoutedBy)]
        by: RoutedBy,
        #[schema(value_type = String)]
        reason: Cow<'a, str>,
    },
    /// A session was closed.
    #[serde(rename = "houston.session.archived")]
    SessionArchived {
        #[schema(value_type = schema::SessionId)]
        session_id: SessionId,
        number: i64,
        #[schema(value_type = schema::CompletionReason)]
        completion_reason: CompletionReason,
        #[schema(value_type = schema::Time)]
        started_at: Time,
        #[schema(value_type = schema::Time)]
        completed_at: Time,
    },
    /// The beginning of the context was replaced by a summary.
    #[serde(rename = "houston.context.compressed")]
    ContextCompressed {
        #[schema(value_type = schema::CompressionReason)]
        reason: Reason,
        entries_before: usize,
        entries_after: usize,
        tokens_before: u64,
        tokens_after: u64,
        /// The model that summarised; without one, the summary is an extract.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        model: Option<Cow<'a, str>>,
    },
    /// The agentable has a title.
    #[serde(rename = "houston.title.set")]
    TitleSet { title: Cow<'a, str> },
}

/// A message as `houston.message.posted` carries it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PostedMessage<'a> {
    #[schema(value_type = schema::MessageId)]
    pub id: MessageId,
    #[schema(value_type = schema::Source)]
    pub source: Source,
    #[schema(value_type = schema::MessageType)]
    pub message_type: MessageType,
    #[schema(value_type = String)]
    pub content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::MessageMetadata>)]
    pub metadata: Option<Cow<'a, Value>>,
    #[schema(value_type = schema::RunId)]
    pub run_id: RunId,
    /// Its position in the agentable's events.
    pub seq: i64,
    #[schema(value_type = schema::Time)]
    pub created_at: Time,
}
