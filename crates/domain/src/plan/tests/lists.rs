use std::collections::BTreeMap;

use super::*;

fn document() -> Document {
    let document = json!({"v": 1, "goal": "g", "output": "{{ each.result }}", "steps": [
        {"id": "ask", "type": "input", "title": "Ask <you>", "question": "Go?"},
        {"id": "each", "type": "loop", "over": "range(3)|list", "max": 3, "when": "ask.result", "steps": [llm("s", "{{ item }}")]},
        {"id": "both", "type": "parallel", "after": ["ask"], "join": "settled", "steps": [
            llm("l", "x"), {"id": "c", "type": "condition", "if": "true", "then": [llm("t", "x")], "else": [llm("e", "x")]}]}]});
    Document::parse(&document.to_string(), OFFER).unwrap()
}

fn list(document: &Document, states: &States, status: &str) -> Checklist {
    let questions = BTreeMap::from([("ask".to_owned(), "question_1".to_owned())]);
    checklist(
        document,
        states,
        Heading { plan_id: Some("plan_1"), version: 1, status, questions: &questions },
    )
}

/// Applies operations as a client does: what is replaced must exist.
fn apply(list: &Checklist, changes: &[Value]) -> Checklist {
    let mut value = serde_json::to_value(list).unwrap();
    for change in changes {
        assert_eq!(change["op"], "replace");
        *value.pointer_mut(change["path"].as_str().unwrap()).expect("it exists") = change["value"].clone();
    }
    serde_json::from_value(value).unwrap()
}

#[test]
fn changes_lead_from_list_to_list() {
    let (document, mut states) = (document(), States::new());
    let mut now = DateTime::UNIX_EPOCH;
    let questions = BTreeMap::from([("ask".to_owned(), "question_1".to_owned())]);
    let heading = |status| Heading { plan_id: Some("plan_1"), version: 1, status, questions: &questions };
    let mut shown = Shown::new(&document, &states, heading("running"));
    let mut before = list(&document, &states, "running");
    let mut seen = Vec::new();
    let mut failed = false;
    let end = loop {
        let next = advance(&document, &mut states, &given(now));
        let status = if next.end.is_some() { "completed" } else { "running" };
        let after = list(&document, &states, status);
        let changed = states.changed().map(|(path, _)| path.as_str());
        let changes = shown.follow(&document, &states, heading(status), changed);
        assert_eq!((apply(&before, &changes), &*shown.list), (after.clone(), &after));
        states.commit();
        before = after;
        seen.extend(before.steps.iter().map(|line| {
            format!("{} {} {}", line.id, line.status.as_str(), line.detail.as_deref().unwrap_or_default())
        }));
        if let Some(end) = next.end {
            break end;
        }
        if next.start.is_empty() && states.values().any(|state| state.status == Status::Retrying) {
            now = next.wait_until.unwrap();
        }
        for path in next.start {
            let step = step(&document, &path).unwrap();
            if path == "both.l" && !failed {
                failed = true;
                let error = Failure { code: "IO_ERROR".to_owned(), message: "x".to_owned() };
                assert!(fail(step, &mut states, &path, error, now, 0.5));
            } else {
                assert!(succeed(&mut states, &path, "r".into()) || answer(&mut states, &path, true.into()));
            }
        }
    };
    assert!(matches!(end, End::Completed { .. }));
    for line in [
        "ask waiting ",
        "each running 0 of 3",
        "each running 1 of 3",
        "each done 3 of 3",
        "both.l waiting ",
        "both.l running attempt 2",
        "both.c.e skipped the other branch was taken",
        "both.c.t done ",
    ] {
        assert!(seen.iter().any(|seen| seen == line), "{line}: {seen:?}");
    }
    assert_eq!((before.done, before.of), (5, 5));
}

#[test]
fn waiting_lines_name_the_question() {
    let (document, mut states) = (document(), States::new());
    advance(&document, &mut states, &given(DateTime::UNIX_EPOCH));
    let list = serde_json::to_value(list(&document, &states, "waiting")).unwrap();
    assert_eq!(
        list["steps"][0],
        json!({"id": "ask", "title": "Ask <you>", "type": "input", "depth": 0, "status": "waiting", "question_id": "question_1"})
    );
    assert_eq!(list["steps"][5]["depth"], 2);
}

#[test]
fn end_says_what_each_step_made() {
    let (document, mut states) = (document(), States::new());
    advance(&document, &mut states, &given(DateTime::UNIX_EPOCH));
    assert!(answer(&mut states, "ask", "</step><b>".into()));
    advance(&document, &mut states, &given(DateTime::UNIX_EPOCH));
    assert!(succeed(&mut states, "both.l", "long".repeat(200).into()));
    let text = ended(
        &list(&document, &states, "failed"),
        &states,
        &End::Failed(Failure { code: "X".to_owned(), message: "<y>".to_owned() }),
        true,
    );
    assert!(text.starts_with("<plan_ended id=\"plan_1\" status=\"failed\" done=\"2\" of=\"5\">\n<untrusted source=\"plan_1\">\n\
        <step id=\"ask\" title=\"Ask &lt;you&gt;\" status=\"done\">&lt;/step&gt;&lt;b&gt;</step>"), "{text}");
    assert!(text.contains(&format!(" cut=\"true\">{}</step>", "long".repeat(100))), "{text}");
    assert!(
        text.contains("</untrusted>\n<error code=\"X\">&lt;y&gt;</error>\n<hint>")
            && text.ends_with("</plan_ended>"),
        "{text}"
    );
}

#[test]
fn states_keep_their_names() {
    for status in ["pending", "running", "retrying", "asking", "succeeded", "failed", "cancelled", "skipped"]
    {
        let parsed = Status::from_name(status).unwrap();
        assert_eq!((parsed.to_string().as_str(), json!(parsed)), (status, json!(status)));
    }
    assert_eq!(Status::from_name("done"), None);
    let (document, mut states) = (document(), States::new());
    let next = advance(&document, &mut states, &given(DateTime::UNIX_EPOCH));
    let stored: BTreeMap<String, State> = serde_json::from_value(json!(*states)).unwrap();
    assert_eq!(stored, *states);
    assert_eq!(serde_json::from_value::<Advance>(json!(next)).unwrap(), next);
}
