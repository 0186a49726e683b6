//! One model call of a run: the history that the model was sent.

use askama::Template;
use axum::extract::Path;
use axum::http::StatusCode;
use futures_util::future::try_join;
use houston_domain::history;
use houston_domain::trace::Trace;
use houston_protocol::run::RunResponse;
use serde::Deserialize;

use crate::api::Refused;
use crate::failure::{Answer, html};
use crate::query::Query;
use crate::shell::{RUNS, Shell};
use crate::show::{When, plural, segment, with_query};
use crate::threads::history::{Entry, Prompt, parts, prompt, sides};
use crate::viewer::Viewer;

/// The most entries of a page.
const MAX_ENTRIES: usize = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Place {
    /// The number of the first entry on the page; 0: the newest entries.
    from: usize,
}

#[derive(Template)]
#[template(path = "call.html")]
struct Call {
    shell: Shell,
    run_href: String,
    id: String,
    nth: usize,
    summary: String,
    prompt: Prompt,
    entries: Vec<Entry>,
    earlier: String,
    later: String,
}

/// `GET {prefix}/runs/{id}/calls/{nth}`.
pub(crate) async fn show(
    viewer: Viewer,
    Path((id, nth)): Path<(String, String)>,
    Query(Place { from }): Query<Place>,
) -> Answer {
    let path = format!("/v1/runs/{}", segment(&id));
    let trace = format!("{path}/trace");
    let (run, trace) = try_join(viewer.api.get::<RunResponse>(&path), viewer.api.bytes(&trace)).await?;
    let number: usize = nth.parse().unwrap_or_default();
    // Long traces take tens of milliseconds to parse.
    let reading = tokio::task::spawn_blocking(move || {
        let trace = Trace::parse(std::str::from_utf8(&trace).ok()?).ok()?;
        Some(trace.history_before_answer(number))
    });
    let sent = match reading.await.ok().flatten() {
        Some(Some(sent)) => sent,
        Some(None) => {
            let detail = format!("The run {id} has no answer {nth} of a model.");
            return Err(Refused::new(StatusCode::NOT_FOUND, "not_found", detail));
        }
        None => {
            let detail = "The trace of this run cannot be read here; it can be downloaded.";
            return Err(Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "unreadable", detail));
        }
    };
    let owner = format!("/v1/{}/{}", plural(&run.owner.kind), run.owner.id.public_id(&run.owner.kind));
    let prompt = prompt(&viewer, &owner, "").await;
    Ok(html(&page(&viewer, &run.id.to_string(), number, (sent, from), prompt)))
}

fn page(
    viewer: &Viewer,
    id: &str,
    nth: usize,
    (sent, from): (Vec<history::Entry>, usize),
    prompt: Prompt,
) -> Call {
    let run_href = viewer.path(&format!("/runs/{id}"));
    let count = sent.len();
    let newest = count.saturating_sub(MAX_ENTRIES);
    let skipped = if from == 0 { newest } else { (from - 1).min(count.saturating_sub(1)) };
    let until = (skipped + MAX_ENTRIES).min(count);
    let here = format!("{run_href}/calls/{nth}");
    let from = |first: usize| with_query(&here, &[("from", &first.to_string())]);
    let part = if count > MAX_ENTRIES {
        format!(", {} to {until} of them here", skipped + 1)
    } else {
        String::new()
    };
    Call {
        shell: viewer.shell(RUNS, "What the model was sent"),
        summary: format!("{count} {}{part}", if count == 1 { "entry" } else { "entries" }),
        prompt,
        entries: (1..).zip(&sent).skip(skipped).take(MAX_ENTRIES).map(entry).collect(),
        earlier: if skipped > 0 { from(skipped.saturating_sub(MAX_ENTRIES) + 1) } else { String::new() },
        later: if until < count { from(until + 1) } else { String::new() },
        run_href,
        id: id.to_owned(),
        nth,
    }
}

fn entry((number, of): (usize, &history::Entry)) -> Entry {
    let (look, from) = sides(of.role, &of.content);
    Entry {
        position: number.to_string(),
        look,
        from,
        at: When::default(),
        run_href: String::new(),
        parts: parts(&of.content),
    }
}
