//! The list of runs; the search is the address of the page. Cancelling or trying again all runs of a search: first counted, then
//! done. Failed runs by their cause, so that one cause is mended once and its runs are tried again together.

use askama::Template;
use axum::Form;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect};
use chrono::{DateTime, Utc};
use houston_domain::error_group::ErrorGroup;
use houston_domain::run::RunStatus;
use houston_domain::scope::Scope;
use houston_protocol::error_group::ErrorGroupsResponse;
use houston_protocol::page::Page;
use houston_protocol::run::{RunError, RunResponse};
use houston_protocol::run_list::{ChangedRunsResponse, ListedRunResponse};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::Result;
use crate::failure::{Answer, html};
use crate::query::{Pages, Query, Search, Terms};
use crate::shell::{ERRORS, RUNS, Shell};
use crate::show::{self, Fact, Status, fact, with_query};
use crate::viewer::Viewer;

/// The most requests for one change: each changes up to a hundred runs. A page offers to go on with the rest.
const MAX_REQUESTS: usize = 100;

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
    pages: Pages,
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
    pub(crate) run: RunResponse,
    /// The title of what it is for; empty: the list has it not.
    pub(crate) title: String,
}

impl Row {
    pub(crate) fn of(run: RunResponse) -> Self {
        Self { run, title: String::new() }
    }

    /// The id of what it is for.
    pub(crate) fn owner(&self) -> String {
        self.run.owner.id.public_id(&self.run.owner.kind)
    }

    pub(crate) fn tokens(&self) -> String {
        show::count(self.run.usage.input_tokens + self.run.usage.output_tokens)
    }
}

pub(crate) fn said(error: &RunError) -> String {
    show::line(&format!("{} {}", error.code, error.message.as_deref().unwrap_or_default()), 120)
}

/// A model without its provider.
pub(crate) fn model_name(id: &str) -> &str {
    id.split_once('/').map_or(id, |(_, name)| name)
}

/// The status, with the attempt if it is not the first.
pub(crate) fn status(run: &RunResponse) -> Status {
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

/// A search as the API understands it.
fn parse(search: &str) -> Terms {
    crate::query::parse(search, &TERMS)
}

/// Where a form sends a change of all runs of a search.
fn bulk_href(viewer: &Viewer, search: &str) -> String {
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
pub(crate) async fn show(viewer: Viewer, Query(Search { q, cursor }): Query<Search>) -> Answer {
    let terms = parse(&q);
    let path = terms.path("/v1/runs", &[("limit", "50"), ("cursor", &cursor)]);
    let page: Page<ListedRunResponse> = match viewer.api.get(&path).await {
        Ok(page) => page,
        Err(refused) if refused.status == StatusCode::FORBIDDEN => {
            let missing = "A list of all runs needs the scope operate. The runs of a thread are on its page.";
            return Ok(html(&Runs { missing, ..runs(&viewer, &q, terms.wrong) }));
        }
        Err(refused) if refused.status == StatusCode::UNPROCESSABLE_ENTITY => {
            return Ok(html(&runs(&viewer, &q, vec![refused.detail])));
        }
        Err(refused) => return Err(refused),
    };
    let mut template = runs(&viewer, &q, terms.wrong);
    if page.next_cursor.is_some() {
        template.none = "None of the runs that were looked at match this search. Older ones may.";
    }
    let row = |of: ListedRunResponse| Row { title: show::line(&of.title, 80), run: of.run };
    template.rows = page.data.into_iter().map(row).collect();
    let here = viewer.path("/runs");
    template.pages =
        Pages::new(page.next_cursor, &cursor, |cursor| with_query(&here, &[("q", &q), ("cursor", cursor)]));
    template.shell.live = cursor.is_empty();
    Ok(html(&template))
}

/// The page without runs.
fn runs<'a>(viewer: &Viewer, search: &'a str, wrong: Vec<String>) -> Runs<'a> {
    Runs {
        shell: viewer.shell(RUNS, "Runs"),
        search,
        wrong,
        facets: facets(viewer, search),
        missing: "",
        bulk_href: bulk_href(viewer, search),
        can_change: viewer.may(Scope::Operate) && viewer.may(Scope::Post),
        rows: Vec::new(),
        none: "Nothing matches this search.",
        pages: Pages::default(),
    }
}

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
pub(crate) async fn change_all(viewer: Viewer, Form(asked): Form<Asked>) -> Answer {
    let runs_href = with_query(&viewer.path("/runs"), &[("q", &asked.q)]);
    let (title, verb) = match asked.action.as_str() {
        "cancel" => ("Cancel runs", "Cancel"),
        "retry" => ("Try runs again", "Try again"),
        _ => return Ok(Redirect::to(&runs_href).into_response()),
    };
    // A word that is left out would change more runs than were asked for: the list says which it is.
    if !is_understood(&asked.q) {
        return Ok(Redirect::to(&runs_href).into_response());
    }
    let (changed, refused) = change_one(&viewer, &asked).await?;
    let more = changed.next_cursor.is_some();
    let which = if asked.confirmed { "the rest".to_owned() } else { runs_of(changed.matched, more) };
    Ok(html(&Bulk {
        shell: viewer.shell(RUNS, title),
        title,
        action: &asked.action,
        search: &asked.q,
        runs_href,
        href: bulk_href(&viewer, &asked.q),
        is_done: asked.confirmed,
        outcome: outcome(&changed),
        button: format!("{verb}: {which}"),
        skipped: reasons(&changed),
        cursor: changed.next_cursor.unwrap_or_default(),
        refused,
    }))
}

