//! [`Happened`]: an event of the engine, for [`AgentBuilder::on`](crate::AgentBuilder::on).

use std::sync::Arc;

use chrono::{DateTime, Utc};
use houston_domain::event::Committed;
use houston_domain::event::topic::TopicPattern;
use houston_domain::id::{AgentableId, RunId};
use serde_json::Value;

use crate::error::Error;

/// An event that was committed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Happened {
    /// Its name, as `tool.called` or `run.finished`. Webhooks and triggers have the same names.
    pub topic: &'static str,
    /// The id of the conversation, as [`Conversation::id`](crate::Conversation::id) returns it.
    pub conversation: String,
    /// The position in the conversation: with its id, it names the event.
    pub seq: i64,
    /// The run.
    pub run: RunId,
    /// When it was committed.
    pub at: DateTime<Utc>,
    /// What happened, as the event streams of the API have it.
    pub data: Value,
}

/// What is called with events.
pub(crate) type Hear = Arc<dyn Fn(&Happened) + Send + Sync>;

/// A pattern of topics as the program has written it, and what is called.
pub(crate) type Wanted = (String, Hear);

/// Patterns that were checked.
pub(crate) struct Followers(Vec<(TopicPattern, Hear)>);

impl Followers {
    /// # Errors
    /// [`Error::Topic`]: what is wrong with a pattern, and what is allowed.
    pub(crate) fn new(wanted: Vec<Wanted>) -> Result<Self, Error> {
        let parse = |(pattern, hear): Wanted| match pattern.parse() {
            Ok(parsed) => Ok((parsed, hear)),
            Err(reason) => Err(Error::Topic { pattern, reason }),
        };
        wanted.into_iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls those that want the event.
    pub(crate) fn hear(&self, kind: &str, agentable: AgentableId, event: &Committed) {
        let topic = event.event.topic();
        let mut wanted = self.0.iter().filter(|(pattern, _)| pattern.matches(topic)).peekable();
        if wanted.peek().is_none() {
            return;
        }
        let happened = Happened {
            topic,
            conversation: agentable.public_id(kind),
            seq: event.seq,
            run: event.run_id,
            at: event.at,
            data: serde_json::to_value(&event.event).unwrap_or_default(),
        };
        for (_, hear) in wanted {
            hear(&happened);
        }
    }
}
