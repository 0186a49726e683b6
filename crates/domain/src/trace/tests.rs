use chrono::TimeDelta;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::compare::{Aligned, Way, compare};
use super::expectation::Expectations;
use super::replay::{replay, replay_from};
use super::stability::Stability;
use super::*;
use crate::id::MessageId;
use crate::run::RunStatus;

pub(super) fn at(second: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(second)
}

fn event(second: i64, event: Event) -> Line {
    Line::Event { seq: second, at: at(second), event: Box::new(event) }
}

fn attempt(second: i64, attempt: i32) -> Line {
    let next_message_id = MessageId(uuid::Uuid::nil());
    let resumed = false;
    let iteration = 1;
    event(
        second,
        Event::AttemptStarted { attempt, iteration, next_message_id, takeover: attempt > 1, resumed },
    )
}

fn finished(second: i64, status: RunStatus) -> Line {
    let usage = Usage::default();
    event(
        second,
        Event::RunFinished { status, iteration: None, usage, message: None, code: None, result: None },
    )
}

pub(super) fn header() -> Header {
    let limits = Limits { max_iterations: 25, max_same_tool: 50, max_output_tokens: 1000, ..Limits::USUAL };
    Header {
        format: FORMAT.to_owned(),
        version: VERSION,
        run: RunId(uuid::Uuid::nil()),
        kind: "goal".to_owned(),
        conversational: true,
        expects_reply: true,
        reply: Reply::Text,
        driver: None,
        limits,
        position: 1,
        compressed: None,
        tools: Vec::new(),
        overseer: overseer::Settings::default(),
        cost: None,
    }
}

/// A run that calls a tool `turns` times and answers.
fn trace(turns: i64) -> Trace {
    let mut lines = vec![attempt(0, 1), Line::Message { at: at(0), content: vec![Block::text("go")] }];
    for turn in 1..=turns {
        let (id, name, input) = (format!("call_{turn}"), "search".to_owned(), json!({"query": turn}));
        let call = Block::ToolUse { id: id.clone(), name: name.clone(), input: input.clone(), raw: None };
        let (usage, stop) = (Usage { input_tokens: 10, ..Usage::default() }, StopReason::ToolUse);
        lines.push(Line::Answer { at: at(turn), content: vec![call], stop, usage, model: None });
        let response = ToolResponse::success("found");
        lines.push(Line::Tool { at: at(turn), call_id: id.clone(), name, input, response, ms: Some(3) });
        let result =
            Block::ToolResult { tool_use_id: id, content: "found".to_owned(), is_error: false, code: None };
        lines.push(Line::Results { at: at(turn), content: vec![result] });
        let (iteration, next_message_id) = (u32::try_from(turn).unwrap(), MessageId(uuid::Uuid::nil()));
        lines.push(event(turn, Event::StepFinished { iteration, next_message_id }));
    }
    let (content, stop) = (vec![Block::text("done")], StopReason::EndTurn);
    lines.push(Line::Answer { at: at(turns + 1), content, stop, usage: Usage::default(), model: None });
    lines.push(event(turns + 1, Event::MessageSent { message_id: MessageId(uuid::Uuid::nil()) }));
    lines.push(finished(turns + 1, RunStatus::Completed));
    Trace { header: header(), lines }
}

#[test]
fn a_written_trace_is_read_and_replayed_without_difference() {
    let trace = trace(19);
    let text = trace.to_text();
    assert_eq!(Trace::parse(&text).unwrap(), trace);
    let replayed = replay(&trace).unwrap();
    assert_eq!((replayed.iterations, replayed.entries), (20, 40));
    assert_eq!(replayed.status, Some(RunStatus::Completed));
}

