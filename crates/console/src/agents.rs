//! One agent: what it is set to, and a form that changes its instructions and its model.

use askama::Template;
use axum::Form;
use axum::extract::Path;
use axum::http::Method;
use axum::response::{IntoResponse as _, Redirect};
use houston_domain::scope::Scope;
use houston_protocol::agent::AgentResponse;
use serde_json::{Map, Value};

use crate::failure::{Answer, html};
use crate::query::Fields;
use crate::shell::{AGENTS, Shell};
use crate::show::{self, Fact, fact, segment};
use crate::viewer::Viewer;

#[derive(Template)]
#[template(path = "agent.html")]
struct Agent<'a> {
    shell: Shell,
    of: &'a AgentResponse,
    facts: Vec<Fact>,
    /// Why the API has refused what was sent.
    problem: String,
    can_change: bool,
    fields: Vec<Field>,
    version: String,
}

/// A field of the form, with what is set or was sent.
struct Field {
    name: &'static str,
    label: &'static str,
    value: String,
    /// The lines of a text; 0: it is one line.
    rows: u8,
}

/// The field of the version that the form was made from: a change of another version is refused.
const VERSION: &str = "version";

/// What the form has, with what is set.
fn settings(of: &AgentResponse) -> [(Field, &str); 6] {
    let field = |name, label, rows, value| (Field { name, label, value: String::new(), rows }, value);
    let people = "Description, for people and for the router of a team";
    [
        field("role", "Role: who it is, and what for", 6, of.role.as_str()),
        field("guidelines", "Guidelines: how it works", 10, of.guidelines.as_str()),
        field("description", people, 3, of.description.as_str()),
        field("use_case", "Use case, whose model `default` means", 0, of.use_case.as_str()),
        field("provider", "Provider, or `default`", 0, of.provider.as_str()),
        field("model", "Model, or `default`", 0, of.model.as_str()),
    ]
}

/// A text as it was typed: browsers send other ends of lines.
fn typed(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// The request of a form: the fields that differ from what is set. Empty: none does.
fn changes(of: &AgentResponse, sent: &Fields) -> Map<String, Value> {
    let mut changes = Map::new();
    for (field, is) in settings(of) {
        let wanted = sent.get(field.name).map(|text| typed(text)).filter(|wanted| *wanted != typed(is));
        changes.extend(wanted.map(|wanted| (field.name.to_owned(), Value::from(wanted))));
    }
    if changes.is_empty() {
        return changes;
    }
    let version = sent.get(VERSION).and_then(|version| version.parse::<i64>().ok());
    changes.insert(VERSION.to_owned(), version.unwrap_or(of.version).into());
    if sent.get("unlisted").is_some_and(|unlisted| unlisted == "true") {
        changes.insert("allow_unlisted_model".to_owned(), true.into());
    }
    changes
}

/// The page, with what was sent if the API has refused it.
fn page<'a>(viewer: &Viewer, of: &'a AgentResponse, sent: &Fields, problem: String) -> Agent<'a> {
    let filled = |(field, is): (Field, &str)| {
        let value = sent.get(field.name).cloned().unwrap_or_else(|| is.to_owned());
        Field { value, ..field }
    };
    let limits = of.limits.iter().map(|(name, value)| format!("{name} {value}"));
    Agent {
        shell: viewer.shell(AGENTS, show::line(&of.name, 80)),
        of,
        facts: vec![
            fact("Kind", of.kind.as_str()),
            fact("Default of its kind", if of.is_default { "yes" } else { "no" }),
            fact("Differs from its file", if of.changed { "yes" } else { "no" }),
            fact("Limits of its own", limits.collect::<Vec<_>>().join(", ")),
            fact("Version", of.version.to_string()),
        ],
        problem,
        can_change: viewer.may(Scope::ManageAgents),
        fields: settings(of).into_iter().map(filled).collect(),
        version: sent.get(VERSION).cloned().unwrap_or_else(|| of.version.to_string()),
    }
}

/// `GET {prefix}/agents/{id}`.
pub(crate) async fn show(viewer: Viewer, Path(id): Path<String>) -> Answer {
    let of = viewer.api.get(&format!("/v1/agents/{}", segment(&id))).await?;
    Ok(html(&page(&viewer, &of, &Fields::new(), String::new())))
}

/// `POST {prefix}/agents/{id}`.
pub(crate) async fn change(viewer: Viewer, Path(id): Path<String>, Form(sent): Form<Fields>) -> Answer {
    let path = format!("/v1/agents/{}", segment(&id));
    let of: AgentResponse = viewer.api.get(&path).await?;
    let changes = changes(&of, &sent);
    let here = format!("/agents/{}", segment(&id));
    if changes.is_empty() {
        return Ok(Redirect::to(&viewer.path(&here)).into_response());
    }
    match viewer.change(Method::PATCH, &path, &changes, &here).await {
        Err(refused) if refused.is_of_form() => {
            Ok((refused.status, html(&page(&viewer, &of, &sent, refused.detail))).into_response())
        }
        changed => changed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_changed_and_only_in_the_version_seen() {
        let agent: AgentResponse = serde_json::from_value(json!({
            "id": format!("agent_{}", "0".repeat(32)), "name": "Travel", "kind": "goal", "description": "Plans trips",
            "role": "You plan trips.", "guidelines": "One.\nTwo.", "tools": ["send_message"], "use_case": "agent",
            "provider": "default", "model": "default", "limits": {}, "enabled": true, "is_default": false,
            "changed": true, "version": 4, "created_at": "2026-11-22T09:00:00.000Z",
            "updated_at": "2026-11-22T09:00:00.000Z",
        }))
        .unwrap();
        let sent = |pairs: &[(&str, &str)]| {
            let sent = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            Value::Object(changes(&agent, &sent))
        };
        assert_eq!(
            sent(&[("role", "You plan trips."), ("guidelines", "One.\r\nTwo."), ("version", "3")]),
            json!({})
        );
        assert_eq!(
            sent(&[("role", "You book."), ("version", "3")]),
            json!({"role": "You book.", "version": 3})
        );
        let unlisted = [("model", "new"), ("version", "4"), ("unlisted", "true")];
        assert_eq!(sent(&unlisted), json!({"model": "new", "version": 4, "allow_unlisted_model": true}));
    }
}
