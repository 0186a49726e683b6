use super::*;

fn document() -> Value {
    json!({"v": 1, "goal": "g", "output": "{{ c.result }}", "steps": [
        {"id": "a", "type": "tool", "tool": "search", "args": {"q": "{{ input }}"}},
        llm("b", "{{ a.result }}"), llm("c", "{{ b.result }}"), llm("d", "x"),
        {"id": "if_", "type": "condition", "after": ["c"], "if": "true", "then": [llm("t", "x"), llm("u", "{{ t.result }}")]}]})
}

fn parse(json: &Value) -> Document {
    Document::parse(&json.to_string(), OFFER).unwrap()
}

/// The plan after `a` failed, and all that could happen has happened.
fn failed(json: &Value) -> States {
    let (document, mut states) = (parse(json), States::new());
    settle(&document, &mut states, &["a"]);
    states
}

/// Advances until nothing starts any more; steps whose id is in `failing` fail for good, the others succeed.
fn settle(document: &Document, states: &mut States, failing: &[&str]) -> Option<End> {
    loop {
        let next = advance(document, states, &Given { may_replan: true, ..given(DateTime::UNIX_EPOCH) });
        if next.end.is_some() || next.start.is_empty() {
            return next.end;
        }
        for path in next.start {
            let step = step(document, &path).unwrap();
            if failing.contains(&step.id.as_str()) {
                let error = Failure { code: "NOT_FOUND".to_owned(), message: "x".to_owned() };
                assert!(fail(step, states, &path, error, DateTime::UNIX_EPOCH, 0.5));
            } else {
                assert!(succeed(states, &path, step.id.as_str().into()));
            }
        }
    }
}

fn refused(json: &Value, states: &States, change: Value) -> String {
    let problems = patch(json, states, &change, OFFER).unwrap_err();
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn changed_plans_go_on() {
    let json = document();
    let states = failed(&json);
    assert_eq!(states["b"].error.as_ref().unwrap().code, "dependency_failed");
    let change = json!({"remove": ["b"], "add": [
        {"id": "a2", "type": "tool", "tool": "book", "args": {}}, llm("b", "{{ a2.result }}"), llm("c2", "{{ b.result }}")],
        "output": "{{ c2.result }}"});
    let Ok(Patched::Changed { json, document, states: mut changed }) = patch(&json, &states, &change, OFFER)
    else {
        panic!("it is valid")
    };
    let gone: Vec<&String> = states.keys().filter(|path| !changed.contains_key(*path)).collect();
    assert_eq!(gone, ["b", "c", "if_"], "one is removed, two are pending again");
    let ids: Vec<&str> = document.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["a", "c", "d", "if_", "a2", "b", "c2"]);
    assert!(
        changed["a"].superseded && !changed.contains_key("b") && changed["d"].status == Status::Succeeded
    );
    assert_eq!(*document, parse(&json));
    assert_eq!(settle(&document, &mut changed, &[]), Some(End::Completed { output: "c2".into() }));
}

#[test]
fn what_has_begun_is_not_touched() {
    let json = document();
    let mut states = States::new();
    advance(&parse(&json), &mut states, &given(DateTime::UNIX_EPOCH));
    assert!(succeed(&mut states, "d", 1.into()));
    let found = refused(&json, &states, json!({"remove": ["a", "d", "x", "if_.x", "if_[0]", "b.b"]}));
    for line in [
        "/remove/0: `a` cannot be removed: it is running",
        "/remove/1: `d` cannot be removed: it is succeeded",
        "/remove/2: there is no step `x`",
        "/remove/3: there is no step `if_.x`",
        "/remove/4: there is no step",
        "/remove/5",
    ] {
        assert!(found.contains(line), "{line}: {found}");
    }
    let Ok(Patched::Changed { document, .. }) = patch(&json, &states, &json!({"remove": ["if_.u"]}), OFFER)
    else {
        panic!()
    };
    assert_eq!(document.steps[4].lists()[0].len(), 1);
    let found = refused(&json, &states, json!({"add": [llm("a", "x")]}));
    assert!(found.contains("/add/0/id: `a` is used twice"), "{found}");
}

#[test]
fn patches_are_checked_like_documents() {
    let json = document();
    let states = failed(&json);
    for (change, problem) in [
        (
            json!({"add": [llm("x", "{{ y.result }}"), llm("y", "{{ x.result }}")]}),
            "wait for each other: x → y → x",
        ),
        (
            json!({"add": [llm("x", "{{ a.result }}")]}),
            "/add/0: waits for `a`, which is failed, so it would never start",
        ),
        (json!({"add": [llm("x", "{{ c.result }}")]}), "/add/0: waits for `c`, which is skipped"),
        (json!({"add": [{"id": "x", "type": "tool", "tool": "rm"}]}), "/add/0/tool: there is no tool `rm`"),
        (json!({"add": [{"id": "x", "type": "llm", "promt": "x"}]}), "/add/0/promt: there is no field"),
        (json!({}), "changes nothing"),
        (json!({"ad": []}), "unknown field `ad`"),
        (json!([1]), "invalid"),
    ] {
        let found = refused(&json, &states, change.clone());
        assert!(found.contains(problem), "{change}: {found}");
    }
    let small = Offer { tools: &["book"], steps: 1 };
    let many = patch(&json, &states, &json!({"add": [llm("x", "x"), llm("y", "y")]}), small).unwrap_err();
    assert_eq!(many[0].to_string(), "/add: has 2 steps, at most 1 are allowed");
    let gone = patch(&json, &states, &json!({"add": [{"id": "x", "type": "tool", "tool": "search"}]}), small)
        .unwrap_err();
    assert!(gone[0].to_string().contains("/add/0: there is no tool `search`"), "{gone:?}");
    assert_eq!(
        patch(&json, &states, &json!({"give_up": "It is sold out."}), OFFER),
        Ok(Patched::GivenUp("It is sold out.".to_owned()))
    );
}

#[test]
fn work_that_failed_twice_is_refused() {
    let mut json = document();
    let mut states = failed(&json);
    let again = |id: &str| json!({"add": [{"id": id, "type": "tool", "tool": "search", "args": {"q": "{{ input }}"}, "title": "again"}]});
    let Ok(Patched::Changed { json: next, document, states: mut changed, .. }) =
        patch(&json, &states, &again("a2"), OFFER)
    else {
        panic!("once is not twice")
    };
    assert_eq!(settle(&document, &mut changed, &["a2"]), Some(End::Replan { path: "a2".to_owned() }));
    (json, states) = (next, changed);
    let found = refused(&json, &states, again("a3"));
    assert!(found.contains("/add/0: is the same work that failed 2 times already"), "{found}");
    let inside = json!({"add": [{"id": "p", "type": "parallel", "steps": again("a3")["add"]}]});
    assert!(refused(&json, &states, inside).contains("/add/0/steps/0: is the same work"));
    let other = json!({"add": [{"id": "a3", "type": "tool", "tool": "search", "args": {"q": "y"}}]});
    assert!(patch(&json, &states, &other, OFFER).is_ok());
    // Without a further change the plan fails, and keeps what is done.
    let end = advance(&document, &mut states, &given(DateTime::UNIX_EPOCH)).end;
    assert!(matches!(end, Some(End::Failed(Failure { code, .. })) if code == "NOT_FOUND"));
    assert_eq!(states["d"].result, "d");
}
