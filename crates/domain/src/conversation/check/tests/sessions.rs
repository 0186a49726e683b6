use chrono::TimeDelta;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::*;
use super::exported;
use crate::conversation::{ExportedCompression, ExportedResult, HistoryEntry};
use crate::history::Role;
use crate::id::ResultId;
use crate::session::CompletionReason;

/// Sessions of one hour each with these first and last entries.
fn closed(ranges: &[(usize, usize)]) -> Vec<ClosedSession> {
    let at =
        |hour: usize| chrono::DateTime::UNIX_EPOCH + TimeDelta::hours(i64::try_from(hour + 500_000).unwrap());
    let session = |(nth, (first_position, last_position)): (usize, &(usize, usize))| ClosedSession {
        first_position: *first_position,
        last_position: *last_position,
        completion_reason: CompletionReason::Reset,
        summary: "They booked hotels.".to_owned(),
        summary_source: SummarySource::Model,
        pending: false,
        message_count: Some(2),
        token_count: Some(40),
        started_at: at(nth),
        completed_at: at(nth + 1),
    };
    ranges.iter().enumerate().map(session).collect()
}

/// Two sessions, a compression in each stretch, and a large result that the second entry refers to.
fn archived() -> Conversation {
    let mut document = exported();
    let id: ResultId = "result_0192a3b4c5d67e8f9a0b1c2d3e4f5061".parse().unwrap();
    if let Block::ToolResult { content, .. } = &mut document.history[2].content[0] {
        *content = format!("the beginning … the whole of it is kept as {id}: read on");
    }
    let extra: Vec<HistoryEntry> = document.history[4..].to_vec();
    document.history.extend(extra);
    document.sessions = closed(&[(1, 4), (5, 6)]);
    let compression = |through_position| ExportedCompression {
        through_position,
        summary: "They travel.".to_owned(),
        reason: crate::compression::CompressionReason::Budget,
        entries_before: 40,
        entries_after: 10,
        tokens_before: 28_000,
        tokens_after: 9_000,
        model: Some("fake/model".to_owned()),
        cost: Some("0.01".parse().unwrap()),
        created_at: document.history[0].created_at,
    };
    document.compressions = vec![compression(1), compression(4), compression(7)];
    let (call_id, tool, content) = ("a".to_owned(), "book".to_owned(), "all of it".to_owned());
    let created_at = document.history[0].created_at;
    document.results = vec![ExportedResult { id, call_id, tool, content, created_at }];
    document.with_digests()
}

#[test]
fn sessions_compressions_and_results_round_trip() {
    let document = archived();
    assert_eq!(document.check(), Ok(()));
    let text = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<Conversation>(&text).unwrap(), document);
    assert_eq!(document.closed_entry_count(), 6);
    let mut all_closed = document;
    all_closed.sessions = closed(&[(1, 4), (5, 6), (7, 8)]);
    assert_eq!(all_closed.check(), Ok(()), "all entries may belong to closed sessions");
}

