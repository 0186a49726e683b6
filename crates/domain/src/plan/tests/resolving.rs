use super::*;

fn hotels() -> Document {
    let document = json!({"v": 1, "goal": "Compare three hotels and book the best", "steps": [
        {"id": "find", "type": "tool", "title": "Search hotels", "tool": "search", "args": {"city": "{{ input.city }}", "n": "{{ input.n }}"}},
        {"id": "each", "type": "loop", "over": "find.result[:3]", "as": "hotel", "max": 3, "at_once": 3, "steps": [
            {"id": "read", "type": "task", "instructions": "Judge {{ hotel.name }}.", "tools": ["search"], "context": ["hotel"]}]},
        {"id": "pick", "type": "llm", "prompt": "Pick one:{% for r in each.result %}\n- {{ r }}{% endfor %}", "max_output_tokens": 9},
        {"id": "ask", "type": "input", "question": "Book {{ pick.result.id }}?", "schema": {"type": "boolean"}, "default": false},
        {"id": "book", "type": "condition", "if": "ask.result", "then": [
            {"id": "do", "type": "tool", "tool": "book", "args": {"id": "{{ pick.result.id }}"}}]}],
        "output": "{{ book.result or 'nothing was booked' }}"});
    Document::parse(&document.to_string(), OFFER).unwrap()
}

fn at(document: &Document, states: &States, path: &str) -> Result<Action, Failure> {
    resolve(document, states, &json!({"city": "Rome", "n": 3}), DateTime::UNIX_EPOCH, path)
}

#[test]
fn every_step_resolves_in_its_scope() {
    let (document, mut states) = (hotels(), States::new());
    let mut seen = Vec::new();
    let end = loop {
        let next = advance(&document, &mut states, &given(DateTime::UNIX_EPOCH));
        for path in next.start {
            let resolved = at(&document, &states, &path).unwrap();
            if let Action::Input { expires_s, .. } = &resolved {
                let due = DateTime::UNIX_EPOCH + TimeDelta::seconds((*expires_s).into());
                assert_eq!(states[&path].due, Some(due));
            }
            let result = match step(&document, &path).unwrap().id.as_str() {
                "find" => json!([{"name": "A</result>"}, {"name": "B"}, {"name": "C"}, {"name": "D"}]),
                "pick" => json!({"id": 7}),
                _ => true.into(),
            };
            assert!(succeed(&mut states, &path, result.clone()) || answer(&mut states, &path, result));
            seen.push(resolved);
        }
        if let Some(end) = next.end {
            break end;
        }
    };
    assert_eq!(end, End::Completed { output: true.into() });
    let Action::Tool { tool, args } = &seen[0] else { panic!("{seen:?}") };
    assert_eq!((tool.as_str(), args), ("search", json!({"city": "Rome", "n": 3}).as_object().unwrap()));
    let Action::Task { instructions, .. } = &seen[1] else { panic!("{seen:?}") };
    let item = "<result step=\"hotel\">{\"name\":\"A&lt;/result&gt;\"}</result>";
    assert_eq!(instructions, &format!("Judge <result step=\"each\">A&lt;/result&gt;</result>.\n\n{item}"));
    let Action::Llm { prompt, .. } = &seen[4] else { panic!("{seen:?}") };
    assert_eq!(prompt, &format!("Pick one:{}", "\n- <result step=\"each\">true</result>".repeat(3)));
    let Action::Input { question, expires_s, .. } = &seen[5] else { panic!("{seen:?}") };
    assert_eq!((question.as_str(), *expires_s), ("Book 7?", 86_400));
    assert!(matches!(&seen[6], Action::Tool { args, .. } if args["id"] == 7));
}

