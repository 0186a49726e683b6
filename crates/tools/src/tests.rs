use chrono::DateTime;
use houston_domain::id::{AgentableId, RunId, UserId};
use houston_domain::tool_call::{Record, ToolCall, ToolErrorCode, ToolResponse};
use serde_json::{Value, json};

use super::*;

fn offer() -> Offer {
    let mut registry = Registry::default();
    let names: Vec<String> = builtin::all()
        .into_iter()
        .map(|tool| {
            let name = tool.definition().name.clone();
            registry.add(tool).unwrap();
            name
        })
        .collect();
    registry.offer(&names).unwrap()
}

fn plan(name: &str, input: Value) -> Plan {
    let nil = uuid();
    let context = CallContext {
        agentable: AgentableId(nil),
        user: UserId(nil),
        run: RunId(nil),
        idempotency_key: String::new(),
        now: DateTime::UNIX_EPOCH,
        stop: tokio_util::sync::CancellationToken::new(),
    };
    offer().plan(&ToolCall { id: "c".into(), name: name.into(), input, malformed: None }, &context)
}

fn uuid() -> uuid::Uuid {
    uuid::Uuid::nil()
}

fn error(plan: Plan) -> (ToolErrorCode, String) {
    match plan {
        Plan::Answer(ToolResponse::Failure { error, code }) => (code, error),
        other => panic!("expected a failure, got {other:?}"),
    }
}

#[test]
fn good_arguments_become_records() {
    assert!(matches!(
        plan("create_note", json!({"title": "a", "content": "b"})),
        Plan::Record(Record::CreateNote { title, content }) if title == "a" && content == "b"
    ));
    assert!(matches!(plan("list_notes", json!({})), Plan::Record(Record::ListNotes { limit: 10 })));
    assert!(matches!(
        plan("manage_learning", json!({"action": "add", "content": "likes tea"})),
        Plan::Record(Record::AddLearning { .. })
    ));
}

#[test]
fn bad_arguments_and_unknown_tools_become_answers_a_model_can_act_on() {
    let cases = [
        ("send_mesage", json!({}), ToolErrorCode::NotFound, "send_message"),
        ("send_message", json!({"text": "x"}), ToolErrorCode::ValidationError, "content"),
        ("send_message", json!({"content": " "}), ToolErrorCode::ValidationError, "empty"),
        ("create_note", json!({"title": 1}), ToolErrorCode::ValidationError, "string"),
        ("list_notes", json!({"limit": 1000}), ToolErrorCode::ValidationError, "1 to 50"),
        ("manage_learning", json!({"action": "ad"}), ToolErrorCode::ValidationError, "add"),
        ("manage_learning", json!({"action": "remove"}), ToolErrorCode::ValidationError, "learning_id"),
        ("get_current_time", json!({"time_zone": "Mars"}), ToolErrorCode::ValidationError, "IANA"),
    ];
    for (name, input, code, hint) in cases {
        let (got, text) = error(plan(name, input));
        assert_eq!(got, code, "{text}");
        assert!(text.contains(hint), "`{text}` does not say `{hint}`");
    }
}

#[test]
fn the_time_is_told_in_the_zone_asked_for() {
    match plan("get_current_time", json!({"time_zone": "Asia/Tokyo"})) {
        Plan::Answer(ToolResponse::Success { observation }) => {
            assert_eq!(observation, "1970-01-01T09:00:00+09:00 (Thursday, 09:00 JST)");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn arguments_that_were_no_json_are_shown_back() {
    let context = CallContext {
        agentable: AgentableId(uuid()),
        user: UserId(uuid()),
        run: RunId(uuid()),
        idempotency_key: String::new(),
        now: DateTime::UNIX_EPOCH,
        stop: tokio_util::sync::CancellationToken::new(),
    };
    let call = ToolCall {
        id: "c".into(),
        name: "send_message".into(),
        input: json!({}),
        malformed: Some("{\"content\": \"hi".into()),
    };
    assert!(error(offer().plan(&call, &context)).1.contains("{\"content\": \"hi"));
}

#[test]
fn two_tools_may_not_share_a_name() {
    let mut registry = Registry::default();
    registry.add(builtin::all().remove(0)).unwrap();
    assert!(registry.add(builtin::all().remove(0)).is_err());
}
