use std::sync::Arc;

use chrono::DateTime;
use houston_domain::client_offer::ClientTool;
use houston_domain::id::{AgentableId, FeedItemId, MemoryId, NoteId, RunId, SessionId, TenantId, UserId};
use houston_domain::tool_call::{ToolCall, ToolErrorCode, ToolResponse};
use serde_json::{Value, json};

use super::*;

fn offer() -> Offer {
    let mut registry = Registry::default();
    let names: Vec<String> = builtin::all(&Outside::default())
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
        tenant: TenantId(nil),
        agentable: AgentableId(nil),
        user: UserId(nil),
        run: RunId(nil),
        idempotency_key: String::new(),
        now: DateTime::UNIX_EPOCH,
        zone: chrono_tz::Europe::Berlin,
        tasks: std::sync::Arc::new([]),
        reached: std::sync::Arc::new([]),
        guards: std::sync::Arc::new([]),
        skills: None,
        files: None,
        stop: tokio_util::sync::CancellationToken::new(),
        progress: crate::Progress::default(),
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

/// The call as its tool has understood it.
fn record(name: &str, input: Value) -> String {
    match plan(name, input) {
        Plan::Record(record) => format!("{record:?}"),
        other => panic!("expected a record, got {other:?}"),
    }
}

#[test]
fn message_is_planned_with_its_response() {
    let plan = plan("send_message", json!({"content": "hi"}));
    let Plan::Message { content, response } = plan else { panic!("{plan:?}") };
    assert_eq!((content.as_str(), response.text()), ("hi", "Message sent."));
}

#[test]
fn good_arguments_become_records() {
    let note = NoteId(uuid());
    let notes = |query: &str| format!("ListNotes(Listing {{ {query} }})");
    for (name, input, expected) in [
        (
            "create_note",
            json!({"title": "a", "content": "b"}),
            r#"CreateNote { title: "a", content: "b" }"#.to_owned(),
        ),
        ("list_notes", json!({}), notes("query: None, limit: None, before: None")),
        (
            "list_notes",
            json!({"query": "milk", "limit": 3, "before": note}),
            notes(&format!(r#"query: Some("milk"), limit: Some(3), before: Some({note})"#)),
        ),
        ("read_note", json!({"note_id": note}), format!("ReadNote {{ note_id: {note} }}")),
        (
            "update_note",
            json!({"note_id": note, "title": "t"}),
            format!(r#"UpdateNote {{ note_id: {note}, title: Some("t"), content: None }}"#),
        ),
        ("delete_note", json!({"note_id": note}), format!("DeleteNote {{ note_id: {note} }}")),
        (
            "manage_learning",
            json!({"action": "add", "content": "likes tea"}),
            r#"ManageLearning { action: Add, content: Some("likes tea"), learning_id: None }"#.to_owned(),
        ),
        (
            "list_learnings",
            json!({"limit": 20}),
            "ListLearnings(Listing { query: None, limit: Some(20), before: None })".to_owned(),
        ),
    ] {
        assert_eq!(record(name, input.clone()), expected, "{name} {input}");
    }
}

#[test]
fn good_arguments_of_user_data_become_records() {
    let (memory, item) = (MemoryId(uuid()), FeedItemId(uuid()));
    for (name, input, expected) in [
        ("read_profile", json!({}), "ReadProfile".to_owned()),
        (
            "update_profile",
            json!({"list": "aims", "new": "sail"}),
            r#"UpdateProfile { list: Aims, old: None, new: Some("sail") }"#.to_owned(),
        ),
        (
            "update_profile",
            json!({"list": "facts", "old": "a", "new": "b"}),
            r#"UpdateProfile { list: Facts, old: Some("a"), new: Some("b") }"#.to_owned(),
        ),
        (
            "update_profile",
            json!({"list": "facts", "old": "a"}),
            r#"UpdateProfile { list: Facts, old: Some("a"), new: None }"#.to_owned(),
        ),
        ("read_custom_instructions", json!({}), "ReadCustomInstructions".to_owned()),
        (
            "manage_memory",
            json!({"action": "save", "content": "a"}),
            r#"Save { content: "a", instead_of: None }"#.to_owned(),
        ),
        (
            "manage_memory",
            json!({"action": "save", "content": "a", "memory_id": memory}),
            format!(r#"Save {{ content: "a", instead_of: Some({memory}) }}"#),
        ),
        (
            "manage_memory",
            json!({"action": "recall", "query": "a"}),
            r#"Recall { query: "a", limit: 5 }"#.to_owned(),
        ),
        ("manage_memory", json!({"action": "read", "memory_id": memory}), format!("Read({memory})")),
        ("manage_memory", json!({"action": "forget", "memory_id": memory}), format!("Forget({memory})")),
        (
            "create_feed_item",
            json!({"title": "t", "content": "c"}),
            r#"CreateFeedItem { title: "t", content: "c" }"#.to_owned(),
        ),
        (
            "list_feed_items",
            json!({}),
            "ListFeedItems(Listing { query: None, limit: None, before: None })".to_owned(),
        ),
        ("read_feed_item", json!({"feed_item_id": item}), format!("ReadFeedItem {{ feed_item_id: {item} }}")),
    ] {
        assert_eq!(record(name, input.clone()), expected, "{name} {input}");
    }
}

#[test]
fn no_tool_writes_instructions_and_schemas_are_closed() {
    for tool in builtin::all(&Outside::default()) {
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
fn a_tool_that_no_model_could_be_sent_is_left_out() {
    let client_tool = |name: &str, parameters: Value| {
        let description = String::new();
        crate::client::offered(&ClientTool {
            name: name.into(),
            description,
            parameters: Arc::new(parameters),
        })
    };
    let list = client_tool("list", json!({"type": "array", "items": {}}));
    let either =
        client_tool("either", json!({"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}));
    let offers = [offer().with_of_run(&[list.clone(), either.clone()]), offer().with(&[list, either])];
    for offer in offers {
        assert!(offer.get("list").is_none() && offer.get("get_current_time").is_some());
        let either = &offer.get("either").unwrap().definition().input_schema;
        assert_eq!(**either, json!({"type": "object", "properties": {"a": {}, "b": {}}}));
    }
}

#[test]
fn two_tools_must_not_share_a_name() {
    let mut registry = Registry::default();
    registry.add(builtin::all(&Outside::default()).remove(0)).unwrap();
    assert!(registry.add(builtin::all(&Outside::default()).remove(0)).is_err());
}

#[test]
fn history_is_searched_or_a_session_is_read() {
    let search = |input| record("search_agent_history", input);
    let with = |rest: &str| format!(r#"Search(SessionSearch {{ query: "x", {rest} }})"#);
    assert_eq!(
        search(json!({"query": "x", "timeframe": "last_month"})),
        with("timeframe: Some(LastMonth), from: None, to: None")
    );
    assert_eq!(
        search(json!({"query": "x", "from": "2026-11-03", "to": "2026-11-04"})),
        with("timeframe: None, from: Some(2026-11-03), to: Some(2026-11-04)")
    );
    let session = SessionId(uuid());
    let read = format!("Read {{ session: {session}, after: 0 }}");
    assert_eq!(search(json!({"session_id": session})), read);
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
        let offer = offer().in_situation(Situation { has_sessions, ..Default::default() });
        offer.definitions().iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()
    };
    let (before, after) = (names(false), names(true));
    let is_offered = |names: &[String]| names.iter().any(|name| name == "search_agent_history");
    assert!(!is_offered(&before) && is_offered(&after));
    let without: Vec<String> = after.into_iter().filter(|name| name != "search_agent_history").collect();
    assert_eq!(
        before, without,
        "all others keep their order, so that the beginning of the prompt stays the same"
    );
}

/// `jobs/README.md` says what switching them on adds to each model call: four bytes are about a token.
#[test]
fn tools_for_files_cost_about_850_tokens() {
    let names =
        ["read_file", "list_files", "find_files", "search_files", "write_file", "edit_file", "delete_file"];
    let offer = offer();
    let bytes = names.map(|name| {
        let definition = offer.get(name).unwrap().definition();
        name.len() + definition.description.len() + definition.input_schema.to_string().len()
    });
    let bytes: usize = bytes.iter().sum();
    assert!((3_200..=3_600).contains(&bytes), "{bytes}");
}

#[test]
fn wrong_arguments_of_tools_for_files_say_what_is_allowed() {
    for (name, input, reason) in [
        ("read_file", json!({"path": "../a"}), "`path`: it contains `..`"),
        ("read_file", json!({"path": "/etc/passwd"}), "`path`: it is absolute"),
        ("list_files", json!({"path": "C:"}), "`path`: it is absolute"),
        ("find_files", json!({"glob": "[a"}), "`glob` is no pattern"),
        ("search_files", json!({"regex": "(a"}), "`regex` is no regular expression: unclosed group"),
        ("search_files", json!({"regex": "a", "glob": "/b"}), "`glob` must be relative"),
        ("write_file", json!({"path": "a", "content": "\u{0}"}), "U+0000"),
        ("write_file", json!({"path": "a/", "content": ""}), "names a folder"),
        ("write_file", json!({"path": "a", "content": "", "expected_sha": "x"}), "`expected_sha` must be"),
        ("write_file", json!({"path": "a", "content": "x".repeat(1_048_577)}), "at most 1048576"),
        ("edit_file", json!({"path": "a", "old": "x"}), "missing field `new`"),
        ("delete_file", json!({"path": ""}), "names no file"),
    ] {
        let (code, text) = error(plan(name, input));
        assert!(code == ToolErrorCode::ValidationError && text.contains(reason), "{name}: {text}");
        assert!(text.starts_with(&format!("{name}: ")), "{text}");
    }
}
