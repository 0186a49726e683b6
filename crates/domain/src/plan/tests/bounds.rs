use super::*;
use crate::autonomy::Autonomy;
use crate::plan::MAX_STEPS;
use crate::question::schema::check;
use crate::tool_call::EffectClass;

#[test]
fn schema_of_models_accepts_what_is_read() {
    let example = json!({"v": 1, "goal": "Compare three hotels and book the best", "steps": [
        {"id": "find", "type": "tool", "title": "Search hotels", "tool": "search", "args": {"city": "{{ input.city }}"}},
        {"id": "each", "type": "loop", "over": "find.result[:3]", "as": "hotel", "max": 3, "at_once": 3, "steps": [
            {"id": "read", "type": "task", "title": "Read reviews", "instructions": "Judge the reviews of {{ hotel.name }}.", "tools": ["search"]}]},
        {"id": "pick", "type": "llm", "prompt": "Pick one: {{ each.result }}", "schema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}},
        {"id": "ask", "type": "input", "question": "Book {{ pick.result.id }}?", "schema": {"type": "boolean"}, "expires_s": 86400},
        {"id": "book", "type": "condition", "if": "ask.result", "then": [{"id": "do", "type": "tool", "tool": "book", "args": {"id": "{{ pick.result.id }}"}}]}],
        "output": "{{ book.result or 'nothing was booked' }}"});
    Document::parse(&example.to_string(), OFFER).unwrap();
    check(&model_schema(), &example).unwrap();
    let mut wrong = example.clone();
    wrong["steps"][1]["steps"][0]["promt"] = "x".into();
    check(&model_schema(), &wrong).unwrap_err();
    check(&model_schema(), &json!({"v": 1, "goal": "g", "steps": []})).unwrap_err();
    let nested = json!({"id": "p", "type": "parallel", "steps": [{"id": "q", "type": "parallel", "steps": [llm("a", "x")]}]});
    let nested = plan(json!([nested]));
    Document::parse(&nested.to_string(), OFFER).unwrap();
    check(&model_schema(), &nested).unwrap_err();
    assert!(!model_schema().to_string().contains("$ref"));
}

#[test]
fn repeated_effects_ask_first() {
    let search = json!({"id": "s", "type": "tool", "tool": "search"});
    let book = json!({"id": "b", "type": "tool", "tool": "book"});
    let document = |steps: Value| Document::parse(&plan(steps).to_string(), OFFER).unwrap();
    let class = |tool: &str| if tool == "book" { EffectClass::Effect } else { EffectClass::Read };
    let once = document(json!([book, search]));
    let side_by_side = document(json!([{"id": "p", "type": "parallel", "steps": [
        search, {"id": "c", "type": "condition", "if": "true", "then": [book]}]}]));
    assert_eq!(approval(&once, Autonomy::Medium, class), None);
    assert_eq!(approval(&once, Autonomy::Low, class), Some(Approval::Level));
    assert_eq!(
        approval(&side_by_side, Autonomy::Medium, class),
        Some(Approval::Effects(vec!["p.c.b".to_owned()]))
    );
    assert_eq!(approval(&side_by_side, Autonomy::High, class), None);
    let task = json!({"id": "t", "type": "task", "instructions": "x", "tools": ["book"]});
    let loops = document(json!([{"id": "l", "type": "loop", "over": "[1]", "max": 1, "steps": [task]}]));
    assert_eq!(approval(&loops, Autonomy::Medium, class), Some(Approval::Effects(vec!["l.t".to_owned()])));
}

#[test]
fn repetitions_wait_longer_each_time() {
    let document = plan(
        json!([{"id": "a", "type": "tool", "tool": "search", "retry": {"max": 5, "base_ms": 20_000}}, {"id": "b", "type": "tool", "tool": "search"}]),
    );
    let document = Document::parse(&document.to_string(), OFFER).unwrap();
    let mut states = States::new();
    let start = DateTime::UNIX_EPOCH;
    let error = |code: &str| Failure { code: code.to_owned(), message: "x".to_owned() };
    let mut now = start;
    let mut delays = Vec::new();
    for jitter in [1.0, 0.5, 1.0, 0.0, 1.0] {
        advance(&document, &mut states, &given(now));
        assert!(fail(&document.steps[0], &mut states, "a", error("RATE_LIMITED"), now, jitter));
        let due = states["a"].due.unwrap();
        delays.push((due - now).num_seconds());
        now = due;
    }
    assert_eq!(delays, [20, 20, 60, 0, 60]);
    advance(&document, &mut states, &given(now));
    assert!(fail(&document.steps[0], &mut states, "a", error("TIMEOUT"), now, 1.0));
    assert_eq!((states["a"].status, states["a"].attempt), (Status::Failed, 6));
    // Without a line in the document, a tool is not repeated; what cannot get better is not either.
    for (retry, code, status) in [
        (None, "TIMEOUT", Status::Failed),
        (Some(Retry::TWICE), "NOT_FOUND", Status::Failed),
        (Some(Retry::TWICE), "IO_ERROR", Status::Retrying),
    ] {
        let mut states = States::new();
        advance(&document, &mut states, &given(start));
        let step = Step { retry, ..document.steps[1].clone() };
        assert!(fail(&step, &mut states, "b", error(code), start, 1.0));
        assert_eq!(states["b"].status, status, "{code}");
    }
}

#[test]
fn shipped_numbers_are_the_defaults() {
    let shipped: Limits = toml::from_str(include_str!("../../../../../jobs/plans.toml")).unwrap();
    assert_eq!(shipped, Limits::default());
    for wrong in ["step = 1", "at_once = 0", "steps_of_request = 2001"] {
        assert!(toml::from_str::<Limits>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn loops_have_a_bound_together() {
    let turns = |id: &str| {
        json!({"id": id, "type": "loop", "over": "range(50)|list", "max": 50, "at_once": 20, "on_error": "continue",
        "steps": [llm("a", "x"), llm("b", "x"), llm("c", "x")]})
    };
    let loops: Vec<Value> = (0..14).map(|nth| turns(&format!("l{nth}"))).collect();
    let document = Document::parse(&plan(json!(loops)).to_string(), OFFER).unwrap();
    let mut states = States::new();
    loop {
        let next = advance(&document, &mut states, &Given { at_once: 500, ..given(DateTime::UNIX_EPOCH) });
        if next.start.is_empty() {
            break;
        }
        for path in next.start {
            assert!(succeed(&mut states, &path, Value::Null));
        }
    }
    assert!(states.len() <= MAX_STEPS + 14, "{}", states.len());
    let error = states.values().find_map(|state| state.error.clone()).unwrap();
    assert!(error.message.contains("more than 2000 steps"), "{error:?}");
}

#[test]
fn numbers_and_defaults_are_checked() {
    let found = problems(&plan(json!([
        {"id": "a", "type": "llm", "prompt": "x", "max_output_tokens": 0},
        {"id": "b", "type": "input", "question": "x", "schema": {"type": "boolean"}, "default": "yes", "expires_s": 0}])));
    for problem in [
        "/steps/0/max_output_tokens: must be 1 to",
        "/steps/1/default: does not match the schema",
        "/steps/1/expires_s: must be 1 to",
    ] {
        assert!(found.contains(problem), "{problem}: {found}");
    }
}
