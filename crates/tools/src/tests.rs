use chrono::DateTime;
use houston_domain::id::{AgentableId, FeedItemId, MemoryId, NoteId, RunId, SessionId, UserId};
use houston_domain::knowledge::{KnowledgeAction, ListQuery};
use houston_domain::profile::{ProfileChange, ProfileList};
use houston_domain::session::{HistoryQuery, Timeframe};
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
    offer().plan(&ToolCall { id: "c".into(), name: name.into(), input, malformed: None }, &context())
}

/// A call of a user in Berlin, at 1970-01-01T00:00:00Z.
fn context() -> CallContext {
    let nil = uuid();
    CallContext {
        agentable: AgentableId(nil),
        user: UserId(nil),
        run: RunId(nil),
        idempotency_key: String::new(),
        now: DateTime::UNIX_EPOCH,
        zone: chrono_tz::Europe::Berlin,
        stop: tokio_util::sync::CancellationToken::new(),
    }
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
    assert!(matches!(
        plan("manage_learning", json!({"action": "add", "content": "likes tea"})),
        Plan::Record(Record::AddLearning { .. })
    ));
}

/// The [`KnowledgeAction`] action of a call.
fn knowledge(name: &str, input: Value) -> KnowledgeAction {
    match plan(name, input) {
        Plan::Record(Record::Knowledge(knowledge)) => knowledge,
        other => panic!("expected knowledge, got {other:?}"),
    }
}

#[test]
fn notes_and_learnings_are_listed_read_and_changed() {
    let note = NoteId(uuid());
    let words = ListQuery { query: Some("milk".to_owned()), limit: 3, before: Some(note) };
    let all = ListQuery { query: None, limit: 10, before: None };
    let text = |text: &str| text.to_owned();
    for (name, input, wanted) in [
        ("list_notes", json!({}), KnowledgeAction::ListNotes(all)),
        (
            "list_notes",
            json!({"query": "milk", "limit": 3, "before": note}),
            KnowledgeAction::ListNotes(words),
        ),
        ("read_note", json!({"note_id": note}), KnowledgeAction::ReadNote(note)),
        (
            "update_note",
            json!({"note_id": note, "title": "t"}),
            KnowledgeAction::UpdateNote { id: note, title: Some(text("t")), content: None },
        ),
        ("delete_note", json!({"note_id": note}), KnowledgeAction::DeleteNote(note)),
        (
            "list_learnings",
            json!({"limit": 20}),
            KnowledgeAction::ListLearnings(ListQuery { query: None, limit: 20, before: None }),
        ),
    ] {
        assert_eq!(knowledge(name, input.clone()), wanted, "{name} {input}");
    }
}

#[test]
fn profile_is_read_and_changed() {
    let text = |text: &str| text.to_owned();
    for (name, input, wanted) in [
        ("read_profile", json!({}), KnowledgeAction::ReadProfile),
        (
            "update_profile",
            json!({"list": "aims", "new": "sail"}),
            KnowledgeAction::UpdateProfile {
                list: ProfileList::Aims,
                change: ProfileChange::Add(text("sail")),
            },
        ),
        (
            "update_profile",
            json!({"list": "facts", "old": "a", "new": "b"}),
            KnowledgeAction::UpdateProfile {
                list: ProfileList::Facts,
                change: ProfileChange::Replace { old: text("a"), new: text("b") },
            },
        ),
        (
            "update_profile",
            json!({"list": "facts", "old": "a"}),
            KnowledgeAction::UpdateProfile {
                list: ProfileList::Facts,
                change: ProfileChange::Remove(text("a")),
            },
        ),
        ("read_custom_instructions", json!({}), KnowledgeAction::ReadCustomInstructions),
    ] {
        assert_eq!(knowledge(name, input.clone()), wanted, "{name} {input}");
    }
}

