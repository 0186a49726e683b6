//! Questions and approvals: what runs ask people, and the forms that answer them.

use askama::Template;
use axum::Form;
use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse as _;
use houston_domain::question::{NewQuestion, QuestionKind, QuestionState, input};
use houston_domain::scope::Scope;
use houston_domain::visible::visible;
use houston_protocol::page::Page;
use houston_protocol::question::{AnswerQuestion, QuestionResponse};
use serde_json::{Map, Value, json};

use crate::failure::{Answer, html};
use crate::query::{Fields, Pages, Place, Query};
use crate::shell::{Shell, WAITING};
use crate::show::{self, Fact, Status, fact, segment, with_query};
use crate::viewer::Viewer;

#[derive(Template)]
#[template(path = "waiting.html")]
struct Waiting {
    shell: Shell,
    questions: Vec<QuestionResponse>,
    pages: Pages,
}

/// What is asked, on one line.
pub(crate) fn text(question: &QuestionResponse) -> String {
    show::line(&visible(&question.text), 200)
}

fn kind(question: &QuestionResponse) -> &'static str {
    match (question.kind, &question.approval) {
        (QuestionKind::Approval, Some(_)) => "approval",
        (QuestionKind::Approval, None) => "paused",
        (QuestionKind::Input, _) => "question",
        (QuestionKind::Budget, _) => "budget",
    }
}

/// `GET {prefix}/waiting`.
pub(crate) async fn list(viewer: Viewer, Query(Place { cursor }): Query<Place>) -> Answer {
    let path = with_query("/v1/questions", &[("limit", "50"), ("cursor", &cursor)]);
    let page: Page<QuestionResponse> = viewer.api.get(&path).await?;
    Ok(html(&Waiting {
        shell: viewer.shell(WAITING, "Waiting").live_if(cursor.is_empty()),
        questions: page.data,
        pages: Pages::of(page.next_cursor, &cursor, &viewer.path("/waiting")),
    }))
}

#[derive(Template)]
#[template(path = "question.html")]
struct Question<'q> {
    shell: Shell,
    href: String,
    of: &'q QuestionResponse,
    problem: String,
    facts: Vec<Fact>,
    input: String,
    preview: String,
    answer: String,
    can_answer: bool,
    yes: &'static str,
    no: &'static str,
    has_reason: bool,
    fields: Vec<Field>,
    schema: String,
}

/// `GET {prefix}/waiting/{id}`.
pub(crate) async fn show(viewer: Viewer, Path(id): Path<String>) -> Answer {
    let question = viewer.api.get(&format!("/v1/questions/{}", segment(&id))).await?;
    Ok(html(&page(&viewer, &question, "")))
}

fn page<'q>(viewer: &Viewer, question: &'q QuestionResponse, problem: &str) -> Question<'q> {
    let call = question.approval.as_ref();
    let has_plain = NewQuestion::from(question.clone()).plain_answer(true, None).is_some();
    let (yes, no) = match (call.is_some(), question.kind) {
        _ if !has_plain => ("", "Give no answer"),
        (true, _) => ("Approve", "Reject"),
        (false, QuestionKind::Budget) => ("Spend more", "Stop the run"),
        (false, QuestionKind::Input) => ("Done", "Give no answer"),
        (false, QuestionKind::Approval) => ("Go on", "Stop the run"),
    };
    Question {
        shell: viewer.shell(WAITING, "Question"),
        href: viewer.path(&format!("/waiting/{}", question.id)),
        of: question,
        problem: visible(problem),
        facts: facts(question),
        input: call.map(|call| pretty(&call.input)).unwrap_or_default(),
        preview: call.and_then(|call| call.preview.as_deref()).map(visible).unwrap_or_default(),
        answer: question.answer.as_ref().map(pretty).unwrap_or_default(),
        can_answer: question.state == QuestionState::Open && viewer.may(Scope::Post),
        yes,
        no,
        has_reason: call.is_some(),
        fields: if has_plain { Vec::new() } else { fields(question) },
        schema: question.schema.as_ref().map(pretty).unwrap_or_default(),
    }
}

