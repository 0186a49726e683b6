//! The list of runs. The search is the address of the page.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use houston_domain::run::RunStatus;
use houston_domain::scope::Scope;
use houston_protocol::page::Page;
use houston_protocol::run::RunResponse;
use houston_protocol::run_list::ListedRunResponse;
use serde::Deserialize;

use crate::failure::html;
use crate::query::Query;
use crate::shell::{Section, Shell};
use crate::show::{self, Status, When, with_query};
use crate::viewer::Viewer;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Search {
    #[serde(default)]
    q: String,
    #[serde(default)]
    cursor: String,
}

#[derive(Template)]
#[template(path = "runs.html")]
struct Runs<'a> {
    shell: Shell,
    search: &'a str,
    wrong: Vec<String>,
    facets: Vec<Facet>,
    missing: &'a str,
    bulk_href: String,
    can_change: bool,
    rows: Vec<Row>,
    /// What is said if there are no rows.
    none: &'static str,
    older: String,
    newer: String,
}

/// A status to choose.
struct Facet {
    href: String,
    current: bool,
    tone: &'static str,
    text: String,
}

/// A run in a list.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) status: Status,
    pub(crate) id: String,
    pub(crate) short: String,
    pub(crate) href: String,
    pub(crate) error: String,
    /// When its next attempt is due.
    pub(crate) retry: When,
    pub(crate) for_href: String,
    pub(crate) for_id: String,
    pub(crate) for_short: String,
    /// The title of what it is for, if a list has it.
    pub(crate) title: String,
    /// As `provider/model`.
    pub(crate) model: String,
    pub(crate) model_name: String,
    pub(crate) took: String,
    pub(crate) tokens: String,
    pub(crate) cost: String,
    pub(crate) at: When,
}

impl Row {
    pub(crate) fn new(viewer: &Viewer, run: &RunResponse, now: DateTime<Utc>) -> Self {
        let id = run.id.to_string();
        let owner = run.owner.id.public_id(&run.owner.kind);
        let error = run
            .error
            .as_ref()
            .map(|error| format!("{} {}", error.code, error.message.as_deref().unwrap_or_default()));
        Self {
            status: status(run),
            short: show::short(&id),
            href: viewer.path(&format!("/runs/{id}")),
            error: show::line(&error.unwrap_or_default(), 120),
            retry: show::when_if(run.retry_at, now),
            for_href: viewer.path(&format!("/threads/{}/{owner}", run.owner.kind)),
            for_short: show::short(&owner),
            for_id: owner,
            title: String::new(),
            model_name: run
                .model
                .as_deref()
                .map(|id| id.split_once('/').map_or(id, |(_, name)| name).to_owned())
                .unwrap_or_default(),
            model: run.model.clone().unwrap_or_default(),
            took: took(run, now),
            tokens: show::count(run.usage.input_tokens + run.usage.output_tokens),
            cost: show::cost(run.cost, run.unpriced_calls),
            at: show::when(run.started_at.unwrap_or(run.created_at), now),
            id,
        }
    }
}

/// The status, with the attempt if it is not the first.
fn status(run: &RunResponse) -> Status {
    let mut status = show::run_status(run.status);
    if run.attempt > 1 {
        status.text.push_str(&format!(" · {}", run.attempt));
    }
    status
}

/// How long a run took from its first claim, or has taken so far.
pub(crate) fn took(run: &RunResponse, now: DateTime<Utc>) -> String {
    let end = run.ended_at.map_or(now, |end| end.0);
    run.started_at.map(|start| show::took(end - start.0)).unwrap_or_default()
}

/// What may be searched for: the word, and the parameter of the API.
const TERMS: [(&str, &str); 8] = [
    ("status", "status"),
    ("kind", "kind"),
    ("agent", "agent_id"),
    ("user", "user_id"),
    ("error", "error_code"),
    ("fingerprint", "fingerprint"),
    ("since", "since"),
    ("until", "until"),
];