#[test]
fn memories_and_feed_items_are_listed_read_and_changed() {
    let (memory, item) = (MemoryId(uuid()), FeedItemId(uuid()));
    let text = |text: &str| text.to_owned();
    for (name, input, wanted) in [
        (
            "manage_memory",
            json!({"action": "save", "content": "a"}),
            KnowledgeAction::SaveMemory { content: text("a"), instead_of: None },
        ),
        (
            "manage_memory",
            json!({"action": "save", "content": "a", "memory_id": memory}),
            KnowledgeAction::SaveMemory { content: text("a"), instead_of: Some(memory) },
        ),
        (
            "manage_memory",
            json!({"action": "recall", "query": "a"}),
            KnowledgeAction::RecallMemories { query: text("a"), limit: 5 },
        ),
        (
            "manage_memory",
            json!({"action": "read", "memory_id": memory}),
            KnowledgeAction::ReadMemory(memory),
        ),
        (
            "manage_memory",
            json!({"action": "forget", "memory_id": memory}),
            KnowledgeAction::ForgetMemory(memory),
        ),
        (
            "create_feed_item",
            json!({"title": "t", "content": "c"}),
            KnowledgeAction::CreateFeedItem { title: text("t"), content: text("c") },
        ),
        (
            "list_feed_items",
            json!({}),
            KnowledgeAction::ListFeedItems(ListQuery { query: None, limit: 10, before: None }),
        ),
        ("read_feed_item", json!({"feed_item_id": item}), KnowledgeAction::ReadFeedItem(item)),
    ] {
        assert_eq!(knowledge(name, input.clone()), wanted, "{name} {input}");
    }
}

#[test]
fn no_tool_writes_instructions_and_schemas_are_closed() {
    for tool in builtin::all() {
        let definition = tool.definition();
        let writes = definition.name.contains("custom_instruction") && !definition.name.starts_with("read_");
        assert!(!writes, "{} writes custom instructions, which every agent follows", definition.name);
        assert_eq!(definition.input_schema["type"], "object", "{}", definition.name);
        assert_eq!(definition.input_schema["additionalProperties"], false, "{}", definition.name);
    }
}

#[test]
fn bad_arguments_and_unknown_tools_become_error_answers() {
    let cases = [
        ("send_mesage", json!({}), ToolErrorCode::NotFound, "send_message"),
        ("send_message", json!({"text": "x"}), ToolErrorCode::ValidationError, "content"),
        ("send_message", json!({"content": " "}), ToolErrorCode::ValidationError, "empty"),
        ("create_note", json!({"title": 1}), ToolErrorCode::ValidationError, "string"),
        ("list_notes", json!({"limit": 1000}), ToolErrorCode::ValidationError, "1 to 50"),
        (
            "create_note",
            json!({"title": "a\nb", "content": "c"}),
            ToolErrorCode::ValidationError,
            "several lines",
        ),
        (
            "create_note",
            json!({"title": "ä".repeat(201), "content": "c"}),
            ToolErrorCode::ValidationError,
            "200",
        ),
        (
            "update_note",
            json!({"note_id": NoteId(uuid())}),
            ToolErrorCode::ValidationError,
            "`title`, `content`",
        ),
        ("read_note", json!({"note_id": "7"}), ToolErrorCode::ValidationError, "note_<32 hex digits>"),
        ("list_notes", json!({"query": "q".repeat(501)}), ToolErrorCode::ValidationError, "500"),
        ("list_learnings", json!({"limit": 21}), ToolErrorCode::ValidationError, "1 to 20"),
        (
            "update_profile",
            json!({"list": "hobbies", "new": "a"}),
            ToolErrorCode::ValidationError,
            "interests",
        ),
        ("update_profile", json!({"list": "facts"}), ToolErrorCode::ValidationError, "`old`, `new`"),
        (
            "update_profile",
            json!({"list": "facts", "new": "a".repeat(501)}),
            ToolErrorCode::ValidationError,
            "500",
        ),
        ("manage_memory", json!({"action": "recall"}), ToolErrorCode::ValidationError, "`query`"),
        ("manage_memory", json!({"action": "forget"}), ToolErrorCode::ValidationError, "`memory_id`"),
        (
            "manage_memory",
            json!({"action": "save", "content": "a".repeat(2001)}),
            ToolErrorCode::ValidationError,
            "2000",
        ),
        ("create_feed_item", json!({"title": "a"}), ToolErrorCode::ValidationError, "content"),
        ("manage_learning", json!({"action": "ad"}), ToolErrorCode::ValidationError, "add"),
        ("manage_learning", json!({"action": "remove"}), ToolErrorCode::ValidationError, "learning_id"),
        ("get_current_time", json!({"time_zone": "Mars"}), ToolErrorCode::ValidationError, "IANA"),
    ];
    for (name, input, code, hint) in cases {
        let (got, text) = error(plan(name, input));
        assert_eq!(got, code, "{text}");
        assert!(text.contains(hint), "`{text}` does not contain `{hint}`");
    }
}

