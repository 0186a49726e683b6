//! Cancelling or trying again all runs of a search: first counted, then done.

use askama::Template;
use axum::Form;
use axum::response::{IntoResponse as _, Redirect, Response};
use houston_protocol::run_list::ChangedRunsResponse;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::Refused;
use crate::failure::html;
use crate::runs::{bulk_href, parse};
use crate::shell::{Section, Shell};
use crate::show::{self, Fact, fact, with_query};
use crate::viewer::Viewer;

/// The most requests for one change: each changes up to a hundred runs. A page offers to go on with the rest.
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
    /// Where the change before this one has ended.
    #[serde(default)]
    cursor: String,
}

#[derive(Template)]
#[template(path = "bulk.html")]
struct Bulk<'a> {
    shell: Shell,
    title: &'a str,
    action: &'a str,
    search: &'a str,
    runs_href: String,
    /// With the search: the address leads to the list if it is opened.
    href: String,
    is_done: bool,
    outcome: String,
    button: String,
    /// Where to go on; empty: these were all.
    cursor: String,
    /// Why it ended before all were changed.
    refused: String,
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
    let (changed, refused) = match run(&viewer, &asked).await {
        Ok(changed) => changed,
        Err(refused) => return viewer.failed(refused).into_response(),
    };
    let more = changed.next_cursor.is_some();
    html(&Bulk {
        shell: viewer.shell(Section::Runs, title),
        title,
        action: &asked.action,
        search: &asked.q,
        runs_href,
        href: bulk_href(&viewer, &asked.q),
        is_done: asked.confirmed,
        outcome: outcome(&changed),
        button: match asked.confirmed {
            true => format!("{verb}: the rest"),
            false => format!("{verb}: {}", runs(changed.matched, more)),
        },
        skipped: reasons(&changed),
        cursor: changed.next_cursor.unwrap_or_default(),
        refused,
    })
}

/// Counts, or changes page by page. What was refused after some were changed comes second: the others are changed.
async fn run(viewer: &Viewer, asked: &Asked) -> Result<(ChangedRunsResponse, String), Refused> {
    let path = format!("/v1/runs/{}", asked.action);
    let mut body = json!({"filter": filter(&asked.q), "dry_run": !asked.confirmed});
    if !asked.cursor.is_empty() {
        body["cursor"] = asked.cursor.as_str().into();
    }
    let mut all: ChangedRunsResponse = viewer.api.post(&path, &body).await?;
    for _ in 1..MAX_REQUESTS {
        let Some(next) = all.next_cursor.clone().filter(|_| asked.confirmed) else { break };
        body["cursor"] = next.into();
        let page: ChangedRunsResponse = match viewer.api.post(&path, &body).await {
            Ok(page) => page,
            Err(refused) => return Ok((all, refused.detail)),
        };
        all.matched += page.matched;
        all.changed += page.changed;
        all.skipped.extend(page.skipped);
        all.next_cursor = page.next_cursor;
    }
    Ok((all, String::new()))
}

/// How many runs.
fn runs(number: u64, more: bool) -> String {
    let at_least = if more { "at least " } else { "" };
    let word = if number == 1 { "run" } else { "runs" };
    format!("{at_least}{} {word}", show::count(number))
}

/// How many match, how many of them were changed, and whether there are more.
fn outcome(of: &ChangedRunsResponse) -> String {
    let more = of.next_cursor.is_some();
    if of.dry_run {
        let word = if of.matched == 1 && !more { "matches" } else { "match" };
        return format!("{} {word}.", runs(of.matched, more));
    }
    let done = format!("{} matched, {} of them changed.", runs(of.matched, false), show::count(of.changed));
    if more { format!("{done} More runs may match.") } else { done }
}

/// Whether each word of a search is one of those that lists of runs have, each at most once as there.
fn is_understood(search: &str) -> bool {
    let (pairs, wrong) = parse(search);
    let is_once = |name: &str| pairs.iter().filter(|(of, _)| *of == name).count() == 1;
    wrong.is_empty() && pairs.iter().all(|(name, _)| is_once(name))
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
        for search in ["agnet:agent_x", "status:failed nonsense", "status:", "kind:a kind:b"] {
            assert!(!is_understood(search), "{search}");
        }
    }

    #[test]
    fn change_says_how_many_were_changed_and_that_more_remain() {
        let said = |dry_run, matched, changed, next: Option<&str>| {
            let next_cursor = next.map(str::to_owned);
            outcome(&ChangedRunsResponse { dry_run, matched, changed, skipped: Vec::new(), next_cursor })
        };
        assert_eq!(said(true, 1, 0, None), "1 run matches.");
        assert_eq!(said(true, 10_000, 0, Some("c")), "at least 10,000 runs match.");
        assert_eq!(said(false, 3, 2, None), "3 runs matched, 2 of them changed.");
        let more = "10,000 runs matched, 9,999 of them changed. More runs may match.";
        assert_eq!(said(false, 10_000, 9_999, Some("c")), more);
    }
}
