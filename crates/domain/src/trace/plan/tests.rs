use chrono::TimeDelta;
use serde_json::json;

use super::*;
use crate::event::Event;
use crate::model::Usage;
use crate::trace::Line;
use crate::trace::replay::replay;
use crate::trace::tests::{at, header};

fn finished(second: i64, status: RunStatus) -> Line {
    let usage = Usage::default();
    let event =
        Event::RunFinished { status, iteration: None, usage, message: None, code: None, result: None };
    Line::Event { seq: second, at: at(second), event: Box::new(event) }
}

fn version(second: i64, number: u32, steps: Value) -> Line {
    let document = json!({"v": 1, "goal": "g", "steps": steps, "output": "{{ write.result }}"});
    Line::Plan(Box::new(Version {
        at: at(second),
        version: number,
        document,
        tools: vec!["search".to_owned()],
        input: json!({"place": "Lisbon"}),
        deadline: at(900),
        at_once: 5,
        may_replan: number == 1,
        forgotten: if number == 1 { Vec::new() } else { vec!["find".to_owned(), "write".to_owned()] },
    }))
}

fn report(second: i64, path: &str, outcome: Outcome) -> Line {
    Line::Step(Box::new(Report { at: at(second), path: path.to_owned(), outcome }))
}

fn succeeded(second: i64, path: &str, result: Value) -> Line {
    report(second, path, Outcome::Succeeded { result })
}

fn failed(second: i64, path: &str, code: &str, retry_at: Option<i64>) -> Line {
    let (code, message, retry_at) = (code.to_owned(), "it failed".to_owned(), retry_at.map(at));
    report(second, path, Outcome::Failed { code, message, retry_at })
}

fn said(second: i64, start: &[&str], end: Option<End>) -> Line {
    let start = start.iter().map(|path| (*path).to_owned()).collect();
    Line::Advance(Box::new(Advanced {
        at: at(second),
        paused: false,
        cancelled: false,
        start,
        cancel: Vec::new(),
        settled: BTreeMap::new(),
        wait_until: None,
        end,
    }))
}

fn search(id: &str) -> Value {
    let args = json!({"query": "{{ input.place }}"});
    json!({"id": id, "type": "tool", "tool": "search", "args": args, "retry": {"max": 2}})
}

/// Two searches at once, one of which is repeated; then a text about both.
fn trace() -> Trace {
    let both = json!({"id": "find", "type": "parallel", "steps": [search("hotels"), search("flights")]});
    let write = json!({"id": "write", "type": "llm", "prompt": "About {{ find.result }}"});
    let output = json!("Take the Hotel Lisboa.");
    let lines = vec![
        version(0, 1, json!([both, write])),
        said(0, &["find.hotels", "find.flights"], None),
        succeeded(1, "find.hotels", json!("Hotel Lisboa")),
        said(1, &[], None),
        failed(2, "find.flights", "IO_ERROR", Some(2)),
        said(3, &["find.flights"], None),
        succeeded(4, "find.flights", json!("TP 575")),
        said(4, &["write"], None),
        succeeded(6, "write", output.clone()),
        said(6, &[], Some(End::Completed { output })),
        finished(6, RunStatus::Completed),
    ];
    let mut header = header();
    header.driver = Some(DRIVER.to_owned());
    Trace { header, lines }
}

#[test]
fn a_plan_is_replayed_without_difference() {
    let trace = Trace::parse(&trace().to_text()).unwrap();
    let replayed = replay(&trace).unwrap();
    assert_eq!((replayed.steps, replayed.advances), (4, 5));
    assert_eq!(replayed.status, Some(RunStatus::Completed));
}

