//! Events of all agentables as CloudEvents 1.0: the bodies of webhooks, and the streams of a tenant and of a user.

use houston_domain::event::Committed;
use houston_domain::event::topic::EventOwner;
use houston_domain::id::{RunId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::time::Time;

/// The media type of one event.
pub const CONTENT_TYPE: &str = "application/cloudevents+json";

/// What happened to an agentable, without texts that people or models wrote: those are read with the ids.
///
/// ```json
/// {"specversion": "1.0", "id": "goal_0190…:12", "source": "/v1/goals/goal_0190…", "type": "run.finished",
///  "time": "2026-11-26T09:00:00.000Z", "datacontenttype": "application/json",
///  "data": {"user_id": "user_0190…", "agentable_id": "goal_0190…", "run_id": "run_0190…", "seq": 12, "status": "completed"}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CloudEvent {
    /// Always `1.0`.
    pub specversion: String,
    /// The agentable and the position in its stream. An event that arrives twice has the same id.
    pub id: String,
    /// The path of the agentable.
    pub source: String,
    /// The topic, such as `run.finished`. Ignore those that you do not know.
    #[serde(rename = "type")]
    pub topic: String,
    /// When it was committed.
    pub time: Time,
    /// Always `application/json`.
    pub datacontenttype: String,
    pub data: CloudEventData,
}

/// Whose event it is, and its ids, names, numbers and states. Which of these there are depends on the topic.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CloudEventData {
    /// The user of the agentable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The agentable: the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<houston_domain::id::AgentableId>))]
    pub agentable_id: Option<String>,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The position in the agentable's stream: `GET …/events?after=` of one less begins with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::schema::AnyJson>))]
    pub fields: Map<String, Value>,
}

impl CloudEvent {
    /// An event of an agentable.
    pub fn of(owner: &EventOwner, committed: &Committed) -> Self {
        let agentable = owner.agentable.public_id(&owner.kind);
        let (id, source) = (event_id(owner, committed.seq), format!("/v1/{}s/{agentable}", owner.kind));
        let data = CloudEventData {
            user_id: Some(owner.user),
            agentable_id: Some(agentable),
            run_id: Some(committed.run_id),
            seq: Some(committed.seq),
            fields: committed.event.outline(),
        };
        Self { data, ..Self::plain(id, source, committed.event.topic(), Time(committed.at)) }
    }

    /// An event that reports nothing of an agentable, such as `webhook.test`.
    pub fn plain(id: String, source: String, topic: &str, time: Time) -> Self {
        Self {
            specversion: "1.0".to_owned(),
            id,
            source,
            topic: topic.to_owned(),
            time,
            datacontenttype: "application/json".to_owned(),
            data: CloudEventData::default(),
        }
    }
}

/// The id of the event at a position of an agentable's stream.
pub fn event_id(owner: &EventOwner, seq: i64) -> String {
    format!("{}:{seq}", owner.agentable.public_id(&owner.kind))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use houston_domain::event::Event;
    use houston_domain::id::AgentableId;
    use houston_domain::tool_call::ToolErrorCode;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn event_is_short_and_can_be_read_back() {
        let id = Uuid::from_u128(0x0190);
        let owner = EventOwner { agentable: AgentableId(id), kind: "goal".into(), user: UserId(id) };
        let event = Event::ToolReturned {
            call_id: "call_1".into(),
            content: "a long text".into(),
            is_error: true,
            code: Some(ToolErrorCode::NotFound),
            message_id: id.into(),
        };
        let committed = Committed { seq: 12, run_id: RunId(id), at: DateTime::UNIX_EPOCH, event, body: None };
        let event = CloudEvent::of(&owner, &committed);
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(written["type"], "tool.returned");
        assert_eq!(written["id"], format!("{}:12", written["data"]["agentable_id"].as_str().unwrap()));
        assert_eq!(written["data"]["call_id"], "call_1");
        assert_eq!(
            (&written["data"]["is_error"], &written["data"]["code"]),
            (&true.into(), &"NOT_FOUND".into())
        );
        assert!(!written.to_string().contains("a long text"));
        assert_eq!(serde_json::from_value::<CloudEvent>(written).unwrap(), event);
    }
}
