use houston_domain::message::Message;
use serde_json::{Value, json};

use super::*;
use crate::chat::terminal::Rows;
use crate::chat::tests::FakeTerminal;

fn noon() -> DateTime<Utc> {
    "2026-11-22T12:00:00Z".parse().unwrap()
}

fn live() -> TestScreen {
    seen(Style { interactive: true, edited: true, live: true, colour: false, thoughts: false })
}

fn plain() -> Screen {
    Screen::new(Style::default())
}

/// Feeds the events and returns all that was written.
fn show(screen: &mut Screen, events: &[Value]) -> String {
    let printed = |event: &Value| screen.event(&Event::read(&event.to_string()), noon()).shown(false);
    events.iter().map(printed).collect()
}

/// A screen, and the terminal that shows it.
struct TestScreen {
    screen: Screen,
    rows: Rows,
    terminal: FakeTerminal,
}

fn seen(style: Style) -> TestScreen {
    TestScreen { screen: Screen::new(style), rows: Rows::new(false), terminal: FakeTerminal::new(80) }
}

impl TestScreen {
    fn write(&mut self, output: &Output) {
        self.terminal.write(&self.rows.show(output, (80, 24)));
    }

    fn show(&mut self, events: &[Value]) -> String {
        for event in events {
            let output = self.screen.event(&Event::read(&event.to_string()), noon());
            self.write(&output);
        }
        self.terminal.text()
    }

    fn enter(&mut self, text: &str) -> String {
        let output = self.screen.entered(text);
        self.screen.posted(text);
        self.write(&output);
        self.terminal.text()
    }

    fn tick(&mut self, seconds: i64) -> String {
        let output = self.screen.tick(noon() + chrono::TimeDelta::seconds(seconds));
        self.write(&output);
        self.terminal.text()
    }
}

const RUN: &str = "run_00000000000000000000000000000001";

/// The id of the message with this number, e.g. `msg_00000000000000000000000000000007`.
fn message_id(number: u32) -> String {
    format!("msg_{number:032x}")
}

fn started() -> Value {
    json!({"type": "RUN_STARTED", "threadId": "g", "runId": RUN, "protocolVersion": "1.0"})
}

fn finished(outcome: &str) -> Value {
    let status = if outcome == "success" { "completed" } else { outcome };
    json!({"type": "RUN_FINISHED", "threadId": "g", "runId": RUN, "result": {"status": status},
        "outcome": {"type": outcome}})
}

fn posted(content: &str) -> Value {
    posted_by("user", content, &json!({}))
}

fn posted_by(source: &str, content: &str, metadata: &Value) -> Value {
    json!({"type": "CUSTOM", "name": "houston.message.posted", "value": {"message": {"id": message_id(100),
        "source": source, "message_type": "text", "content": content, "metadata": metadata, "run_id": RUN,
        "seq": 1, "created_at": "2026-11-22T12:00:00.000Z"}}})
}

fn call(id: u32, name: &str) -> Value {
    json!({"type": "TOOL_CALL_START", "toolCallId": message_id(id), "toolCallName": name, "metadata": {}})
}

fn returned(id: u32, content: &str, is_error: bool) -> Value {
    json!({"type": "TOOL_CALL_RESULT", "messageId": format!("result_{id:032x}"), "toolCallId": message_id(id),
        "content": content, "role": "tool", "metadata": {"houston": {"is_error": is_error}}})
}

fn text(id: u32, pieces: &[&str]) -> Vec<Value> {
    let id = message_id(id);
    let mut events = vec![json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})];
    events.extend(
        pieces.iter().map(|delta| json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta})),
    );
    events.push(json!({"type": "TEXT_MESSAGE_END", "messageId": id}));
    events
}