#[test]
fn errors_name_the_session_and_field() {
    type Change = fn(&mut Conversation);
    let cases: [(Change, &str, &str); 27] = [
        (|c| c.sessions[0].first_position = 2, "/sessions/0/first_position", "begins with the first entry"),
        (|c| c.sessions[0].first_position = 0, "/sessions/0/first_position", "must be 1"),
        (|c| c.sessions[1].first_position = 4, "/sessions/1/first_position", "belongs to two"),
        (
            |c| c.sessions[1].first_position = 6,
            "/sessions/1/first_position",
            "from 5 on belong to no session",
        ),
        (|c| drop(c.sessions.remove(0)), "/sessions/0/first_position", "first entry"),
        (|c| c.sessions.swap(0, 1), "/sessions/0/first_position", "first entry"),
        (|c| c.sessions[1].last_position = 4, "/sessions/1/last_position", "less than `first_position`"),
        (|c| c.sessions[1].last_position = 9, "/sessions/1/last_position", "8 entries"),
        (|c| c.sessions = closed(&[(1, 2), (3, 6)]), "/sessions/0/last_position", "the tool call `a`"),
        (|c| c.sessions = closed(&[(1, 3), (4, 6)]), "/sessions/1/first_position", "an answer"),
        (|c| c.sessions = closed(&[(1, 5)]), "/sessions/0/last_position", "begins with an answer"),
        (|c| c.sessions[1].summary = " ".into(), "/sessions/1/summary", "must not be empty"),
        (|c| c.sessions[0].summary = "x".repeat(4_201), "/sessions/0/summary", "4200"),
        (|c| c.sessions[0].pending = true, "/sessions/0/summary_source", "must be `extract`"),
        (|c| c.sessions[0].message_count = None, "/sessions/0/message_count", "missing"),
        (|c| c.sessions[0].token_count = None, "/sessions/0/token_count", "missing"),
        (|c| c.sessions[1].message_count = Some(3), "/sessions/1/message_count", "2 texts and tool calls"),
        (|c| c.sessions[1].token_count = Some(u64::MAX), "/sessions/1/token_count", "at most"),
        (|c| c.sessions[0].completed_at -= TimeDelta::hours(2), "/sessions/0/completed_at", "`started_at`"),
        (
            |c| c.sessions[1].started_at -= TimeDelta::minutes(1),
            "/sessions/1/started_at",
            "of the session before it",
        ),
        (
            |c| c.compressions[0].through_position = 2,
            "/compressions/0/through_position",
            "neither can be sent",
        ),
        (|c| c.compressions[2].through_position = 9, "/compressions/2/through_position", "from 1 to 8"),
        (|c| c.compressions[2].through_position = 0, "/compressions/2/through_position", "is 0"),
        (|c| c.compressions[1].summary.clear(), "/compressions/1/summary", "empty"),
        (|c| c.results[0].id = ResultId(uuid::Uuid::nil()), "/results/0/id", "no entry"),
        (|c| c.results.push(c.results[0].clone()), "/results/1/id", "another result"),
        (|c| c.results[0].content.push('\0'), "/results/0/content", "U+0000"),
    ];
    for (nth, (change, pointer, words)) in cases.into_iter().enumerate() {
        let mut document = archived();
        change(&mut document);
        let invalid = document.check().unwrap_err();
        assert_eq!(invalid.pointer, pointer, "{nth}: {invalid}");
        assert!(invalid.reason.contains(words), "{nth}: {invalid}");
    }
    let mut pending = archived();
    pending.sessions[0] = ClosedSession::pending(1, &pending.history[..4]);
    pending.sessions[0].completed_at = pending.sessions[0].started_at;
    pending.sessions.truncate(1);
    pending.compressions.clear();
    assert_eq!(pending.check(), Ok(()), "a pending summary may be left out");
    pending.sessions[0].message_count = Some(1);
    assert_eq!(pending.check().unwrap_err().pointer, "/sessions/0/message_count");
}

#[test]
fn unknown_names_are_refused_with_the_allowed_ones() {
    for (list, field, given, known) in [
        ("sessions", "completion_reason", json!("boredom"), "session_timeout"),
        ("sessions", "summary_source", json!("rumour"), "extract"),
        ("sessions", "message_count", json!(-1), "u32"),
        ("sessions", "title", json!("Tokyo"), "completion_reason"),
        ("compressions", "reason", json!("boredom"), "context_length"),
        ("results", "id", json!("run_0192a3b4c5d67e8f9a0b1c2d3e4f5061"), "result_<32 hex digits>"),
    ] {
        let mut document = serde_json::to_value(archived()).unwrap();
        document[list][0][field] = given;
        let message = serde_json::from_value::<Conversation>(document).unwrap_err().to_string();
        assert!(message.contains(known), "{message}");
    }
}

/// A history of turns (a question and its answer, with tool calls and their results between them), and the number of
/// entries of each turn.
fn turns() -> impl Strategy<Value = (Vec<HistoryEntry>, Vec<usize>)> {
    let at = chrono::DateTime::UNIX_EPOCH;
    let entry = move |role, block| HistoryEntry { role, content: vec![block], created_at: at };
    proptest::collection::vec(0..3_usize, 1..7).prop_map(move |turns| {
        let mut history = Vec::new();
        for calls in &turns {
            history.push(entry(Role::User, Block::text("Book it")));
            for nth in 0..*calls {
                let (id, name) = (format!("call_{nth}"), "book".to_owned());
                let answer = Block::ToolResult {
                    tool_use_id: id.clone(),
                    content: "ok".into(),
                    is_error: false,
                    code: None,
                };
                history
                    .push(entry(Role::Assistant, Block::ToolUse { id, name, input: json!({}), raw: None }));
                history.push(entry(Role::User, answer));
            }
            history.push(entry(Role::Assistant, Block::text("Done")));
        }
        (history, turns.iter().map(|calls| 2 + 2 * calls).collect())
    })
}