#[test]
fn a_changed_decision_of_a_plan_is_found_with_its_line() {
    let found = |line: usize, changed: Line| {
        let mut trace = trace();
        trace.lines[line - 2] = changed;
        *replay(&trace).unwrap_err()
    };
    // The header is line 1.
    let started = found(9, said(4, &[], None));
    assert_eq!((started.line, started.what, &started.replayed["start"]), (9, "advance", &json!(["write"])));
    let unknown = found(4, succeeded(1, "find.trains", Value::Null));
    assert_eq!((unknown.line, unknown.what, unknown.replayed), (4, "step", json!({"status": "pending"})));
    // Another code is not repeated; and no pause is as long as a minute.
    for changed in
        [failed(2, "find.flights", "FORBIDDEN", Some(2)), failed(2, "find.flights", "IO_ERROR", Some(62))]
    {
        let retried = found(6, changed);
        assert_eq!((retried.line, retried.what), (6, "step"), "{retried:?}");
    }
    let output = found(11, said(6, &[], Some(End::Completed { output: json!("x") })));
    assert_eq!((output.line, output.what), (11, "end"));
    let status = found(12, finished(6, RunStatus::Failed));
    assert_eq!((status.line, status.what), (12, "end"));
    let mut trace = trace();
    if let Line::Plan(version) = &mut trace.lines[0] {
        version.document["steps"][1]["prompt"] = json!("{{ nothing }}");
    }
    let refused = replay(&trace).unwrap_err();
    assert_eq!((refused.line, refused.what), (2, "plan"));
    assert!(refused.replayed.to_string().contains("/steps/1"), "{refused:?}");
}

#[test]
fn a_changed_document_goes_on_with_what_has_settled() {
    let steps = |tool: &str| {
        json!([search("first"), {"id": "find", "type": "tool", "tool": tool, "args": {"query": "{{ first.result }}"}},
        {"id": "write", "type": "llm", "prompt": "{{ find.result }}"}])
    };
    let replan = End::Replan { path: "find".to_owned() };
    let output = json!("done");
    let lines = vec![
        version(0, 1, steps("search")),
        said(0, &["first"], None),
        succeeded(1, "first", json!("x")),
        said(1, &["find"], None),
        failed(2, "find", "FORBIDDEN", None),
        said(2, &[], Some(replan)),
        version(3, 2, steps("search")),
        said(3, &["find"], None),
        succeeded(4, "find", json!("y")),
        said(4, &["write"], None),
        succeeded(5, "write", output.clone()),
        said(5, &[], Some(End::Completed { output })),
        finished(5, RunStatus::Completed),
    ];
    let mut trace = Trace { header: trace().header, lines };
    assert_eq!(replay(&trace).unwrap().steps, 4);
    // Only what the change named begins anew.
    if let Line::Plan(version) = &mut trace.lines[6] {
        version.forgotten.clear();
    }
    let found = replay(&trace).unwrap_err();
    assert_eq!((found.line, found.iteration), (9, 2), "{found:?}");
}

#[test]
fn a_plan_that_waits_and_is_cancelled_is_replayed() {
    let ask = json!({"id": "write", "type": "input", "question": "Which?", "expires_s": 60});
    let mut cancelled = said(9, &[], Some(End::Cancelled));
    if let Line::Advance(advanced) = &mut cancelled {
        (advanced.cancelled, advanced.cancel) = (true, vec!["write".to_owned()]);
        advanced.settled.insert("write".to_owned(), "cancelled".to_owned());
    }
    let mut asked = said(0, &["write"], None);
    if let Line::Advance(advanced) = &mut asked {
        advanced.wait_until = Some(at(0) + TimeDelta::seconds(60));
    }
    let lines = vec![version(0, 1, json!([ask])), asked, cancelled, finished(9, RunStatus::Cancelled)];
    let mut trace = Trace { header: trace().header, lines };
    assert_eq!(replay(&trace).unwrap().status, Some(RunStatus::Cancelled));
    trace.lines.truncate(2);
    trace.lines.push(report(5, "write", Outcome::Answered { result: json!("the first") }));
    let output = json!("the first");
    trace.lines.push(said(5, &[], Some(End::Completed { output })));
    assert_eq!(replay(&trace).unwrap().steps, 1);
    if let Line::Advance(advanced) = &mut trace.lines[1] {
        advanced.wait_until = Some(at(61));
    }
    assert_eq!(replay(&trace).unwrap_err().line, 3);
}