fn facts(question: &QuestionResponse) -> Vec<Fact> {
    let call = question.approval.as_ref();
    let mut facts = vec![fact("Kind", kind(question))];
    facts.extend(call.map(|call| fact("Tool", visible(&call.tool))));
    facts.extend(call.map(|call| fact("Why a person is asked", visible(&call.why))));
    facts.extend(question.answered_by.as_ref().map(|by| fact("Answered by", visible(by))));
    facts
}

fn state(state: QuestionState) -> Status {
    let tone = match state {
        QuestionState::Open => "wait",
        QuestionState::Answered => "good",
        QuestionState::Expired | QuestionState::Superseded | QuestionState::Cancelled => "off",
    };
    Status { text: state.as_str().to_owned(), tone }
}

/// A value as JSON. The escapes of what is made visible are those of JSON: it stays the same value.
fn pretty(value: &Value) -> String {
    visible(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// `POST {prefix}/waiting/{id}`.
pub(crate) async fn answer(viewer: Viewer, Path(id): Path<String>, Form(form): Form<Fields>) -> Answer {
    let id = segment(&id);
    let question: QuestionResponse = viewer.api.get(&format!("/v1/questions/{id}")).await?;
    let answer = match of_form(&question, &form) {
        Ok(answer) => answer,
        Err(problem) => {
            let page = html(&page(&viewer, &question, &problem));
            return Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response());
        }
    };
    let answered_by = Some(format!("console ({}, {})", viewer.role(), viewer.key));
    let (path, body) = (format!("/v1/questions/{id}/answer"), AnswerQuestion { answer, answered_by });
    match viewer.change(Method::POST, &path, &body, &format!("/waiting/{id}")).await {
        Err(refused) if refused.is_of_form() => {
            // Read again: another person may have answered meanwhile.
            let question = viewer.api.get(&format!("/v1/questions/{id}")).await.unwrap_or(question);
            Ok((refused.status, html(&page(&viewer, &question, &refused.detail))).into_response())
        }
        answered => answered,
    }
}

/// A field that a question asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: String,
    label: String,
    required: bool,
}

/// The fields that a form of the question has: those of an object with plain values.
fn fields(question: &QuestionResponse) -> Vec<Field> {
    let Some(schema) = &question.schema else { return Vec::new() };
    if !NewQuestion::from(question.clone()).is_input() {
        return Vec::new();
    }
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
fn of_form(question: &QuestionResponse, form: &Fields) -> Result<Value, String> {
    let text = |name: &str| form.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
    let parsed = |name: &str| {
        let text = text(name).ok_or_else(|| format!("`{name}` is empty"))?;
        serde_json::from_str::<Value>(text).map_err(|error| format!("This is no JSON: {error}"))
    };
    let plain = |yes: bool| {
        let message = text("message").map(str::to_owned);
        let answer = NewQuestion::from(question.clone()).plain_answer(yes, message);
        answer.ok_or_else(|| "This question needs another answer than yes or no.".to_owned())
    };
    match text("decision") {
        Some("yes") => plain(true),
        Some("no") => plain(false),
        Some("edit") => Ok(json!({"decision": "edit", "input": parsed("input")?})),
        Some("json") => parsed("answer"),
        Some("fields") => Ok(json!({"action": "accept", "content": content(question, text)?})),
        _ => Err("The form does not say what was decided.".to_owned()),
    }
}

/// The fields of a form, each with the type that the schema says. Empty ones are left out.
fn content<'f>(
    question: &QuestionResponse,
    text: impl Fn(&str) -> Option<&'f str>,
) -> Result<Map<String, Value>, String> {
    let none = Value::Null;
    let schema = content_of(question.schema.as_ref().unwrap_or(&none));
    let mut content = Map::new();
    for Field { name, .. } in fields(question) {
        let Some(text) = text(&format!("field.{name}")) else { continue };
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

    #[test]
    fn arguments_are_read_in_their_order() {
        let input = json!({"to": "evil\u{202e}moc.doog", "cc": "caf\u{e9}\u{e0041}\u{e0101}"});
        let text = pretty(&input);
        assert!(
            text.contains(r"evil\u202emoc.doog") && text.contains("caf\u{e9}\\udb40\\udc41\\udb40\\udd01"),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), input);
    }

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

    fn form(pairs: &[(&str, &str)]) -> Fields {
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
