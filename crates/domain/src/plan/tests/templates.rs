//! Templates: what is wrong with a file, and what is wrong with an input.

use serde_json::json;

use crate::plan::{Template, Templates};

fn file() -> serde_json::Value {
    json!({"name": "greet", "description": "Greets.", "input": {
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "document": {"v": 1, "goal": "Greet", "steps": [{"id": "say", "type": "llm", "prompt": "Greet {{ input.name }}"}]}})
}

fn refused(file: &serde_json::Value) -> String {
    let problems = Template::parse(&file.to_string(), "greet", &["search"]).unwrap_err();
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn wrong_files_of_templates_are_refused_with_pointers() {
    Template::parse(&file().to_string(), "greet", &[]).unwrap();
    let step = json!([{"id": "x", "type": "tool", "tool": "serch"}]);
    for (at, value, expected) in [
        ("/name", json!("hello"), "/name: must be `greet`"),
        ("/description", json!(" "), "/description: must have 1 to 300"),
        ("/input", json!({}), "/input/type: must be \"object\""),
        ("/document/steps", step, "/document/steps/0/tool: there is no tool `serch`"),
        (
            "/document/steps/0/prompt",
            json!("{{ missing }}"),
            "/document/steps/0: there is no step or variable `missing`",
        ),
    ] {
        let mut wrong = file();
        *wrong.pointer_mut(at).unwrap() = value;
        assert!(refused(&wrong).contains(expected), "{expected}: {}", refused(&wrong));
    }
    let mut wrong = file();
    wrong["steps"] = json!([]);
    assert!(refused(&wrong).contains("unknown field `steps`"), "{}", refused(&wrong));
}

#[test]
fn templates_are_found_by_name_and_check_inputs() {
    let templates = Templates::new([Template::parse(&file().to_string(), "greet", &[]).unwrap()]);
    let template = templates.get("greet").unwrap();
    assert_eq!(template.fields().collect::<Vec<_>>(), ["name"]);
    template.check_input(&json!({"name": "Ada"})).unwrap();
    assert_eq!(template.check_input(&json!({"name": 1})).unwrap_err().pointer, "/name");
    let unknown = templates.get("gret").unwrap_err();
    assert!(unknown.contains("did you mean `greet`?"), "{unknown}");
}
