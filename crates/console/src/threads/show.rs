//! One agentable: its runs, its thread, and what it does now.

use askama::Template;
use axum::Form;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Redirect};
use chrono::SecondsFormat;
use futures_util::future::join4;
use houston_domain::message::{Message, MessageType, Source};
use houston_domain::runtime_state::RuntimeStateView;
use houston_domain::scope::Scope;
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::page::Page;
use houston_protocol::run::RunResponse;
use houston_protocol::why::WhyReason;
use serde::Deserialize;
use serde_json::json;

use super::plan;
use crate::api::Result;
use crate::failure::{Answer, html};
use crate::query::{Pages, Query};
use crate::shell::{Shell, THREADS};
use crate::show::{self, Fact, fact, plural, segment, with_query};
use crate::viewer::Viewer;
use crate::{runs, threads, why};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Cursors {
    /// Of the messages.
    cursor: String,
    /// Of the runs.
    runs: String,
}

#[derive(Template)]
#[template(path = "thread.html")]
struct Thread {
    shell: Shell,
    kind: String,
    href: String,
    of: AgentableResponse,
    facts: Vec<Fact>,
    reasons: Vec<WhyReason>,
    doing: Vec<Fact>,
    rows: Vec<runs::Row>,
    older_runs: Pages,
    messages: Vec<Message>,
    earlier: String,
    latest: String,
    can_say: bool,
    /// Of the form: posting it twice posts one message.
    form_key: String,
}

/// How a message looks, and who says it.
fn look(of: &Message) -> (&'static str, &'static str) {
    match (of.source, of.message_type) {
        (_, MessageType::Tool) => ("tool", "tool"),
        (Source::User, _) => ("user", "user"),
        (Source::Agent, _) => ("agent", "agent"),
        (Source::Error, _) => ("error", "error"),
        (Source::System, _) => ("tool", "Houston"),
    }
}

/// What became of it.
fn state(of: &Message) -> String {
    let of_tool = of.metadata["status"].as_str().filter(|_| look(of).0 == "tool");
    of_tool.or(of.status.map(|status| status.as_str())).unwrap_or_default().to_owned()
}

/// `GET {prefix}/threads/{kind}/{id}`.
pub(crate) async fn show(
    viewer: Viewer,
    Path((kind, id)): Path<(String, String)>,
    Query(cursors): Query<Cursors>,
) -> Answer {
    let page = match kind.as_str() {
        plan::KIND => plan::page(&viewer, &id).await.map(|page| html(&page)),
        _ => page(&viewer, &kind, &id, &cursors).await.map(|page| html(&page)),
    };
    match page {
        Err(refused) => Err(threads::refused(&viewer, &kind, refused).await),
        page => page,
    }
}

async fn page(viewer: &Viewer, kind: &str, id: &str, cursors: &Cursors) -> Result<Thread> {
    let path = format!("/v1/{}/{}", plural(kind), segment(id));
    let query = [("limit", "20"), ("cursor", cursors.runs.as_str())];
    let runs = with_query(&format!("{path}/runs"), &query);
    let (of, runs, reasons, doing) = join4(
        viewer.api.get::<AgentableResponse>(&path),
        viewer.api.get::<Page<RunResponse>>(&runs),
        why::reasons(viewer, &path),
        doing(viewer, &path),
    )
    .await;
    let (of, runs) = (of?, runs?);
    let conversational = of.read_seq.is_some();
    let query = [("limit", "50"), ("cursor", cursors.cursor.as_str())];
    let messages: Option<Page<Message>> = match conversational {
        true => Some(viewer.api.get(&with_query(&format!("{path}/messages"), &query)).await?),
        false => None,
    };
    let here = viewer.path(&format!("/threads/{kind}/{}", segment(id)));
    let earlier = messages.as_ref().and_then(|page| page.next_cursor.clone());
    let is_newest = cursors.cursor.is_empty() && cursors.runs.is_empty();
    let mut messages = messages.map(|page| page.data).unwrap_or_default();
    messages.reverse();
    Ok(Thread {
        shell: viewer.shell(THREADS, super::title(&of)).live_if(is_newest),
        kind: kind.to_owned(),
        facts: facts(&of),
        reasons,
        doing,
        rows: runs.data.into_iter().map(runs::Row::of).collect(),
        older_runs: Pages::new(runs.next_cursor, "", |next| with_query(&here, &[("runs", next)])),
        messages,
        earlier: earlier.map(|next| with_query(&here, &[("cursor", &next)])).unwrap_or_default(),
        latest: if cursors.cursor.is_empty() { String::new() } else { here.clone() },
        can_say: conversational && viewer.may(Scope::Post),
        form_key: viewer.console.form_key(),
        href: here,
        of,
    })
}

fn facts(of: &AgentableResponse) -> Vec<Fact> {
    let agent = of.agent_id.map(|agent| show::short(agent.to_string()));
    let team = of.team_id.map(|team| show::short(team.to_string()));
    vec![
        fact("Answers", agent.or(team).unwrap_or_else(|| "default agent".to_owned())),
        fact("Cost", show::cost(of.cost, of.unpriced_calls)),
        fact("Unread", of.unread.map(|unread| unread.to_string()).unwrap_or_default()),
        fact("Newest event", of.last_seq.map(|seq| seq.to_string()).unwrap_or_default()),
    ]
}

/// Who holds it, and what it waits for, for viewers who may see it.
async fn doing(viewer: &Viewer, path: &str) -> Vec<Fact> {
    if !viewer.may(Scope::Operate) {
        return Vec::new();
    }
    let found = viewer.api.get(&format!("{path}/state")).await;
    let Ok(RuntimeStateView { state, .. }) = found else { return Vec::new() };
    let next = state.next_attempt_at.map(|at| at.to_rfc3339_opts(SecondsFormat::AutoSi, true));
    vec![
        fact("Held by", state.holder.and_then(|holder| holder.name).unwrap_or_default()),
        fact("Unread messages", state.unread.to_string()),
        fact("Next attempt", next.unwrap_or_default()),
        fact("Failed attempts", state.failed_attempts.to_string()),
        fact("Claims of the lock", state.epoch.to_string()),
    ]
}

#[derive(Debug, Deserialize)]
pub(crate) struct Said {
    content: String,
    #[serde(default)]
    key: String,
}

/// `POST {prefix}/threads/{kind}/{id}/messages`.
pub(crate) async fn say(
    viewer: Viewer,
    Path((kind, id)): Path<(String, String)>,
    Form(Said { content, key }): Form<Said>,
) -> Answer {
    let path = format!("/v1/{}/{}/messages", plural(&kind), segment(&id));
    match viewer.api.post_once(&path, &json!({"content": content}), &key).await {
        Ok(_) => {
            let to = viewer.path(&format!("/threads/{}/{}", segment(&kind), segment(&id)));
            Ok(Redirect::to(&to).into_response())
        }
        Err(refused) => Err(threads::refused(&viewer, &kind, refused).await),
    }
}