#[test]
fn history_before_an_answer_is_what_the_model_was_sent() {
    let mut trace = trace(3);
    let texts = |trace: &Trace, nth| -> Option<Vec<String>> {
        let said = |block: &Block| match block {
            Block::ToolUse { id, .. } => id.clone(),
            Block::ToolResult { tool_use_id, .. } => format!("result of {tool_use_id}"),
            other => other.read().unwrap_or_default().to_owned(),
        };
        Some(trace.history_before_answer(nth)?.iter().map(|entry| said(&entry.content[0])).collect())
    };
    trace.lines.insert(0, Line::Before(Entry::assistant(vec![Block::text("hi")])));
    let own = ["hi", "go", "call_1", "result of call_1", "call_2", "result of call_2"];
    for (nth, count) in [(1, 2), (2, 4), (3, 6)] {
        assert_eq!(texts(&trace, nth).unwrap(), own[..count]);
    }
    trace.header.compressed = Some(Compressed { entries: 1, summary: "They met.".to_owned() });
    assert_eq!(texts(&trace, 2).unwrap(), ["They met.", "go", "call_1", "result of call_1"]);
    let second = trace.lines.iter().rposition(|line| matches!(line, Line::Answer { .. })).unwrap() - 4;
    let summary = "They searched.".to_owned();
    trace.lines.insert(second, Line::Compressed { at: at(2), summary, remaining: 2 });
    let short = ["They searched.", "call_2", "result of call_2", "call_3", "result of call_3"];
    assert_eq!(texts(&trace, 3).unwrap(), short[..3]);
    assert_eq!(texts(&trace, 4).unwrap(), short);
    assert_eq!((texts(&trace, 0), texts(&trace, 5)), (None, None));
}

#[test]
fn a_changed_or_shortened_trace_is_refused() {
    let text = trace(2).to_text();
    for changed in [text.replace("found", "fount"), text.lines().skip(1).collect::<Vec<_>>().join("\n")] {
        let error = Trace::parse(&changed).unwrap_err();
        assert!(error.to_string().contains("digest"), "{error}");
    }
    let cut = &text[..text.len() / 2];
    assert!(Trace::parse(cut).unwrap_err().to_string().contains("footer"));
    assert!(Trace::parse("").is_err());
}

#[test]
fn a_stop_rule_that_changed_is_found_with_its_place() {
    let mut trace = trace(4);
    trace.header.limits.max_iterations = 3;
    let found = replay(&trace).unwrap_err();
    // Line 1 is the header; attempt and message are followed by three turns of four lines each.
    assert_eq!((found.line, found.iteration, found.what), (16, 3, "next"));
    assert_eq!(
        (found.recorded, found.replayed),
        (json!("call the model"), json!({"done": "max_iterations"}))
    );
}

#[test]
fn changed_entries_ends_and_events_are_found() {
    let found = |change: fn(&mut Vec<Line>)| {
        let mut trace = trace(2);
        change(&mut trace.lines);
        *replay(&trace).unwrap_err()
    };
    let entry = found(|lines| {
        if let Line::Results { content, .. } = &mut lines[4] {
            content[0] = Block::ToolResult {
                tool_use_id: "call_1".into(),
                content: "?".into(),
                is_error: false,
                code: None,
            };
        }
    });
    assert_eq!((entry.line, entry.what), (6, "entry"));
    let end = found(|lines| *lines.last_mut().unwrap() = finished(9, RunStatus::MaxTokens));
    assert_eq!((end.what, end.recorded), ("end", json!({"done": "max_tokens"})));
    let step = found(|lines| drop(lines.remove(5)));
    assert_eq!((step.what, step.replayed), ("event", json!({"step_finished": 1})));
}

#[test]
fn a_taken_over_run_is_replayed_from_its_entries() {
    let mut trace = trace(4);
    // Between an answer and its results.
    trace.lines.insert(7, attempt(2, 2));
    assert_eq!(replay(&trace).unwrap().iterations, 5);
    // The duration of an attempt counts from its start, so that the first one's does not matter.
    trace.header.limits.max_duration_s = 2;
    let found = replay(&trace).unwrap_err();
    assert_eq!((found.iteration, found.replayed), (4, json!({"done": "max_duration"})));
}

#[test]
fn keys_are_redacted() {
    let mut trace = trace(1);
    let key = "sk-0123456789abcdefghijklmnop";
    if let Line::Message { content, .. } = &mut trace.lines[1] {
        content[0] = Block::text(format!("my key is {key}"));
    }
    let text = trace.to_text();
    assert!(!text.contains(key) && text.contains("my key is [redacted]"), "{text}");
    assert!(replay(&Trace::parse(&text).unwrap()).is_ok());
}

