//! Cancelling or trying again all runs of a search: first counted, then done.

use askama::Template;
use axum::Form;
use axum::response::{IntoResponse as _, Redirect, Response};
use houston_protocol::run_list::ChangedRunsResponse;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::Refused;
use crate::runs::parse;
use crate::shell::{Section, Shell, html};
use crate::show::{self, Fact, fact, with_query};
use crate::viewer::Viewer;

/// The most requests for one change: each changes up to a hundred runs.
const MAX_REQUESTS: usize = 100;

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    /// `cancel` or `retry`.
    action: String,
    #[serde(default)]
    q: String,
    /// Whether it was counted before.
    #[serde(default)]
    confirmed: bool,
}

#[derive(Template)]
#[template(path = "bulk.html")]
struct Bulk<'a> {
    shell: Shell,
    title: &'a str,
    action: &'a str,
    search: &'a str,
    runs_href: String,
    is_done: bool,
    count: String,
    button: String,
    /// Why runs were left out, with how many.
    skipped: Vec<Fact>,
}

/// `POST {prefix}/runs/bulk`.
pub(crate) async fn change(viewer: Viewer, Form(asked): Form<Asked>) -> Response {
    let runs_href = with_query(&viewer.path("/runs"), &[("q", &asked.q)]);
    let (title, verb) = match asked.action.as_str() {
        "cancel" => ("Cancel runs", "Cancel"),
        "retry" => ("Try runs again", "Try again"),
        _ => return Redirect::to(&runs_href).into_response(),
    };
    // A word that is left out would change more runs than were asked for: the list says which it is.
    if !is_understood(&asked.q) {
        return Redirect::to(&runs_href).into_response();
    }
    let changed = match run(&viewer, &asked).await {
        Ok(changed) => changed,
        Err(refused) => return viewer.failed(refused).into_response(),
    };
    let number = if asked.confirmed { changed.changed } else { changed.matched };
    let count = show::count(number);
    html(&Bulk {
        shell: viewer.shell(Section::Runs, title),
        title,
        action: &asked.action,
        search: &asked.q,
        runs_href,
        is_done: asked.confirmed,
        button: format!("{verb}: {count} {}", if number == 1 { "run" } else { "runs" }),
        count,
        skipped: reasons(&changed),
    })
}

/// Counts, or changes page by page.
async fn run(viewer: &Viewer, asked: &Asked) -> Result<ChangedRunsResponse, Refused> {
    let path = format!("/v1/runs/{}", asked.action);
    let filter = filter(&asked.q);
    let mut body = json!({"filter": filter, "dry_run": !asked.confirmed});
    let mut all: ChangedRunsResponse = viewer.api.post(&path, &body).await?;
    for _ in 0..MAX_REQUESTS {
        let Some(next) = all.next_cursor.take().filter(|_| asked.confirmed) else { break };
        body["cursor"] = next.into();
        let page: ChangedRunsResponse = viewer.api.post(&path, &body).await?;
        all.matched += page.matched;
        all.changed += page.changed;
        all.skipped.extend(page.skipped);
        all.next_cursor = page.next_cursor;
    }
    Ok(all)
}

/// Whether each word of a search is one of those that lists of runs have.
fn is_understood(search: &str) -> bool {
    parse(search).1.is_empty()
}

/// A search as the filter of a change.
fn filter(search: &str) -> Map<String, Value> {
    let (pairs, _) = parse(search);
    let value = |name: &str, value: String| match name {
        "status" => value.split(',').map(str::to_owned).collect::<Value>(),
        _ => Value::from(value),
    };
    pairs.into_iter().map(|(name, given)| (name.to_owned(), value(name, given))).collect()
}

fn reasons(changed: &ChangedRunsResponse) -> Vec<Fact> {
    let all = [
        ("ended", "have ended"),
        ("not_failed", "did not fail"),
        ("superseded", "were followed by another run"),
        ("no_message", "were not begun by a message"),
        ("not_conversational", "take no messages"),
        ("refused", "were refused now"),
        ("not_found", "were erased"),
    ];
    let count = |reason: &str| changed.skipped.iter().filter(|skipped| skipped.reason == reason).count();
    all.into_iter()
        .map(|(reason, text)| fact(text, count(reason).to_string()))
        .filter(|fact| fact.value != "0")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_is_the_filter_of_the_change() {
        let filter = Value::from(filter("status:failed,dead_lettered error:RATE_LIMITED"));
        assert_eq!(filter, json!({"status": ["failed", "dead_lettered"], "error_code": "RATE_LIMITED"}));
    }

    #[test]
    fn search_with_an_unknown_word_changes_nothing() {
        assert!(is_understood("") && is_understood("status:failed error:RATE_LIMITED"));
        for search in ["agnet:agent_x", "status:failed nonsense", "status:"] {
            assert!(!is_understood(search), "{search}");
        }
    }
}
