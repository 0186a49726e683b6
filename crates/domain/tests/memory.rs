//! Peak memory of reading a conversation document that a client sends.

use std::io::BufReader;

use houston_domain::conversation::Conversation;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

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
    let document = document(50_000);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let conversation: Conversation = serde_json::from_reader(BufReader::new(document.as_bytes())).unwrap();
    conversation.check().unwrap();
    let taken = MEMORY.peak_usage() - before;
    assert!(taken <= 3 * document.len(), "{taken} bytes for a document of {}", document.len());
}
