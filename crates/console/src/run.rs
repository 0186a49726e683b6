//! One run: what it costs, what it did when, what it does now, and its events as they come: the stream of the API, for the
//! viewer's browser.

use askama::Template;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Redirect};
use chrono::{DateTime, SecondsFormat, Utc};
use futures_util::future::{OptionFuture, join, join3, try_join};
use houston_domain::id::RunId;
use houston_domain::run::RunStatus;
use houston_domain::scope::Scope;
use houston_domain::trace::{Line, Trace};
use houston_protocol::page::Page;
use houston_protocol::question::QuestionResponse;
use houston_protocol::run::{ModelCallResponse, ModelCallsResponse, RunResponse};
use houston_protocol::run_list::{ChangeRuns, ChangedRunsResponse};
use houston_protocol::why::WhyReason;
use serde::Deserialize;

use crate::api::{Refused, Result};
use crate::failure::{Answer, html};
use crate::query::Query;
use crate::runs::took;
use crate::shell::{RUNS, Shell};
use crate::show::{self, Fact, fact, plural, segment, with_query};
use crate::viewer::Viewer;
use crate::waterfall::{Part, Waterfall, part};
use crate::why::reasons;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Options {
    /// Whether texts of models and tools are on the page.
    contents: bool,
    /// The number of the first step on the page.
    from: usize,
    /// Why it was not tried again, as the API says it.
    left: String,
}

#[derive(Template)]
#[template(path = "run.html")]
struct Run {
    shell: Shell,
    href: String,
    run: RunResponse,
    can_cancel: bool,
    /// What the button says that tries it again; empty: it is not offered.
    retry_label: &'static str,
    facts: Vec<Fact>,
    questions: Vec<QuestionResponse>,
    reasons: Vec<WhyReason>,
    contents: bool,
    fall: Waterfall,
    calls: Vec<ModelCallResponse>,
}

/// `GET {prefix}/runs/{id}`.
pub(crate) async fn show(
    viewer: Viewer,
    Path(id): Path<String>,
    Query(Options { contents, from, left }): Query<Options>,
) -> Answer {
    let path = format!("/v1/runs/{}", segment(&id));
    let (run, calls, outline) = join3(
        viewer.api.get::<RunResponse>(&path),
        viewer.api.get::<ModelCallsResponse>(&format!("{path}/model_calls")),
        viewer.api.bytes(&format!("{path}/trace?contents=false")),
    )
    .await;
    let run = run?;
    let calls = calls?.data;
    let now = viewer.console.now();
    let is_open = !run.status.is_terminal();
    // Only the texts of the steps on the page are read.
    let part = Part { contents, from };
    let steps = async {
        let outline = lines(&outline?);
        match contents {
            true => with_texts(&viewer, (&path, is_open), outline, (from, part.size())).await,
            false => Ok(outline),
        }
    };
    let fall = match steps.await {
        Ok(Some(lines)) => Waterfall::of(&lines, is_open, part, now),
        Ok(None) => Waterfall::without("The trace of this run cannot be read here; it can be downloaded."),
        Err(refused) => Waterfall::without(refused.detail),
    };
    let questions = if is_open { Some(questions(&viewer, &run)) } else { None };
    let has_reasons = is_open || matches!(run.status, RunStatus::Failed | RunStatus::DeadLettered);
    let reasons = if has_reasons { Some(reasons(&viewer, &path)) } else { None };
    let (questions, reasons) = join(OptionFuture::from(questions), OptionFuture::from(reasons)).await;
    let shell = viewer.shell(RUNS, format!("Run {}", show::short(run.id)));
    Ok(html(&Run {
        shell: shell.live_if(is_open).noting("warn", why_left(&left)),
        href: viewer.path(&format!("/runs/{}", run.id)),
        can_cancel: is_open && viewer.may(Scope::Post),
        retry_label: match run.status {
            _ if !viewer.may(Scope::Operate) || !viewer.may(Scope::Post) => "",
            RunStatus::Retrying => "Try again now",
            RunStatus::Failed | RunStatus::DeadLettered => "Try again",
            _ => "",
        },
        facts: facts(&run, now),
        questions: questions.unwrap_or_default(),
        reasons: reasons.unwrap_or_default(),
        contents,
        fall,
        calls,
        run,
    }))
}

fn facts(run: &RunResponse, now: DateTime<Utc>) -> Vec<Fact> {
    let queued = run.started_at.map_or(now, |start| start.0) - run.created_at.0;
    let stopped = run.cancelled_by.clone().or_else(|| run.stop_reason.clone());
    let tokens =
        format!("{} in · {} out", show::count(run.usage.input_tokens), show::count(run.usage.output_tokens));
    vec![
        fact("Attempt", run.attempt.to_string()),
        fact("Iterations", run.iterations.to_string()),
        fact("Took", took(run, now)),
        fact("Queued for", show::took(queued)),
        fact("Tokens", tokens),
        fact("Cost", show::cost(run.cost, run.unpriced_calls)),
        fact("Model", run.model.clone().unwrap_or_default()),
        fact("Stopped by", stopped.unwrap_or_default()),
    ]
}

/// The lines of a trace.
fn lines(trace: &Bytes) -> Option<Vec<Line>> {
    let text = std::str::from_utf8(trace).ok()?;
    Trace::parse(text).ok().map(|trace| trace.lines)
}

/// The lines of a trace without texts, with those of at most `most` steps from the number `from` on.
async fn with_texts(
    viewer: &Viewer,
    (path, is_open): (&str, bool),
    outline: Option<Vec<Line>>,
    (from, most): (usize, usize),
) -> Result<Option<Vec<Line>>> {
    let Some(outline) = outline else { return Ok(None) };
    let Some((since, until)) = part::between(&outline, is_open, from, most) else {
        return Ok(Some(outline));
    };
    let [first, last] = [since, until].map(|at| at.to_rfc3339_opts(SecondsFormat::Micros, true));
    let whole = viewer.api.bytes(&format!("{path}/trace?since={first}&until={last}")).await?;
    Ok(lines(&whole).map(|whole| part::with_texts(outline, whole, (since, until))))
}