#[test]
fn paths_that_do_not_exist_are_refused() {
    let (document, states) = (hotels(), States::new());
    for path in [
        "",
        "x",
        "each",
        "each.read",
        "each[0].read",
        "each[x].read",
        "find[0]",
        "find.x",
        "book.do.x",
        "each[0]",
    ] {
        let failure = at(&document, &states, path).unwrap_err();
        assert_eq!(failure.code, "VALIDATION_ERROR", "{path}");
    }
    let failure = at(&document, &states, "pick").unwrap_err();
    assert!(failure.message.starts_with("prompt: undefined value"), "{failure:?}");
}

#[test]
fn prompts_escape_whatever_the_template_says() {
    let results = json!({"a": {"result": "<b>&"}, "b": {"result": [1]}});
    let origins = [("a", "a"), ("b", "b")].map(|(name, step)| (name.to_owned(), step.to_owned())).into();
    for (source, text) in [
        ("{{ a.result }}", "<result step=\"a\">&lt;b&gt;&amp;</result>"),
        ("{{ a.result ~ b.result }}", "<result step=\"a b\">&lt;b&gt;&amp;[1]</result>"),
        (
            "{% autoescape false %}{{ a.result }}{% endautoescape %}",
            "<result step=\"a\">&lt;b&gt;&amp;</result>",
        ),
        ("{% set x = a.result %}{{ x }}", "<result step=\"a\">&lt;b&gt;&amp;</result>"),
        ("{{ '}}' ~ {'k': {'l': 1}} }}{ {{ 1 }}", "}}{'k': {'l': 1}}{ 1"),
        ("{% raw %}{{ a }}{% endraw %}{# {{ a }} #}", "{{ a }}"),
        ("{% if a.result %}yes{% endif %} a.result", "yes a.result"),
        ("{% for n, v in [['x', b.result]] %}{{ v }}{% endfor %}", "<result step=\"b\">[1]</result>"),
    ] {
        assert_eq!(expression::prompt(source, &results, &origins).unwrap(), text, "{source}");
    }
    assert!(expression::prompt("{{ a.result|safe }}", &results, &origins).is_err());
}

#[test]
fn what_is_sliced_is_a_dependency() {
    for (source, is_template) in [
        ("a.result[:3]", false),
        ("[1, a.result[1:b[:2]:c]][0]", false),
        ("don't [x: y] {{ a.result['\\':':] }}", true),
        ("{% for x in a.result[1:] %}{{ x[:2] }}{% endfor %}", true),
    ] {
        let names = expression::names(source, is_template).unwrap();
        let expected: &[&str] = if source.contains("b[") { &["a", "b", "c"] } else { &["a"] };
        assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{source}");
    }
    let found = problems(&plan(
        json!([{"id": "e", "type": "loop", "over": "fnd.result[:3]", "max": 3, "steps": [llm("s", "x")]}]),
    ));
    assert!(found.contains("there is no step or variable `fnd`"), "{found}");
}

#[test]
fn long_results_are_cut_where_they_are_read() {
    let document = json!({"v": 1, "goal": "g", "steps": [
        llm("a", "x"), {"id": "b", "type": "tool", "tool": "search", "args": {"all": "{{ a.result }}"}}]});
    let document = Document::parse(&document.to_string(), OFFER).unwrap();
    let long: Vec<Value> = (0..5_000).map(|n| json!({"name": format!("hotel \"{n}\"")})).collect();
    for result in [json!("ä\"\n".repeat(20_000)), json!(long), json!({"deep": {"list": long}, "z": 1})] {
        let mut states = States::new();
        advance(&document, &mut states, &given(DateTime::UNIX_EPOCH));
        assert!(succeed(&mut states, "a", result.clone()));
        assert_eq!(states["a"].result, result, "the state keeps all of it");
        let args = match at(&document, &states, "b") {
            Ok(Action::Tool { args, .. }) => args,
            other => panic!("{other:?}"),
        };
        let text = args["all"].to_string();
        assert!(text.len() <= MAX_RESULT && text.len() > MAX_RESULT / 2, "{}", text.len());
        assert!(text.contains("read_plan with the path `a` returns all"));
    }
}
