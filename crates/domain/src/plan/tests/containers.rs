use super::*;

/// Runs a plan whose steps fail for good if their path ends with one of `failing`; returns its end.
fn run(document: &Document, states: &mut States, failing: &[&str]) -> End {
    for _ in 0..500 {
        let next = advance(document, states, &given(DateTime::UNIX_EPOCH));
        if let Some(end) = next.end {
            return end;
        }
        for path in next.start {
            if failing.iter().any(|end| path.ends_with(end)) {
                let error = Failure { code: "NOT_FOUND".to_owned(), message: "x".to_owned() };
                assert!(fail(
                    step(document, &path).unwrap(),
                    states,
                    &path,
                    error,
                    DateTime::UNIX_EPOCH,
                    0.5
                ));
            } else {
                assert!(succeed(states, &path, path.as_str().into()));
            }
        }
    }
    panic!("the plan does not end");
}

#[test]
fn failing_branches_are_joined_as_said() {
    let mut cases = 0;
    for on_error in ["replan", "continue"] {
        let child = |id: &str| json!({"id": id, "type": "llm", "prompt": "x", "on_error": on_error});
        let steps = json!([child("a"), child("b")]);
        let parallel = |join: &str| json!({"id": "box", "type": "parallel", "join": join, "steps": steps});
        let inner = json!({"id": "in", "type": "loop", "over": "[1, 2]", "max": 2, "steps": steps, "on_error": on_error});
        // Whether each succeeds if `a` fails, and if both fail.
        for (container, one, both) in [
            (parallel("all"), on_error == "continue", on_error == "continue"),
            (parallel("any"), true, false),
            (parallel("settled"), true, true),
            (
                json!({"id": "box", "type": "condition", "if": "true", "then": steps}),
                on_error == "continue",
                on_error == "continue",
            ),
            (
                json!({"id": "box", "type": "loop", "over": "[1, 2]", "max": 2, "at_once": 2, "steps": steps}),
                on_error == "continue",
                on_error == "continue",
            ),
            (
                json!({"id": "box", "type": "loop", "over": "[1, 2]", "max": 2, "steps": [inner]}),
                on_error == "continue",
                on_error == "continue",
            ),
        ] {
            for (failing, succeeds) in [(&["a"][..], one), (&["a", "b"], both)] {
                cases += 1;
                let json = plan(json!([container, llm("then", "{{ box.result }}"), llm("free", "x")]));
                let document = Document::parse(&json.to_string(), OFFER).unwrap();
                let mut states = States::new();
                let end = run(&document, &mut states, failing);
                let case = format!("{on_error} {container} {failing:?}: {end:?}");
                assert_eq!(matches!(end, End::Completed { .. }), succeeds, "{case}");
                assert_eq!(
                    states["box"].status,
                    if succeeds { Status::Succeeded } else { Status::Failed },
                    "{case}"
                );
                assert_eq!(
                    states["then"].status,
                    if succeeds { Status::Succeeded } else { Status::Skipped },
                    "{case}"
                );
                assert_eq!(states["free"].status, Status::Succeeded, "{case}");
                let turns = states.keys().filter(|path| path.ends_with(".a")).count();
                assert_eq!(
                    turns,
                    match states.keys().filter(|path| path.contains("].in[")).count() {
                        0 if container["type"] == "loop" => 2,
                        0 => 1,
                        _ => 4,
                    },
                    "{case}"
                );
            }
        }
    }
    assert_eq!(cases, 24);
}

#[test]
fn end_of_an_inner_loop_leaves_the_outer_one() {
    let json = plan(json!([{"id": "out", "type": "loop", "over": "[1, 2, 3]", "max": 3, "steps": [
        {"id": "in", "type": "loop", "while": "in.result|length < item", "max": 9, "as": "n", "steps": [llm("s", "{{ n }}")]}]}]));
    let document = Document::parse(&json.to_string(), OFFER).unwrap();
    let mut states = States::new();
    assert_eq!(run(&document, &mut states, &[]), End::Completed { output: Value::Null });
    let turns: Vec<usize> = (0..3).map(|turn| states[&format!("out[{turn}].in")].turns.len()).collect();
    assert_eq!(turns, [1, 2, 3]);
    assert_eq!(states["out"].result[1], json!(["out[1].in[0].s", "out[1].in[1].s"]));
}

#[test]
fn each_answer_is_used_once() {
    let json = plan(json!([{"id": "each", "type": "loop", "over": "[1, 2, 3]", "max": 3, "steps": [
        {"id": "two", "type": "parallel", "join": "settled", "steps": [
            {"id": "a", "type": "input", "question": "A{{ item }}?", "expires_s": 10},
            {"id": "b", "type": "input", "question": "B?", "expires_s": 20, "default": "none"}]}]}]));
    let document = Document::parse(&json.to_string(), OFFER).unwrap();
    let (mut states, mut now) = (States::new(), DateTime::UNIX_EPOCH);
    for (turn, first, second) in [(0, "a", "b"), (1, "b", "a"), (2, "b", "")] {
        let path = |id: &str| format!("each[{turn}].two.{id}");
        let next = advance(&document, &mut states, &given(now));
        assert_eq!(next.start, [path("a"), path("b")], "each turn asks anew");
        assert!(answer(&mut states, &path(first), format!("{first}{turn}").into()));
        let next = advance(&document, &mut states, &given(now));
        assert!(next.start.is_empty() && next.end.is_none(), "the other question stays open");
        assert!(!answer(&mut states, &path(first), "again".into()));
        if second.is_empty() {
            assert_eq!(next.wait_until, Some(now + TimeDelta::seconds(10)));
            now = next.wait_until.unwrap();
            assert!(matches!(advance(&document, &mut states, &given(now)).end, Some(End::Completed { .. })));
            assert!(!answer(&mut states, &path("a"), "late".into()));
            assert_eq!(states[&path("a")].error.as_ref().unwrap().code, "TIMEOUT");
        } else {
            assert!(answer(&mut states, &path(second), format!("{second}{turn}").into()));
        }
    }
    let expected = json!([{"a": "a0", "b": "b0"}, {"a": "a1", "b": "b1"}, {"a": null, "b": "b2"}]);
    assert_eq!(states["each"].result, expected);
}

#[test]
fn conditions_are_decided_once() {
    let json = plan(
        json!([{"id": "c", "type": "condition", "if": "now < '1970-01-01T00:00:05'", "then": [llm("t", "x"), llm("u", "{{ t }}")], "else": [llm("e", "x")]}]),
    );
    let document = Document::parse(&json.to_string(), OFFER).unwrap();
    let mut states = States::new();
    assert_eq!(advance(&document, &mut states, &given(DateTime::UNIX_EPOCH)).start, ["c.t"]);
    assert!(succeed(&mut states, "c.t", 1.into()));
    let later = DateTime::UNIX_EPOCH + TimeDelta::seconds(9);
    assert_eq!(
        advance(&document, &mut states, &given(later)).start,
        ["c.u"],
        "the branch stays the same one"
    );
}