/// The open questions of the run, among the newest of its tenant.
async fn questions(viewer: &Viewer, run: &RunResponse) -> Vec<QuestionResponse> {
    let page: Result<Page<QuestionResponse>, _> = viewer.api.get("/v1/questions?limit=100").await;
    let all = page.map(|page| page.data).unwrap_or_default();
    all.into_iter().filter(|question| question.run_id == run.id).collect()
}

/// `POST {prefix}/runs/{id}/cancel`.
pub(crate) async fn cancel(viewer: Viewer, Path(id): Path<String>) -> Answer {
    let id = segment(&id);
    viewer.post(&format!("/v1/runs/{id}/cancel"), &format!("/runs/{id}")).await
}

/// `POST {prefix}/runs/{id}/retry`.
pub(crate) async fn retry(viewer: Viewer, Path(id): Path<String>) -> Answer {
    Ok(Redirect::to(&tried_again(&viewer, &id).await?).into_response())
}

/// Tries the run again; returns the page that shows what became of it.
async fn tried_again(viewer: &Viewer, id: &str) -> Result<String> {
    // What is no id finds nothing, below.
    let body = ChangeRuns { ids: Some(id.parse::<RunId>().into_iter().collect()), ..ChangeRuns::default() };
    let changed: ChangedRunsResponse = viewer.api.post("/v1/runs/retry", &body).await?;
    let here = viewer.path(&format!("/runs/{}", segment(id)));
    if let Some(skipped) = changed.skipped.first() {
        return Ok(with_query(&here, &[("left", &skipped.reason)]));
    }
    let run: RunResponse = viewer.api.get(&format!("/v1/runs/{}", segment(id))).await?;
    if !run.status.is_terminal() {
        return Ok(here);
    }
    // Its message was posted again: the new run is in the thread.
    let kind = &run.owner.kind;
    Ok(viewer.path(&format!("/threads/{kind}/{}", run.owner.id.public_id(kind))))
}

/// Why a run was not tried again.
fn why_left(reason: &str) -> Option<&'static str> {
    let all = [
        ("not_failed", "It was not tried again: it has not failed."),
        ("superseded", "It was not tried again: its thread has had another run since."),
        ("no_message", "It was not tried again: no message of a user began it."),
        ("not_conversational", "It was not tried again: it takes no messages."),
        ("refused", "It was not tried again: its message or its plan is not accepted now. Try later."),
    ];
    all.into_iter().find(|(name, _)| *name == reason).map(|(_, text)| text)
}

/// Where a text is; what is no number is not found.
#[derive(Debug, Deserialize)]
pub(crate) struct TextPath {
    id: String,
    step: String,
    nth: String,
}

/// `GET {prefix}/runs/{id}/texts/{step}/{nth}`: one text, whole.
pub(crate) async fn text(viewer: Viewer, Path(TextPath { id, step, nth }): Path<TextPath>) -> Answer {
    let path = format!("/v1/runs/{}", segment(&id));
    let outline = format!("{path}/trace?contents=false");
    let (run, outline) = try_join(viewer.api.get::<RunResponse>(&path), viewer.api.bytes(&outline)).await?;
    let is_open = !run.status.is_terminal();
    let place: Option<(usize, usize)> = step.parse().ok().zip(nth.parse().ok());
    let from = place.map_or(1, |(step, _)| step);
    let lines = with_texts(&viewer, (&path, is_open), lines(&outline), (from, 1)).await?;
    let found = lines.zip(place).and_then(|(lines, (step, nth))| Waterfall::text(&lines, is_open, step, nth));
    let text = found.ok_or_else(|| {
        let detail = format!("The run {id} has no text {nth} in a step {step}.");
        Refused::new(StatusCode::NOT_FOUND, "not_found", detail)
    })?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

/// `GET {prefix}/runs/{id}/trace`: the file that `houston replay` reads.
pub(crate) async fn trace(viewer: Viewer, Path(id): Path<String>) -> Answer {
    let id = segment(&id);
    let lines = viewer.api.bytes(&format!("/v1/runs/{id}/trace")).await?;
    // A segment has only characters that a header may have.
    let name = format!("attachment; filename=\"{id}.trace.jsonl\"");
    let kind = "application/jsonl".to_owned();
    Ok(([(header::CONTENT_DISPOSITION, name), (header::CONTENT_TYPE, kind)], lines).into_response())
}

#[derive(Debug, Deserialize)]
pub(crate) struct EventsFrom {
    /// From which position on; without, from the beginning of the run.
    after: Option<i64>,
}

/// `GET {prefix}/runs/{id}/events`. A browser that reconnects says where it was (`Last-Event-ID`); the API goes on there.
pub(crate) async fn events(viewer: Viewer, Path(id): Path<String>, Query(from): Query<EventsFrom>) -> Answer {
    let run: RunResponse = viewer.api.get(&format!("/v1/runs/{}", segment(&id))).await?;
    let kind = &run.owner.kind;
    let after = from.after.map(|after| format!("?after={after}")).unwrap_or_default();
    let path = format!("/v1/{}/{}/events{after}", plural(kind), run.owner.id.public_id(kind));
    let mut response = viewer.api.stream(&path).await;
    if response.status() != StatusCode::OK {
        // An `EventSource` asks again after nothing but 204.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    response.headers_mut().remove(header::SET_COOKIE);
    Ok(response)
}