#[test]
fn keys_in_results_prompts_and_names_are_redacted() {
    let mut trace = trace(1);
    let key = "hou_0123456789abcdef0123456789abcdef";
    let of = |line: &mut Line| match line {
        Line::Answer { content, .. } => {
            let (id, name, raw) = ("call_1".into(), "search".into(), None);
            content[0] = Block::ToolUse { id, name, input: json!({key: {"k": [key]}}), raw };
        }
        Line::Tool { input, response, .. } => {
            *input = json!({key: {"k": [key]}});
            *response = ToolResponse::success(format!("token={key}"));
        }
        Line::Results { content, .. } => {
            let content_text = format!("token={key}");
            let tool_use_id = "call_1".to_owned();
            content[0] =
                Block::ToolResult { tool_use_id, content: content_text, is_error: false, code: None };
        }
        _ => {}
    };
    trace.lines[..5].iter_mut().for_each(of);
    let description = format!("Use {key}.");
    trace.header.tools = vec![ToolDefinition {
        name: "search".to_owned(),
        description,
        input_schema: std::sync::Arc::new(json!({"type": "object"})),
        effect: crate::tool_call::EffectClass::Read,
        timeout: std::time::Duration::from_secs(1),
    }];
    let text = trace.to_text();
    assert!(!text.contains("0123456789abcdef"), "{text}");
    assert!(replay(&Trace::parse(&text).unwrap()).is_ok(), "{text}");
}

