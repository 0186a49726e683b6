mod bounds;
mod containers;
mod generated;
mod hostile;
mod lists;
mod patching;
mod resolving;
mod running;
mod sources;
mod templates;

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::*;

const OFFER: Offer<'static> = Offer { tools: &["search", "book"], steps: 100 };

fn problems(json: &Value) -> String {
    let problems = Document::parse(&json.to_string(), OFFER).unwrap_err();
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn plan(steps: Value) -> Value {
    json!({"v": 1, "goal": "g", "steps": steps})
}

fn llm(id: &str, prompt: &str) -> Value {
    json!({"id": id, "type": "llm", "prompt": prompt})
}

fn given(now: DateTime<Utc>) -> Given<'static> {
    let deadline = DateTime::UNIX_EPOCH + TimeDelta::days(9);
    Given {
        input: &Value::Null,
        now,
        paused: false,
        cancelled: false,
        deadline,
        may_replan: false,
        at_once: 5,
    }
}

#[test]
fn templates_imply_dependencies() {
    let document = plan(json!([llm("b", "{{ a.result }}"), llm("a", "x")]));
    let document = Document::parse(&document.to_string(), OFFER).unwrap();
    assert_eq!(document.steps[0].after, BTreeSet::from(["a".to_owned()]));
}

#[test]
fn problems_say_where_and_what_is_allowed() {
    let found =
        problems(&plan(json!([llm("a", "{{ c.result }}"), llm("b", "{{ a }}"), llm("c", "{{ b }}")])));
    assert!(found.contains("/steps: steps wait for each other: a → c → b → a"), "{found}");
    let found = problems(&plan(json!([{"id": "a", "type": "tool", "tool": "serch"}])));
    assert!(found.contains(
        "/steps/0/tool: there is no tool `serch`; there are: search, book; did you mean `search`?"
    ));
    let found = problems(&plan(json!([{"id": "a", "type": "llm", "promt": "x"}])));
    assert!(found.contains("/steps/0/promt") && found.contains("did you mean `prompt`?"), "{found}");
    let found = problems(&plan(json!([llm("a", "x"), llm("a", "{{ missing }}")])));
    assert!(
        found.contains("/steps/1/id: `a` is used twice") && found.contains("/steps/1: there is no step"),
        "{found}"
    );
}

#[test]
fn conditions_loops_and_questions() {
    let document = json!({"v": 1, "goal": "g", "output": "{{ each.result }}", "steps": [
        {"id": "ask", "type": "input", "question": "Go?"},
        {"id": "each", "type": "loop", "over": "[1, 2, 3]", "max": 3, "when": "ask.result", "steps": [llm("s", "{{ item }}")]},
        {"id": "if_", "type": "condition", "if": "ask.result", "then": [llm("t", "x")], "else": [llm("e", "x")]}]});
    let document = Document::parse(&document.to_string(), OFFER).unwrap();
    let mut states = States::new();
    let first = advance(&document, &mut states, &given(DateTime::UNIX_EPOCH));
    assert_eq!(first.start, ["ask"]);
    assert!(answer(&mut states, "ask", true.into()) && !answer(&mut states, "ask", false.into()));
    let mut started = Vec::new();
    let end = loop {
        let next = advance(&document, &mut states, &given(DateTime::UNIX_EPOCH));
        for path in &next.start {
            assert!(succeed(&mut states, path, path.as_str().into()));
        }
        started.extend(next.start);
        if let Some(end) = next.end {
            break end;
        }
    };
    assert_eq!(started, ["each[0].s", "if_.t", "each[1].s", "each[2].s"]);
    assert_eq!(end, End::Completed { output: json!(["each[0].s", "each[1].s", "each[2].s"]) });
    assert_eq!(states["if_.e"].status, Status::Skipped);
}