fn thought(pieces: &[&str]) -> Vec<Value> {
    let id = format!("reasoning_{:032x}", 1);
    let mut events = vec![json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"})];
    events.extend(
        pieces
            .iter()
            .map(|delta| json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": delta})),
    );
    events.push(json!({"type": "REASONING_MESSAGE_END", "messageId": id}));
    events
}

fn retry(attempt: u32) -> Value {
    json!({"type": "CUSTOM", "name": "houston.retry.scheduled", "value": {"attempt": attempt, "of": 5,
        "retry_at": "2026-11-22T12:00:09.2Z", "code": "RATE_LIMITED", "message": "The AI model is busy right now.", "cause": "slow down"}})
}

fn a_note() -> Vec<Value> {
    let mut events = vec![
        started(),
        posted("note milk"),
        json!({"type": "CUSTOM", "name": "houston.attempt.started", "value": {"attempt": 1, "iteration": 1}}),
        json!({"type": "STEP_STARTED", "stepName": "iteration 1"}),
    ];
    events.extend(thought(&["I ", "should"]));
    events.extend([call(1, "create_note"), returned(1, "note_1 created", false)]);
    events.extend(text(10, &["I wrote it ", "down.", ""]));
    events.push(finished("success"));
    events
}

#[test]
fn turn_on_a_terminal() {
    let mut seen = live();
    assert_eq!(seen.enter("note milk"), "> note milk\n");
    assert!(seen.screen.is_busy());
    assert_eq!(seen.show(&a_note()[..3]), "> note milk\nthinking…\n");
    assert_eq!(seen.show(&a_note()[3..]), "> note milk\n⚙ Create note … done\nI wrote it down.\n\n");
    assert!(!seen.screen.is_busy());
}

#[test]
fn piped_output_separates_replies_and_has_no_escapes() {
    let mut screen = plain();
    screen.posted("note milk");
    let out: String = a_note()
        .iter()
        .map(|event| screen.event(&Event::read(&event.to_string()), noon()).shown(true))
        .collect();
    assert_eq!(out, "[⚙ Create note …][ done][\n]I wrote it down.\n");
}

#[test]
fn reasoning_stays_when_requested() {
    let mut screen = Screen::new(Style { thoughts: true, ..Style::default() });
    assert_eq!(show(&mut screen, &thought(&["I ", "should"])), "I should\n");

    let style = Style { thoughts: true, live: true, ..Style::default() };
    let mut seen = seen(style);
    assert_eq!(seen.show(&thought(&["I \u{1b}[2J", "should"])), "I ␛[2Jshould\n");
    assert_eq!(seen.show(&[call(1, "list_notes")]), "I ␛[2Jshould\n⚙ List notes …\n");
}

#[test]
fn plain_text_answers_stream_and_are_printed_once() {
    for thoughts in [false, true] {
        let mut seen = seen(Style { thoughts, live: true, ..Style::default() });
        seen.show(&[started()]);
        assert_eq!(seen.show(&thought(&["It is ", "noon."])), "It is noon.\n", "it streams");
        assert_eq!(seen.show(&text(10, &["It is noon."])), "It is noon.\n");
        assert_eq!(seen.show(&[finished("success")]), "It is noon.\n");
    }
    // Text before a tool call was reasoning, and disappears unless it was requested.
    let mut seen = seen(Style { live: true, ..Style::default() });
    assert_eq!(seen.show(&thought(&["Let me look."])), "Let me look.\n");
    assert_eq!(seen.show(&[call(1, "list_notes")]), "⚙ List notes …\n");
}

#[test]
fn system_messages_are_printed_as_notices() {
    let content =
        "<task_ended id=\"task_1\" title=\"Flights\" status=\"completed\">\nThree found.\n</task_ended>";
    let notice = posted_by("system", content, &json!({"type": "task_ended"}));
    let expected = "ℹ task “Flights” ended: completed (Three found.)\n";
    assert_eq!(show(&mut plain(), &[notice]), expected);
}

#[test]
fn parallel_calls_and_failures_have_own_lines() {
    let mut screen = plain();
    let mut events = vec![call(1, "list_notes"), call(2, "get_current_time")];
    events.extend([returned(1, "none", false), returned(2, "no such zone\nat all", true)]);
    assert_eq!(
        show(&mut screen, &events),
        "⚙ List notes …\n⚙ Get current time …\n⚙ List notes … done\n⚙ Get current time … failed: no such zone\n"
    );
}

#[test]
fn retries_count_down_and_failures_stay() {
    let mut seen = live();
    let error = json!({"type": "ACTIVITY_SNAPSHOT", "messageId": message_id(1), "activityType": "houston.error",
        "content": {"text": "slow down", "retryable": true}});
    assert_eq!(seen.show(&[started(), error, retry(1)]), "✗ slow down\nretry 1 of 5 in 10 s\n");
    assert!(seen.screen.is_counting());
    assert_eq!(seen.tick(8), "✗ slow down\nretry 1 of 5 in 2 s\n");
    assert_eq!(seen.tick(60), "✗ slow down\nretry 1 of 5 in 0 s\n");
    let failed =
        json!({"type": "RUN_ERROR", "message": "set OPENAI_API_KEY", "code": "AUTHENTICATION_ERROR"});
    assert_eq!(seen.show(&[failed]), "✗ slow down\n✗ set OPENAI_API_KEY (AUTHENTICATION_ERROR)\n\n");
    assert!(!seen.screen.is_counting() && !seen.screen.is_busy());

    assert_eq!(show(&mut plain(), &[retry(2)]), "✗ slow down; retry 2 of 5 in 10 s\n");
}

#[test]
fn cut_off_answer_is_corrected_by_the_snapshot() {
    let snapshot = |messages: Value| json!({"type": "MESSAGES_SNAPSHOT", "messages": messages});
    let before = json!({"id": message_id(9), "role": "assistant", "content": "earlier"});

    let mut events = text(10, &["I am abo"]);
    events.push(snapshot(json!([before])));
    events.extend(text(11, &["I am about to"]));
    assert_eq!(
        show(&mut plain(), &events),
        "I am abo\n(this answer was cut off and is discarded)\nI am about to\n"
    );

    let mut events = text(10, &["I am abo"]);
    events.push(snapshot(json!([before, {"id": message_id(10), "role": "assistant", "content": "I was"}])));
    assert_eq!(show(&mut plain(), &events), "I am abo\n(this answer was cut off; it reads:)\nI was\n");

    let mut events = text(10, &["whole"]);
    events.push(snapshot(json!([before, {"id": message_id(10), "role": "assistant", "content": "whole"}])));
    assert_eq!(show(&mut plain(), &events), "whole\n");
}

#[test]
fn lines_typed_during_an_answer_follow_it() {
    let mut seen = live();
    seen.enter("first");
    seen.show(&[started(), posted("first")]);
    let answer = text(10, &["one\nhalf a ", "sentence"]);
    assert_eq!(seen.show(&answer[..2]), "> first\none\nhalf a \n");
    assert_eq!(seen.enter("second"), "> first\none\nhalf a \n> second\n");
    assert_eq!(seen.show(&answer[2..3]), "> first\none\nhalf a sentence\n> second\n");
    assert_eq!(seen.show(&answer[3..]), "> first\none\nhalf a sentence\n> second\n");
    seen.show(&[posted("second"), posted("of another client")]);
    let all = "> first\none\nhalf a sentence\n> second\n> of another client\n";
    assert_eq!(seen.show(&[]), format!("{all}thinking…\n"));
    assert_eq!(seen.show(&[finished("cancelled")]), format!("{all}cancelled\n\n"));
}

#[test]
fn prompt_is_written_without_an_editor() {
    let mut screen = Screen::new(Style { interactive: true, ..Style::default() });
    assert_eq!(screen.prompt().shown(false), "> ");
    screen.posted("x");
    assert_eq!(screen.entered("x").shown(false) + &screen.prompt().shown(false), "");
    screen.refused("x");
    let out = screen.error("no").shown(false) + &screen.prompt().shown(false) + &screen.leave().shown(false);
    assert_eq!(out, "✗ no\n> \n");
}

#[test]
fn history_looks_like_the_conversation() {
    let message = |source: &str, message_type: &str, content: &str, status: &str| {
        let message = json!({"id": message_id(1), "goal_id": format!("goal_{:032x}", 1), "source": source,
            "message_type": message_type, "content": content, "metadata": {"status": status}, "seq": 1,
            "created_at": "2026-11-22T12:00:00.000Z"});
        serde_json::from_value::<Message>(message).unwrap()
    };
    let messages = [
        message("user", "text", "note milk", ""),
        message("agent", "tool", "Create note", "done"),
        message("agent", "tool", "List notes", "started"),
        message("agent", "text", "I wrote it\ndown.\n", ""),
        message("error", "text", "no model", ""),
        message("system", "text", "<feed_generation from=\"x\">Write.</feed_generation>", ""),
    ];
    assert_eq!(
        plain().thread(&messages).shown(false),
        "> note milk\n⚙ Create note … done\n⚙ List notes …\nI wrote it\ndown.\n✗ no model\nℹ the feed is to be written\n"
    );
    assert_eq!(plain().thread(&[]).shown(false), "there are no messages yet\n");
}

fn plan(content: Value) -> Value {
    let id = format!("plan_{:032x}", 7);
    json!({"type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": "houston.plan", "content": content})
}

fn got_on(path: &str, value: &str) -> Value {
    let patch = json!([{"op": "replace", "path": path, "value": value}]);
    let id = format!("plan_{:032x}", 7);
    json!({"type": "ACTIVITY_DELTA", "messageId": id, "activityType": "houston.plan", "patch": patch})
}

#[test]
fn list_of_a_plan_changes_in_place_on_a_terminal() {
    use crate::chat::checklist::tests::list;

    let mut screen = live();
    let begun = plan(list("running", &[("find", "running"), ("pick", "pending")]));
    let printed = screen.show(&[begun]);
    assert!(printed.contains("plan: Compare hotels (0 of 2)\n  ◐ find\n  ○ pick"), "{printed}");
    let printed = screen.show(&[got_on("/steps/0/status", "done"), got_on("/steps/1/status", "running")]);
    assert!(printed.contains("  ✓ find\n  ◐ pick") && printed.matches("find").count() == 1, "{printed}");
    let printed = screen.show(&[plan(list("completed", &[("find", "done"), ("pick", "done")]))]);
    assert!(printed.contains("plan: Compare hotels (completed, 2 of 2)\n  ✓ find\n  ✓ pick"), "{printed}");
    assert_eq!(printed.matches("find").count(), 1, "{printed}");
}

#[test]
fn list_of_a_plan_is_a_line_per_change_elsewhere() {
    use crate::chat::checklist::tests::list;

    let begun = plan(list("running", &[("find", "pending"), ("pick", "pending")]));
    let ended = plan(list("completed", &[("find", "done"), ("pick", "done")]));
    let events = [begun, got_on("/steps/0/status", "running"), got_on("/steps/0/status", "done"), ended];
    assert_eq!(
        show(&mut plain(), &events),
        "plan: Compare hotels (0 of 2)\n  ◐ find\n  ✓ find\n  ✓ pick\nplan: Compare hotels (completed, 2 of 2)\n"
    );
}