/// The lines with a footer that fits them.
fn sealed(lines: &[String]) -> String {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let digest: String = Sha256::digest(body.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{body}{}\n", json!({"type": "footer", "lines": lines.len() + 1, "sha256": digest}))
}

#[test]
fn hostile_files_are_refused_with_their_line() {
    let text = trace(1).to_text();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let lines = &lines[..lines.len() - 1];
    assert_eq!(sealed(lines), text);
    let deep = format!("{{\"type\":\"before\",\"x\":{}", "[".repeat(100_000));
    let long = format!("{{\"type\":\"{}\"}}", "x".repeat(1_000_000));
    let late = r#"{"type":"message","at":"+262000-01-01T00:00:00Z","content":[]}"#;
    for (line, reason) in
        [(deep.as_str(), "recursion"), (&long, "unknown variant"), (late, "1970"), ("", "EOF")]
    {
        let mut hostile = lines.to_vec();
        line.clone_into(&mut hostile[3]);
        let error = Trace::parse(&sealed(&hostile)).unwrap_err();
        assert!(error.line == 4 && error.reason.contains(reason), "{error:.400}");
        assert!(error.to_string().len() < 1_000, "{}", error.to_string().len());
    }
    let huge = format!("{}\n\"{}\"\n{{}}\n", lines[0], "x".repeat(MAX_LINE_BYTES));
    let many = format!("{}{}", "\n".repeat(MAX_LINES), text);
    for (hostile, line, reason) in [(huge, 2, "a line has at most"), (many, MAX_LINES + 1, "at most")] {
        let error = Trace::parse(&hostile).unwrap_err();
        assert!(error.line == line && error.reason.contains(reason), "{error:.400}");
    }
    let endless = lines[0].replacen("\"max_duration_s\":600", "\"max_duration_s\":18446744073709551615", 1);
    assert_ne!(endless, lines[0]);
    let error = Trace::parse(&sealed(&[endless])).unwrap_err();
    assert!(error.line == 1 && error.reason.contains("max_duration_s"), "{error}");
}

#[test]
fn a_run_is_replayed_from_any_of_its_entries() {
    let trace = trace(3);
    for position in 1..=8 {
        let replayed = replay_from(&trace, Some(position)).unwrap();
        let rest = 8 - usize::try_from(position).unwrap();
        assert_eq!((replayed.entries, replayed.iterations), (rest, 4), "{position}");
        let checkpoint = trace.checkpoint(Some(position)).unwrap();
        let run = checkpoint.run(trace.header.policy(), &trace.header, at(9));
        assert_eq!(run.history().len(), usize::try_from(position).unwrap());
        assert_eq!(checkpoint.calls.len() + checkpoint.earlier.len(), 3);
        assert_eq!(checkpoint.rest.calls.len(), checkpoint.calls.len());
    }
    let error = trace.checkpoint(Some(9)).unwrap_err();
    assert_eq!(error.to_string(), "the run has entries from position 1 to 8; there is none at 9");
    assert_eq!(trace.checkpoint(None).unwrap().rest, Way::of(&trace));
}

#[test]
fn several_replays_are_summarised() {
    let recorded = Way::of(&trace(3));
    let mut other = recorded.clone();
    other.calls.pop();
    other.answer = "other".to_owned();
    other.iterations = 3;
    let replays: Vec<_> =
        [&recorded, &other, &recorded].map(|way| compare(recorded.clone(), way.clone())).into();
    let stability = Stability::of(&replays).unwrap();
    assert_eq!((stability.same_calls, stability.same_answer), (2, 2));
    assert_eq!((stability.ways, stability.answers), (2, 2));
    assert_eq!((stability.distance.most, stability.iterations.least), (1, 3));
    assert_eq!((stability.statuses["completed"], stability.cost), (3, None));
    assert!(Stability::of(&[]).is_none());
}

#[test]
fn ways_are_aligned_call_by_call() {
    let way = Way::of(&trace(3));
    let mut other = Way::of(&trace(3));
    other.calls.remove(0);
    other.calls[1].input = json!({"query": "else"});
    let comparison = compare(way.clone(), other);
    assert_eq!((comparison.distance, comparison.same_answer), (2, true));
    assert!(matches!(comparison.calls[0], Aligned::Removed { .. }), "{:?}", comparison.calls);
    assert!(matches!(comparison.calls[1], Aligned::Same { .. }));
    assert!(matches!(comparison.calls[2], Aligned::Changed { .. }));
    assert_eq!(compare(way.clone(), way).distance, 0);
}

#[test]
fn unmet_expectations_are_named() {
    let way = Way::of(&trace(2));
    let expect = |text: &str| toml::from_str::<Expectations>(text).unwrap().unmet(&way);
    let met = "calls = ['search']\nnever_calls = ['pay']\norder = ['search', 'search']\nmax_iterations = 3\n\
               answer = { contains = ['done'], regex = '^d' }";
    assert_eq!(expect(met), Vec::<String>::new());
    for (text, words) in [
        ("calls = ['pay']", "`pay` was not called"),
        ("never_calls = ['search']", "`search` was called"),
        ("order = ['search', 'search', 'search']", "order"),
        ("max_iterations = 2", "3 model calls"),
        ("max_cost = '0.1'", "unknown"),
        ("answer = { contains = ['x'] }", "`x` is not"),
        ("answer = { regex = '(' }", "answer.regex"),
        ("answer = { schema = { type = 'object' } }", "is not JSON"),
    ] {
        let unmet = expect(text);
        assert!(unmet.len() == 1 && unmet[0].contains(words), "{text}: {unmet:?}");
    }
}

#[test]
fn an_answer_must_have_the_shape_of_its_schema() {
    let schema = "answer.schema = { type = 'object', required = ['hotel'], properties = { price = { type = 'integer' } } }";
    let expectations: Expectations = toml::from_str(schema).unwrap();
    let unmet = |answer: &str| {
        let way = Way { answer: answer.to_owned(), ..Way::default() };
        expectations.unmet(&way).join("; ")
    };
    assert_eq!(unmet(r#"{"hotel": "Lisboa", "price": 90}"#), "");
    assert_eq!(unmet("Here it is:\n```json\n{\"hotel\": \"Lisboa\"}\n```\nEnjoy!"), "");
    assert_eq!(unmet("{}"), "answer.schema: /hotel: is missing");
    assert!(unmet(r#"{"hotel": "x", "price": "90"}"#).contains("/price: must be of type"));
}
