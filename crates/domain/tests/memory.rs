//! Peak memory of reading what clients send: conversation documents, and schemas of tools.

use std::io::BufReader;
use std::sync::Mutex;

use houston_domain::conversation::Conversation;
use houston_domain::tool_schema::{self, MAX_WRITTEN_BYTES};
use peak_alloc::PeakAlloc;
use serde_json::{Map, Value, json};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The memory is that of the process, so that one test measures at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Small entries need the most memory for their length.
fn document(entries: usize) -> String {
    let entry = |nth: usize| {
        let role = if nth.is_multiple_of(2) { "user" } else { "assistant" };
        format!(
            r#"{{"role":"{role}","content":[{{"type":"text","text":"entry"}}],"created_at":"2026-01-01T00:00:00Z"}}"#
        )
    };
    let history: Vec<String> = (0..entries).map(entry).collect();
    let history = history.join(",");
    format!(
        r#"{{"format":"houston.conversation","version":2,"kind":"goal","title":"t","history":[{history}]}}"#
    )
}

#[test]
fn reading_a_document_takes_at_most_three_times_its_length() {
    let _alone = ONE.lock();
    let document = document(50_000);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let conversation: Conversation = serde_json::from_reader(BufReader::new(document.as_bytes())).unwrap();
    conversation.check().unwrap();
    let taken = MEMORY.peak_usage() - before;
    assert!(taken <= 3 * document.len(), "{taken} bytes for a document of {}", document.len());
}

#[test]
fn reading_a_schema_takes_little_memory_whatever_it_refers_to() {
    let _alone = ONE.lock();
    let object = |of: Vec<(String, Value)>| Value::Object(Map::from_iter(of));
    let all =
        |count: usize, value: Value| object((0..count).map(|n| (format!("p{n}"), value.clone())).collect());
    let large = vec![0; 200_000];
    let wide = all(2000, json!({"type": "string"}));
    let hostile = [
        json!({"properties": all(4000, json!({"$ref": "#/$defs/b"})), "$defs": {"b": {"default": large}}}),
        json!({"properties": all(4000, json!({"$ref": "#/$defs/b"})), "$defs": {"b": {"if": {"const": large}}}}),
        json!({"allOf": vec![json!({"$ref": "#/$defs/w"}); 4000], "$defs": {"w": {"properties": wide}}}),
        json!({"allOf": (0..4000).map(|n| json!({"properties": {format!("p{n}"): {}}})).collect::<Vec<_>>()}),
        json!({"properties": {"a": {"enum": (0..80_000).collect::<Vec<_>>()}}}),
        json!({"required": (0..40_000).map(|n| format!("p{n}")).collect::<Vec<_>>()}),
    ];
    for schema in hostile {
        let length = schema.to_string().len();
        assert!(length <= MAX_WRITTEN_BYTES, "this test's schema is refused by its length: {length}");
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let read = tool_schema::read(&schema).map(drop);
        let taken = MEMORY.peak_usage() - before;
        assert!(taken <= 64 << 20, "{taken} bytes for a schema of {length}: {read:?}");
    }
}
