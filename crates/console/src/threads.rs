//! Agentables with their threads: what agents work on, as the user sees it.

pub(crate) mod history;
mod plan;
pub(crate) mod show;

use askama::Template;
use axum::http::StatusCode;
use futures_util::future::join_all;
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::kind::KindsResponse;
use houston_protocol::page::Page;
use serde::Deserialize;

use crate::api::{Refused, Result};
use crate::failure::{Answer, html};
use crate::query::{Pages, Query};
use crate::shell::{Shell, THREADS};
use crate::show::{Choice, Status, line, plural, with_query};
use crate::viewer::Viewer;

pub(crate) fn title(of: &AgentableResponse) -> String {
    if of.title.trim().is_empty() { "Without a title".to_owned() } else { line(&of.title, 120) }
}

/// The kind of an id such as `goal_0190…`.
pub(crate) fn kind_of(id: &str) -> &str {
    id.rsplit_once('_').map_or(id, |(kind, _)| kind)
}

/// Kinds choose their own words; the usual ones have colours.
pub(crate) fn status(name: Option<&str>) -> Status {
    let tone = match name {
        Some("working" | "running") => "busy",
        Some("completed" | "done") => "good",
        Some("failed") => "bad",
        Some("retrying" | "stopped" | "paused") => "warn",
        Some("archived" | "cancelled") => "off",
        Some("needs_approval" | "asking") => "wait",
        _ => "idle",
    };
    Status { text: name.unwrap_or("–").replace('_', " "), tone }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Search {
    kind: String,
    user: String,
    cursor: String,
}

#[derive(Template)]
#[template(path = "threads.html")]
struct Threads {
    shell: Shell,
    kinds: Vec<Choice>,
    user: String,
    user_href: String,
    all_href: String,
    threads: Vec<AgentableResponse>,
    pages: Pages,
}

/// The kinds of the installation, by name.
pub(crate) async fn kinds(viewer: &Viewer) -> Result<Vec<String>> {
    let all: KindsResponse = viewer.api.get("/v1/kinds").await?;
    Ok(all.data.into_iter().map(|of| of.kind).collect())
}

/// What to say of a kind that does not exist.
fn unknown(kind: &str, kinds: &[String]) -> Refused {
    let (kind, all) = (line(kind, 60), kinds.join(", "));
    let detail = format!("There is no kind “{kind}”. The kinds are: {all}.");
    Refused::new(StatusCode::NOT_FOUND, "not_found", detail)
}

/// Why a request for something of a kind was refused: first of all, there may be no such kind. The API has other lists, such as
/// `/v1/models`, whose answers have another shape.
async fn refused(viewer: &Viewer, kind: &str, refused: Refused) -> Refused {
    match kinds(viewer).await {
        Ok(kinds) if !kinds.iter().any(|of| of == kind) => unknown(kind, &kinds),
        _ => refused,
    }
}

/// For how many kinds the API is asked at once: there may be many, and each request takes a connection to Postgres.
pub(crate) const AT_ONCE: usize = 4;

/// The newest agentables of a kind, at most `limit`.
pub(crate) async fn first(viewer: &Viewer, kind: &str, limit: &str) -> Result<Page<AgentableResponse>> {
    viewer.api.get(&with_query(&format!("/v1/{}", plural(kind)), &[("limit", limit)])).await
}

/// The first kind of which there are any.
async fn first_used(viewer: &Viewer, kinds: &[String]) -> Result<String> {
    for some in kinds.chunks(AT_ONCE) {
        let pages = join_all(some.iter().map(|kind| first(viewer, kind, "1"))).await;
        for (kind, page) in some.iter().zip(pages) {
            if !page?.data.is_empty() {
                return Ok(kind.clone());
            }
        }
    }
    Ok(kinds.first().cloned().unwrap_or_default())
}

/// `GET {prefix}/threads`.
pub(crate) async fn show_list(viewer: Viewer, Query(search): Query<Search>) -> Answer {
    let Search { kind, user, cursor } = search;
    let kinds = kinds(&viewer).await?;
    let kind = if kind.is_empty() { first_used(&viewer, &kinds).await? } else { kind };
    if !kinds.contains(&kind) {
        return Err(unknown(&kind, &kinds));
    }
    let here = viewer.path("/threads");
    let of = |kind: &str, user: &str, cursor: &str| {
        with_query(&here, &[("kind", kind), ("user", user), ("cursor", cursor)])
    };
    let path = format!("/v1/{}", plural(&kind));
    let path = with_query(&path, &[("limit", "50"), ("user_id", &user), ("cursor", &cursor)]);
    let page: Page<AgentableResponse> = viewer.api.get(&path).await?;
    let choice =
        |name: &String| Choice { href: of(name, &user, ""), current: *name == kind, name: name.clone() };
    Ok(html(&Threads {
        shell: viewer.shell(THREADS, "Threads").live_if(cursor.is_empty()),
        kinds: kinds.iter().map(choice).collect(),
        user_href: viewer.path(&format!("/users/{user}")),
        all_href: of(&kind, "", ""),
        threads: page.data,
        pages: Pages::new(page.next_cursor, &cursor, |cursor| of(&kind, &user, cursor)),
        user,
    }))
}
