//! Checks what must hold at the end of every case, and what the design guarantees at its crash point.

use std::time::{Duration, Instant};

use houston_domain::history::{Block, Entry, Role, validate};
use houston_testkit::event_stream::EVENTS;
use houston_testkit::tool_ledger::ToolLedger;
use serde_json::Value;

use crate::case::{Case, CrashPoint};
use crate::client::Client;
use crate::crash_server::{CrashServer, PATIENCE};
use crate::model::{LABEL, LOOK, QUICK_LETTER, SLOW_LETTER, answer, is_plain, question};
use crate::scenario::{Outcome, model_calls};

pub(crate) async fn check(server: &CrashServer, client: &Client, outcome: &Outcome) {
    let case = server.case;
    let goal = &outcome.goal;
    answered_once(case, client, outcome).await;
    let entries = history(client, goal).await;
    for length in 0..=entries.len() {
        validate(&entries[..length]).unwrap();
    }
    let called = server.environment.model_calls(&question(&case.name()));
    assert_eq!(called, model_calls(case), "number of model calls");
    if !is_plain(case.point) {
        tools(server, &entries);
    }
    rows(server);
    if case.point == CrashPoint::C15 {
        another_hint(server, goal).await;
    }
}

/// A late or repeated hint has no effect.
async fn another_hint(server: &CrashServer, goal: &str) {
    let id = goal.trim_start_matches("goal_");
    let id = format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]);
    let epoch = format!("select epoch from houston.run_locks where agentable_id = '{id}'");
    let epoch = || server.environment.sql(&epoch).parse::<i64>().unwrap();
    let before = epoch();
    let hint = format!(r#"{{"v":1,"kind":"run","id":"{id}"}}"#);
    let lane = "houston:hints:interactive";
    assert_eq!(server.environment.redis(&["ZADD", lane, "1", &hint]), "1");
    let deadline = Instant::now() + PATIENCE;
    while server.environment.redis(&["ZCARD", lane]) != "0" {
        assert!(Instant::now() < deadline, "no worker fetched the hint");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A worker claims right after it fetches a hint, or not at all: the next run is claimed later.
    server.environment.sql(&format!("select houston.post_message('{id}'::uuid, 'one more')"));
    let deadline = Instant::now() + PATIENCE;
    while server.environment.sql("select count(*) from houston.run_locks where run_open") != "0" {
        assert!(Instant::now() < deadline, "the next message was never answered");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(epoch(), before + 1, "one claim for the new message, none for the hint");
}

/// There is one complete answer, and the client of the stream ends up with the messages of the thread.
async fn answered_once(case: Case, client: &Client, outcome: &Outcome) {
    let message = client.get(&format!("/v1/messages/{}", outcome.posted.id())).await.unwrap();
    assert_eq!(message["status"], "answered", "{message}");
    let page = client.get(&format!("/v1/goals/{}/messages?limit=100", outcome.goal)).await.unwrap();
    let thread: Vec<&Value> = page["data"].as_array().unwrap().iter().collect();
    let texts = |source: &str| -> Vec<&str> {
        let of = |message: &&&Value| message["source"] == source && message["message_type"] == "text";
        thread.iter().filter(of).map(|message| message["content"].as_str().unwrap()).collect()
    };
    assert_eq!(texts("user").len(), 1, "stored once");
    assert_eq!(texts("agent"), [answer(&case.name())], "answered once");
    // A connection that breaks during an answer is reported, and resolved by the next attempt.
    let errors: Vec<&Value> = thread.iter().copied().filter(|message| message["source"] == "error").collect();
    assert_eq!(errors.len(), usize::from(case.name() == "C7-error"), "{errors:?}");
    assert!(errors.iter().all(|error| error["metadata"]["resolved"] == true), "{errors:?}");
    let seen: Vec<&str> = outcome.watched.texts.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(seen, texts("agent"), "the client has the messages of the thread");
    let cells = thread.iter().filter(|message| message["message_type"] == "tool");
    for cell in cells {
        assert_ne!(cell["metadata"]["status"], "started", "a tool message was left open: {cell}");
    }
}

async fn history(client: &Client, goal: &str) -> Vec<Entry> {
    let page = client.get(&format!("/v1/goals/{goal}/history?limit=100")).await.unwrap();
    let entry = |entry: &Value| -> Entry {
        let content = serde_json::from_value(entry["content"].clone()).unwrap();
        let role: Role = serde_json::from_value(entry["role"].clone()).unwrap();
        if role == Role::User { Entry::user(content) } else { Entry::assistant(content) }
    };
    page["data"].as_array().unwrap().iter().map(entry).collect()
}

/// The guarantee for one call: how often it executed, and whether the model reads that its outcome is unknown.
struct Call {
    name: &'static str,
    executed: usize,
    unknown: bool,
}

/// The guarantees for the four calls of a case.
fn calls(case: Case) -> [Call; 4] {
    let call = |name, executed, unknown| Call { name, executed, unknown };
    let point = if case.cuts_off() { case.point } else { CrashPoint::C12 };
    match point {
        // The intent is committed, the tool never started: a letter is not sent, since it may have been.
        CrashPoint::C9 | CrashPoint::C26 => [
            call(QUICK_LETTER, 0, true),
            call(SLOW_LETTER, 0, true),
            call(LABEL, 1, false),
            call(LOOK, 1, false),
        ],
        // Started, no result committed: letters are not repeated, the other calls are.
        CrashPoint::C10 => [
            call(QUICK_LETTER, 1, true),
            call(SLOW_LETTER, 1, true),
            call(LABEL, 2, false),
            call(LOOK, 2, false),
        ],
        // The result of the quick call is committed.
        CrashPoint::C11 => [
            call(QUICK_LETTER, 1, false),
            call(SLOW_LETTER, 1, true),
            call(LABEL, 2, false),
            call(LOOK, 2, false),
        ],
        _ => [QUICK_LETTER, SLOW_LETTER, LABEL, LOOK].map(|name| call(name, 1, false)),
    }
}

fn tools(server: &CrashServer, entries: &[Entry]) {
    let executions = ToolLedger::open(server.ledger()).unwrap().executions().unwrap();
    for call in calls(server.case) {
        let of: Vec<_> = executions.iter().filter(|execution| execution.call_id == call.name).collect();
        assert_eq!(of.len(), call.executed, "executions of `{}`: {executions:?}", call.name);
        assert!(of.iter().all(|one| one.idempotency_key == of[0].idempotency_key), "one key: {of:?}");
        let content = result(entries, call.name);
        assert_eq!(content.contains("outcome unknown"), call.unknown, "`{}`: {content}", call.name);
        assert_eq!(content.contains("is done"), !call.unknown, "`{}`: {content}", call.name);
    }
}

/// The result, as the model reads it, of the call with this name among its arguments.
fn result<'e>(entries: &'e [Entry], name: &str) -> &'e str {
    let blocks = || entries.iter().flat_map(|entry| &entry.content);
    let id = blocks()
        .find_map(|block| match block {
            Block::ToolUse { id, input, .. } if input["name"] == name => Some(id),
            _ => None,
        })
        .expect("the call is in the history");
    let mut results = blocks().filter_map(|block| match block {
        Block::ToolResult { tool_use_id, content, .. } if tool_use_id == id => Some(content.as_str()),
        _ => None,
    });
    let result = results.next().expect("every call has its result");
    assert_eq!(results.next(), None, "one result for one call");
    result
}

