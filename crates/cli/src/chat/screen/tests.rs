use serde_json::{Value, json};

use super::*;
use crate::chat::message::Message;

fn noon() -> DateTime<Utc> {
    "2026-11-22T12:00:00Z".parse().unwrap()
}

fn live() -> Screen {
    Screen::new(Style { prompt: true, live: true, colour: false, thoughts: false })
}

fn plain() -> Screen {
    Screen::new(Style::default())
}

/// Feeds the events and returns all that was written.
fn show(screen: &mut Screen, events: &[Value]) -> String {
    let shown = |event: &Value| screen.event(&Event::read(&event.to_string()), noon()).shown(false);
    events.iter().map(shown).collect()
}

/// What a terminal shows of a text with erasures.
fn on_terminal(text: &str) -> String {
    let mut lines = vec![String::new()];
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\u{1b}[A\r\u{1b}[K") {
            lines.pop();
            lines.pop();
            lines.push(String::new());
            rest = after;
        } else if let Some(after) = rest.strip_prefix("\r\u{1b}[K") {
            lines.last_mut().unwrap().clear();
            rest = after;
        } else {
            rest = &rest[c.len_utf8()..];
            match c {
                '\n' => lines.push(String::new()),
                c => lines.last_mut().unwrap().push(c),
            }
        }
    }
    lines.join("\n")
}

fn started() -> Value {
    json!({"type": "RUN_STARTED", "threadId": "g", "runId": "r"})
}

fn finished(outcome: &str) -> Value {
    json!({"type": "RUN_FINISHED", "threadId": "g", "runId": "r", "outcome": {"type": outcome}})
}

fn posted(content: &str) -> Value {
    json!({"type": "CUSTOM", "name": "houston.message.posted", "value": {"message": {"id": "m", "content": content}}})
}

fn call(id: &str, name: &str) -> Value {
    json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name})
}

fn returned(id: &str, content: &str, is_error: bool) -> Value {
    json!({"type": "TOOL_CALL_RESULT", "messageId": "x", "toolCallId": id, "content": content,
        "metadata": {"houston": {"is_error": is_error}}})
}

fn text(id: &str, pieces: &[&str]) -> Vec<Value> {
    let mut events = vec![json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})];
    events.extend(
        pieces.iter().map(|delta| json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta})),
    );
    events.push(json!({"type": "TEXT_MESSAGE_END", "messageId": id}));
    events
}

fn thought(pieces: &[&str]) -> Vec<Value> {
    let mut events = vec![json!({"type": "REASONING_MESSAGE_START", "messageId": "t"})];
    events.extend(
        pieces
            .iter()
            .map(|delta| json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "t", "delta": delta})),
    );
    events.push(json!({"type": "REASONING_MESSAGE_END", "messageId": "t"}));
    events
}

fn retry(attempt: u32) -> Value {
    json!({"type": "CUSTOM", "name": "houston.retry.scheduled", "value": {"attempt": attempt, "of": 5,
        "retry_at": "2026-11-22T12:00:09.2Z", "code": "RATE_LIMITED", "message": "slow down"}})
}

fn a_note() -> Vec<Value> {
    let mut events = vec![
        started(),
        posted("note milk"),
        json!({"type": "CUSTOM", "name": "houston.attempt.started", "value": {"attempt": 1, "iteration": 1}}),
        json!({"type": "STEP_STARTED", "stepName": "iteration 1"}),
    ];
    events.extend(thought(&["I ", "should"]));
    events.extend([call("c", "create_note"), returned("c", "note_1 created", false)]);
    events.extend(text("a", &["I wrote it ", "down.", ""]));
    events.push(finished("success"));
    events
}

#[test]
fn a_turn_on_a_terminal() {
    let mut screen = live();
    let mut out = screen.ask().shown(false);
    assert_eq!(out, "> ");
    out += "note milk\n";
    out += &screen.entered("note milk").shown(false);
    screen.posted("note milk");
    assert!(screen.is_busy());
    out += &show(&mut screen, &a_note()[..3]);
    assert_eq!(on_terminal(&out), "> note milk\nthinking…");
    out += &show(&mut screen, &a_note()[3..]);
    out += &screen.ask().shown(false);
    assert_eq!(on_terminal(&out), "> note milk\n⚙ Create note … done\nI wrote it down.\n\n> ");
    assert!(!screen.is_busy());
}

#[test]
fn a_turn_in_a_pipe_has_the_reply_apart_and_no_controls() {
    let mut screen = plain();
    screen.posted("note milk");
    let out: String = a_note()
        .iter()
        .map(|event| screen.event(&Event::read(&event.to_string()), noon()).shown(true))
        .collect();
    assert_eq!(out, "[⚙ Create note …][ done\n]I wrote it down.\n");
}

#[test]
fn thoughts_are_shown_when_asked_for() {
    let mut screen = Screen::new(Style { thoughts: true, colour: true, live: true, prompt: false });
    let out = show(&mut screen, &thought(&["I \u{1b}[2J", "should"]));
    assert_eq!(out, "\u{1b}[2mthinking…\u{1b}[0m\r\u{1b}[K\u{1b}[2mI [2J\u{1b}[0m\u{1b}[2mshould\u{1b}[0m\n");
}