/// Counts, or changes page by page. What was refused after some were changed comes second: the others are changed.
async fn change_one(viewer: &Viewer, asked: &Asked) -> Result<(ChangedRunsResponse, String)> {
    let path = format!("/v1/runs/{}", asked.action);
    let mut body = json!({"filter": filter_of(&asked.q), "dry_run": !asked.confirmed});
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
fn runs_of(number: u64, more: bool) -> String {
    let at_least = if more { "at least " } else { "" };
    let word = if number == 1 { "run" } else { "runs" };
    format!("{at_least}{} {word}", show::count(number))
}

/// How many match, how many of them were changed, and whether there are more.
fn outcome(of: &ChangedRunsResponse) -> String {
    let more = of.next_cursor.is_some();
    if of.dry_run {
        let word = if of.matched == 1 && !more { "matches" } else { "match" };
        return format!("{} {word}.", runs_of(of.matched, more));
    }
    let done =
        format!("{} matched, {} of them changed.", runs_of(of.matched, false), show::count(of.changed));
    if more { format!("{done} More runs may match.") } else { done }
}

/// Whether each word of a search is one of those that lists of runs have, each at most once as there.
fn is_understood(search: &str) -> bool {
    let Terms { pairs, wrong } = parse(search);
    let is_once = |name: &str| pairs.iter().filter(|(of, _)| *of == name).count() == 1;
    wrong.is_empty() && pairs.iter().all(|(name, _)| is_once(name))
}

/// A search as the filter of a change.
fn filter_of(search: &str) -> Map<String, Value> {
    let Terms { pairs, .. } = parse(search);
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

#[derive(Template)]
#[template(path = "errors.html")]
struct Errors {
    shell: Shell,
    hours: u32,
    capped: bool,
    groups: Vec<ErrorGroup>,
}

/// The list of the runs of one cause.
pub(crate) fn of_cause(prefix: &str, of: &ErrorGroup) -> String {
    // Failed runs have an index; to find those that are retried, all runs are read.
    let status = if of.retrying == 0 { "status:failed,dead_lettered " } else { "" };
    let search = format!("{status}error:{} fingerprint:{}", of.code, of.fingerprint);
    with_query(&format!("{prefix}/runs"), &[("q", &search)])
}

/// `GET {prefix}/errors`.
pub(crate) async fn show_errors(viewer: Viewer) -> Answer {
    let all: ErrorGroupsResponse = viewer.api.get("/v1/errors").await?;
    Ok(html(&Errors {
        shell: viewer.shell(ERRORS, "Errors").live(),
        hours: all.window_h,
        capped: all.capped,
        groups: all.data,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_a_search_is_replaced() {
        assert_eq!(with_status("kind:x status:failed", "queued"), "status:queued kind:x");
        assert_eq!(with_status("kind:x status:failed", ""), "kind:x");
    }

    #[test]
    fn search_is_the_filter_of_the_change() {
        let filter = Value::from(filter_of("status:failed,dead_lettered error:RATE_LIMITED"));
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