#[test]
fn current_time_is_in_the_given_zone_or_the_users() {
    for (input, expected) in [
        (json!({"time_zone": "Asia/Tokyo"}), "1970-01-01T09:00:00+09:00 (Thursday, 09:00 JST)"),
        (json!({}), "1970-01-01T01:00:00+01:00 (Thursday, 01:00 CET)"),
    ] {
        match plan("get_current_time", input) {
            Plan::Answer(ToolResponse::Success { observation }) => assert_eq!(observation, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn malformed_arguments_are_quoted_in_the_error() {
    let call = ToolCall {
        id: "c".into(),
        name: "send_message".into(),
        input: json!({}),
        malformed: Some("{\"content\": \"hi".into()),
    };
    assert!(error(offer().plan(&call, &context())).1.contains("{\"content\": \"hi"));
}

#[test]
fn two_tools_must_not_share_a_name() {
    let mut registry = Registry::default();
    registry.add(builtin::all().remove(0)).unwrap();
    assert!(registry.add(builtin::all().remove(0)).is_err());
}

#[test]
fn history_is_searched_or_a_session_is_read() {
    let search = |input| match plan("search_agent_history", input) {
        Plan::Record(Record::SessionHistory(query)) => query,
        other => panic!("expected a search, got {other:?}"),
    };
    assert_eq!(
        search(json!({"query": "finances", "timeframe": "last_month"})),
        HistoryQuery::Search {
            query: "finances".into(),
            timeframe: Some(Timeframe::LastMonth),
            from: None,
            to: None
        }
    );
    let date = |day| chrono::NaiveDate::from_ymd_opt(2026, 11, day);
    assert_eq!(
        search(json!({"query": "x", "from": "2026-11-03", "to": "2026-11-04"})),
        HistoryQuery::Search { query: "x".into(), timeframe: None, from: date(3), to: date(4) }
    );
    let session = SessionId(uuid());
    assert_eq!(search(json!({"session_id": session})), HistoryQuery::Read { session, after: 0 });
    for (wrong, words) in [
        (json!({}), "`query` to search, or `session_id`"),
        (json!({"query": "x", "session_id": session}), "not both"),
        (json!({"query": "x", "timeframe": "today", "from": "2026-11-03"}), "not both"),
        (json!({"query": "x", "from": "2026-11-04", "to": "2026-11-03"}), "`to` must not be before `from`"),
        (json!({"query": " "}), "`query` must not be empty"),
        (json!({"query": "x", "timeframe": "last_decade"}), "`last_year`"),
    ] {
        let (code, error) = error(plan("search_agent_history", wrong));
        assert_eq!(code, ToolErrorCode::ValidationError);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn search_agent_history_is_offered_once_a_session_is_closed() {
    let names = |has_sessions| {
        let offer = offer().in_situation(Situation { has_sessions });
        let names: Vec<String> = offer.definitions().iter().map(|tool| tool.name.clone()).collect();
        (offer.get("search_agent_history").is_some(), names)
    };
    let (before, after) = (names(false), names(true));
    assert!(!before.0 && after.0);
    let without: Vec<String> = after.1.into_iter().filter(|name| name != "search_agent_history").collect();
    assert_eq!(
        before.1, without,
        "all others keep their order, so that the beginning of the prompt stays the same"
    );
}