#[test]
fn parallel_calls_and_failures_have_a_line_each() {
    let mut screen = plain();
    let mut events = vec![call("1", "list_notes"), call("2", "get_current_time")];
    events.extend([returned("1", "none", false), returned("2", "no such zone\nat all", true)]);
    assert_eq!(
        show(&mut screen, &events),
        "⚙ List notes …\n⚙ Get current time …\n⚙ List notes … done\n⚙ Get current time … failed: no such zone\n"
    );
}

#[test]
fn retries_count_down_and_failures_stay() {
    let mut screen = live();
    let told = json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "msg_1", "activityType": "houston.error",
        "content": {"text": "slow down", "retryable": true}});
    let mut out = show(&mut screen, &[started(), told, retry(1)]);
    assert!(screen.is_counting());
    assert_eq!(on_terminal(&out), "✗ slow down\nretry 1 of 5 in 10 s");
    out += &screen.tick(noon() + chrono::TimeDelta::seconds(8)).shown(false);
    assert_eq!(on_terminal(&out), "✗ slow down\nretry 1 of 5 in 2 s");
    out += &screen.tick(noon() + chrono::TimeDelta::seconds(60)).shown(false);
    assert_eq!(on_terminal(&out), "✗ slow down\nretry 1 of 5 in 0 s");
    let failed =
        json!({"type": "RUN_ERROR", "message": "set OPENAI_API_KEY", "code": "AUTHENTICATION_ERROR"});
    out += &show(&mut screen, &[failed]);
    assert_eq!(on_terminal(&out), "✗ slow down\n✗ set OPENAI_API_KEY (AUTHENTICATION_ERROR)\n\n");
    assert!(!screen.is_counting() && !screen.is_busy());

    assert_eq!(show(&mut plain(), &[retry(2)]), "✗ slow down; retry 2 of 5 in 10 s\n");
}

#[test]
fn an_answer_that_breaks_off_is_taken_back() {
    let snapshot = |messages: Value| json!({"type": "MESSAGES_SNAPSHOT", "messages": messages});
    let before = json!({"id": "0", "role": "assistant", "content": "earlier"});

    let mut events = text("a", &["I am abo"]);
    events.push(snapshot(json!([before])));
    events.extend(text("b", &["I am about to"]));
    assert_eq!(
        show(&mut plain(), &events),
        "I am abo\n(this answer broke off and is not kept)\nI am about to\n"
    );

    let mut events = text("a", &["I am abo"]);
    events.push(snapshot(json!([before, {"id": "a", "role": "assistant", "content": "I was"}])));
    assert_eq!(show(&mut plain(), &events), "I am abo\n(this answer broke off; it reads:)\nI was\n");

    let mut events = text("a", &["whole"]);
    events.push(snapshot(json!([before, {"id": "a", "role": "assistant", "content": "whole"}])));
    assert_eq!(show(&mut plain(), &events), "whole\n");
}

#[test]
fn one_may_type_while_it_works() {
    let mut screen = live();
    screen.posted("first");
    let mut out = show(&mut screen, &[started(), posted("first")]);
    out += "second\n";
    out += &screen.entered("second").shown(false);
    screen.posted("second");
    out += &screen.ask().shown(false);
    out += &show(&mut screen, &[posted("second"), posted("of somebody else")]);
    out += &show(&mut screen, &text("a", &["one\n", "two"]));
    out += &show(&mut screen, &[finished("cancelled")]);
    out += &screen.ask().shown(false);
    assert_eq!(on_terminal(&out), "> second\n> of somebody else\none\ntwo\ncancelled\n\n> ");

    out += &show(&mut screen, &[started(), posted("a check-in")]);
    assert_eq!(
        on_terminal(&out),
        "> second\n> of somebody else\none\ntwo\ncancelled\n\n> a check-in\nthinking…"
    );
}

#[test]
fn a_message_that_was_not_taken_is_not_waited_for() {
    let mut screen = live();
    screen.posted("x");
    assert_eq!(screen.ask().shown(false), "");
    screen.refused("x");
    let out = screen.complain("no").shown(false) + &screen.ask().shown(false) + &screen.leave().shown(false);
    assert_eq!(out, "✗ no\n> \n");
}

#[test]
fn the_thread_reads_like_the_conversation() {
    let message = |source: &str, message_type: &str, content: &str, status: &str| Message {
        source: source.to_owned(),
        message_type: message_type.to_owned(),
        content: content.to_owned(),
        metadata: json!({ "status": status }),
    };
    let messages = [
        message("user", "text", "note milk", ""),
        message("agent", "tool", "Create note", "done"),
        message("agent", "tool", "List notes", "started"),
        message("agent", "text", "I wrote it\ndown.\n", ""),
        message("error", "text", "no model", ""),
    ];
    assert_eq!(
        plain().thread(&messages).shown(false),
        "> note milk\n⚙ Create note … done\n⚙ List notes …\nI wrote it\ndown.\n✗ no model\n"
    );
    assert_eq!(plain().thread(&[]).shown(false), "nothing has been said yet\n");
}