/// A search as parameters of the API, and what of it cannot be used.
pub(crate) fn parse(search: &str) -> (Vec<(&'static str, String)>, Vec<String>) {
    crate::search::parse(search, &TERMS)
}

/// Where a form sends a change of all runs of a search.
pub(crate) fn bulk_href(viewer: &Viewer, search: &str) -> String {
    with_query(&viewer.path("/runs/bulk"), &[("q", search)])
}

/// The search with another status.
fn with_status(search: &str, status: &str) -> String {
    let others = search.split_whitespace().filter(|word| !word.starts_with("status:"));
    let status = (!status.is_empty()).then(|| format!("status:{status}"));
    status.into_iter().chain(others.map(str::to_owned)).collect::<Vec<_>>().join(" ")
}

fn facets(viewer: &Viewer, search: &str) -> Vec<Facet> {
    let chosen = search.split_whitespace().find_map(|word| word.strip_prefix("status:")).unwrap_or_default();
    let facet = |name: &str, status: Status| Facet {
        href: with_query(&viewer.path("/runs"), &[("q", &with_status(search, name))]),
        current: name == chosen,
        tone: status.tone,
        text: status.text,
    };
    let all = facet("", Status { text: "all".to_owned(), tone: "off" });
    let each = RunStatus::ALL.into_iter().map(|status| facet(status.as_str(), show::run_status(status)));
    std::iter::once(all).chain(each).collect()
}

/// `GET {prefix}/runs`.
pub(crate) async fn show(viewer: Viewer, Query(Search { q, cursor }): Query<Search>) -> Response {
    let now = viewer.console.now();
    let (pairs, wrong) = parse(&q);
    let mut query: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    query.extend([("limit", "50"), ("cursor", &cursor)]);
    let page: Page<ListedRunResponse> = match viewer.api.get(&with_query("/v1/runs", &query)).await {
        Ok(page) => page,
        Err(refused) if refused.status == StatusCode::FORBIDDEN => {
            let missing = "A list of all runs needs the scope operate. The runs of a thread are on its page.";
            return html(&runs(&viewer, &q, wrong, missing, None));
        }
        Err(refused) if refused.status == StatusCode::UNPROCESSABLE_ENTITY => {
            let wrong = vec![refused.detail];
            return html(&runs(&viewer, &q, wrong, "", None));
        }
        Err(refused) => return viewer.failed(refused).into_response(),
    };
    let mut template = runs(&viewer, &q, wrong, "", page.next_cursor.as_deref());
    if page.next_cursor.is_some() {
        template.none = "None of the runs that were looked at match this search. Older ones may.";
    }
    let row =
        |of: &ListedRunResponse| Row { title: show::line(&of.title, 80), ..Row::new(&viewer, &of.run, now) };
    template.rows = page.data.iter().map(row).collect();
    template.newer =
        if cursor.is_empty() { String::new() } else { with_query(&viewer.path("/runs"), &[("q", &q)]) };
    // An older page does not change by itself.
    template.shell.live = cursor.is_empty();
    html(&template)
}

fn runs<'a>(
    viewer: &Viewer,
    search: &'a str,
    wrong: Vec<String>,
    missing: &'a str,
    next: Option<&str>,
) -> Runs<'a> {
    let older = next.map(|next| with_query(&viewer.path("/runs"), &[("q", search), ("cursor", next)]));
    Runs {
        shell: viewer.shell(Section::Runs, "Runs"),
        search,
        wrong,
        facets: facets(viewer, search),
        missing,
        bulk_href: bulk_href(viewer, search),
        can_change: viewer.may(Scope::Operate) && viewer.may(Scope::Post),
        rows: Vec::new(),
        none: "Nothing matches this search.",
        older: older.unwrap_or_default(),
        newer: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_a_search_is_replaced() {
        assert_eq!(with_status("kind:x status:failed", "queued"), "status:queued kind:x");
        assert_eq!(with_status("kind:x status:failed", ""), "kind:x");
    }
}