/// Nothing is pending, no lock is held, positions have no gap, and no row has an older epoch than one before it.
pub(crate) fn rows(server: &CrashServer) {
    let is_empty = |what: &str, sql: &str| assert_eq!(server.environment.sql(sql), "", "{what}");
    is_empty(
        "locks",
        "select * from houston.run_locks
          where holder is not null or wake or run_open or crash_count <> 0 or died_with <> '{}'",
    );
    is_empty("runs", "select * from houston.runs where status not in ('completed', 'message_sent')");
    is_empty("calls without response", "select * from houston.tool_calls where response is null");
    is_empty(
        "positions of events",
        &format!(
            "select agentable_id from ({EVENTS}) e group by agentable_id having min(seq) <> 1 or max(seq) <> count(*)"
        ),
    );
    is_empty(
        "events after the last position",
        &format!(
            "select * from houston.run_locks l
              where last_seq <> (select count(*) from ({EVENTS}) e where e.agentable_id = l.agentable_id)"
        ),
    );
    is_empty(
        "rows of an older epoch after those of a newer one",
        &format!(
            "select * from (select seq, epoch, max(epoch) over (partition by agentable_id order by seq) as newest
                              from ({EVENTS}) e where epoch > 0) e where epoch < newest
             union all
             select * from (select position, epoch, max(epoch) over (partition by agentable_id order by position)
                              from houston.history) h (position, epoch, newest) where epoch < newest"
        ),
    );
    is_empty(
        "answers twice",
        // The report of a task is answered too, perhaps by the run that created it.
        "select run_id from houston.messages group by run_id
         having count(*) filter (where source = 'agent' and message_type = 'text')
                > count(*) filter (where source in ('user', 'system'))",
    );
}