fn with(history: &[HistoryEntry], sessions: Vec<ClosedSession>) -> Conversation {
    Conversation {
        messages: Vec::new(),
        history: history.to_vec(),
        sessions,
        digests: None,
        notes: Vec::new(),
        learnings: Vec::new(),
        ..exported()
    }
}

/// Changes the JSON of one session.
fn corrupt(document: &mut Value, session: usize, how: usize) {
    let one = &mut document["sessions"][session];
    let shifted = |value: &Value, by: i64| json!(value.as_i64().unwrap() + by);
    match how {
        0 => one["first_position"] = shifted(&one["first_position"], 1),
        1 => one["first_position"] = shifted(&one["first_position"], -1),
        2 => one["last_position"] = shifted(&one["last_position"], 1),
        3 => one["last_position"] = shifted(&one["last_position"], -1),
        4 => one["last_position"] = json!(1_000),
        5 => one["summary"] = json!(""),
        6 => one["summary"] = json!("x".repeat(MAX_SUMMARY_BYTES + 1)),
        7 => one["summary_source"] = json!("rumour"),
        8 => one["completion_reason"] = json!("boredom"),
        9 => one["pending"] = json!(true),
        10 => one["message_count"] = json!(1_000),
        11 => one["message_count"] = json!(-1),
        12 => drop(one.as_object_mut().unwrap().remove("token_count")),
        13 => one["started_at"] = json!("2400-01-01T00:00:00Z"),
        14 => one["completed_at"] = json!("1969-01-01T00:00:00Z"),
        15 => *one = json!("gone"),
        _ => one["mood"] = json!("good"),
    }
}

proptest! {
    /// Sessions are accepted if each consists of whole turns and they follow each other from the first entry on;
    /// otherwise the error names the faulty session.
    #[test]
    fn only_consecutive_whole_turns_are_accepted_as_sessions(
        (history, turns) in turns(), ranges in proptest::collection::vec((0..12_usize, 0..12_usize), 0..4)
    ) {
        let ends: Vec<usize> = turns.iter().scan(0, |end, turn| { *end += turn; Some(*end) }).collect();
        let mut next = 1;
        let fits = |range: &(usize, usize)| {
            let fits = range.0 == next && range.1 >= range.0 && ends.contains(&range.1);
            next = range.1 + 1;
            fits
        };
        let wrong = ranges.iter().map(fits).position(|fits| !fits);
        let checked = with(&history, closed(&ranges)).check();
        match wrong {
            None => prop_assert_eq!(checked, Ok(())),
            Some(wrong) => {
                let message = checked.unwrap_err();
                // If a session ends between question and answer, the next one begins with the answer, unless its
                // range is invalid.
                let named = message.pointer.split('/').nth(2).unwrap().parse::<usize>().unwrap();
                let begins = message.pointer.ends_with("first_position");
                let is_range = |(first, last): (usize, usize)| first <= last && last <= history.len();
                prop_assert!(named == wrong || named == wrong + 1 && (begins || !is_range(ranges[named])),
                    "{wrong}: {message}");
            }
        }
    }

    /// Any division of a history into whole turns is accepted; any single change to one session is refused with the
    /// position of that session or the next one.
    #[test]
    fn any_single_corruption_of_a_session_is_refused(
        (history, turns) in turns(), joined in 1..4_usize, session: prop::sample::Index, how in 0..17_usize
    ) {
        let mut ranges = Vec::new();
        let mut next = 1;
        for turns in turns.chunks(joined) {
            let last = next + turns.iter().sum::<usize>() - 1;
            ranges.push((next, last));
            next = last + 1;
        }
        let document = with(&history, closed(&ranges));
        prop_assert_eq!(document.check(), Ok(()));
        let session = session.index(ranges.len());
        let mut value = serde_json::to_value(&document).unwrap();
        corrupt(&mut value, session, how);
        match serde_json::from_value::<Conversation>(value) {
            // It does not deserialize; callers that parse with the JSON path name the session.
            Err(error) => prop_assert!([7, 8, 11, 15, 16].contains(&how), "{how}: {error}"),
            Ok(read) => {
                let invalid = read.check().unwrap_err();
                let named = invalid.pointer.strip_prefix("/sessions/").unwrap_or_default();
                let named: usize = named.split('/').next().unwrap().parse().unwrap();
                prop_assert!(named == session || named == session + 1, "{how}: {invalid}");
            }
        }
    }
}
