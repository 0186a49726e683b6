//! Answers, from the fields of a form. Whether they are allowed is decided by the API.

use std::collections::HashMap;

use houston_domain::question::NewQuestion;
use houston_domain::question::approval::Approval;
use houston_domain::question::input;
use houston_domain::visible::visible;
use houston_protocol::question::QuestionResponse;
use serde_json::{Map, Value, json};

/// A field that a question asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) label: String,
    pub(super) required: bool,
}

/// The question as the rules of questions know it.
pub(super) fn asked(question: &QuestionResponse) -> NewQuestion {
    let approval = question.approval.clone().map(|call| {
        Box::new(Approval {
            tool: call.tool,
            input: call.input,
            why: call.why,
            message_id: call.message_id,
            preview: call.preview,
            lasting: call.lasting,
            pin: None,
        })
    });
    NewQuestion {
        id: question.id,
        kind: question.kind,
        subject: question.subject.clone(),
        text: question.text.clone(),
        schema: question.schema.clone(),
        default_value: question.default_value.clone(),
        expires_at: question.expires_at.map(|at| at.0),
        approval,
        message_id: None,
    }
}

/// The fields that a form of the question has: those of an object with plain values.
pub(super) fn fields(question: &QuestionResponse) -> Vec<Field> {
    let Some(schema) = question.schema.as_ref().filter(|_| asked(question).is_input()) else {
        return Vec::new();
    };
    let content = content_of(schema);
    let field = |(name, required): (&str, bool)| {
        let kind = content[name]["type"].as_str().unwrap_or("text");
        let title = content[name]["title"].as_str().unwrap_or(name);
        let description =
            content[name]["description"].as_str().map(|text| format!(": {text}")).unwrap_or_default();
        let is_plain = !matches!(kind, "object" | "array");
        let label = if kind == "string" { title.to_owned() } else { format!("{title} ({kind})") };
        is_plain.then(|| Field {
            name: name.to_owned(),
            label: visible(&format!("{label}{description}")),
            required,
        })
    };
    input::fields(schema).into_iter().map(field).collect::<Option<Vec<_>>>().unwrap_or_default()
}

fn content_of(schema: &Value) -> &Value {
    &schema["oneOf"][0]["properties"]["content"]["properties"]
}

/// The answer of a form.
///
/// # Errors
/// What is wrong with the form, for the person who sent it.
pub(super) fn of_form(question: &QuestionResponse, form: &HashMap<String, String>) -> Result<Value, String> {
    let text = |name: &str| form.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
    let parsed = |name: &str| {
        let text = text(name).ok_or_else(|| format!("`{name}` is empty"))?;
        serde_json::from_str::<Value>(text).map_err(|error| format!("This is no JSON: {error}"))
    };
    let plain = |yes: bool| {
        let message = text("message").map(str::to_owned);
        let answer = asked(question).plain_answer(yes, message);
        answer.ok_or_else(|| "This question needs another answer than yes or no.".to_owned())
    };
    match text("decision") {
        Some("yes") => plain(true),
        Some("no") => plain(false),
        Some("edit") => Ok(json!({"decision": "edit", "input": parsed("input")?})),
        Some("json") => parsed("answer"),
        Some("fields") => Ok(json!({"action": "accept", "content": content(question, form)?})),
        _ => Err("The form does not say what was decided.".to_owned()),
    }
}

/// The fields of a form, each with the type that the schema says. Empty ones are left out.
fn content(
    question: &QuestionResponse,
    form: &HashMap<String, String>,
) -> Result<Map<String, Value>, String> {
    let none = Value::Null;
    let schema = content_of(question.schema.as_ref().unwrap_or(&none));
    let mut content = Map::new();
    for Field { name, .. } in fields(question) {
        let Some(text) =
            form.get(&format!("field.{name}")).map(|text| text.trim()).filter(|text| !text.is_empty())
        else {
            continue;
        };
        let value = match schema[&name]["type"].as_str() {
            Some(kind @ ("number" | "integer" | "boolean")) => {
                serde_json::from_str(text).map_err(|_| format!("`{name}` must be of the type {kind}"))?
            }
            _ => Value::from(text),
        };
        content.insert(name, value);
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(more: Value) -> QuestionResponse {
        let hex = "0".repeat(31);
        let mut all = json!({
            "id": format!("question_{hex}1"), "goal_id": format!("goal_{hex}2"), "user_id": format!("user_{hex}3"),
            "run_id": format!("run_{hex}4"), "kind": "input", "subject": "houston:input:call_1", "text": "Where to?",
            "expires_at": null, "state": "open", "answered_by": null, "created_at": "2026-11-22T09:00:00Z",
            "closed_at": null
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn form(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn fields_of_a_form_have_the_types_of_the_schema() {
        let content = json!({"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string"}, "nights": {"type": "integer"}, "pets": {"type": "boolean"}}});
        let question = question(json!({"schema": input::answer_schema(Some(&content))}));
        let names: Vec<_> = fields(&question).into_iter().map(|field| (field.name, field.required)).collect();
        assert_eq!(names, [("city".into(), true), ("nights".into(), false), ("pets".into(), false)]);
        let given =
            form(&[("decision", "fields"), ("field.city", "7"), ("field.nights", "2"), ("field.pets", "")]);
        let answer = of_form(&question, &given).unwrap();
        assert_eq!(answer, json!({"action": "accept", "content": {"city": "7", "nights": 2}}));
        let wrong = form(&[("decision", "fields"), ("field.nights", "two")]);
        assert_eq!(of_form(&question, &wrong).unwrap_err(), "`nights` must be of the type integer");
        assert_eq!(of_form(&question, &form(&[("decision", "no")])).unwrap(), json!({"action": "decline"}));
    }

    #[test]
    fn approvals_are_approved_rejected_and_edited() {
        let call = json!({"tool": "delete_note", "input": {"note_id": "1"}, "why": "it deletes",
            "message_id": format!("msg_{:032x}", 5)});
        let question = question(json!({"kind": "approval", "subject": "call_1", "approval": call}));
        let answer = |pairs: &[(&str, &str)]| of_form(&question, &form(pairs));
        assert_eq!(answer(&[("decision", "yes")]).unwrap(), json!({"decision": "approve"}));
        let rejected = answer(&[("decision", "no"), ("message", " not today ")]).unwrap();
        assert_eq!(rejected, json!({"decision": "reject", "message": "not today"}));
        let edited = answer(&[("decision", "edit"), ("input", "{\"note_id\": \"2\"}")]).unwrap();
        assert_eq!(edited, json!({"decision": "edit", "input": {"note_id": "2"}}));
        assert!(answer(&[("decision", "edit"), ("input", "{")]).unwrap_err().starts_with("This is no JSON"));
        assert!(answer(&[]).is_err());
    }
}
