//! `GET /v1/runs/{id}/trace`: what a run was given and what it did, as lines of JSON, for `houston replay`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use chrono::{DateTime, Utc};
use houston_domain::id::RunId;
use houston_domain::trace::{Header, Snapshot};
use serde::Deserialize;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::documents::{DocumentBody, DocumentPermit};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::explain::{ExplainError, ExplainTopic};
use crate::query::{Query, clamped, time};
use crate::state::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    #[serde(default = "yes")]
    contents: bool,
    since: Option<String>,
    until: Option<String>,
}

/// The first and the last time.
type Between = (DateTime<Utc>, DateTime<Utc>);

impl Options {
    /// The times between which lines are wanted; `None`: all are.
    fn between(&self) -> Result<Option<Between>, ApiError> {
        let (since, until) = (time("since", self.since.as_deref())?, time("until", self.until.as_deref())?);
        let is_whole = since.is_none() && until.is_none();
        let (first, last) = (DateTime::UNIX_EPOCH, clamped(DateTime::<Utc>::MAX_UTC));
        Ok((!is_whole).then(|| (since.unwrap_or(first), until.unwrap_or(last))))
    }
}

fn yes() -> bool {
    true
}

endpoint! {
    TRACE: get "/v1/runs/{id}/trace" => trace,
    tag = "runs",
    operation_id = "get_run_trace",
    summary = "Get the trace of a run: what it was given, what it did, what was answered.",
    description = "Lines of JSON: a header, events, messages, answers, tool calls with their responses, and a footer with a \
                   digest. `houston replay` replays them. Texts that look like keys are redacted.",
    params(
        ("id" = houston_protocol::schema::RunId, Path, description = "Id of the run."),
        ("contents" = Option<bool>, Query, description = "`false`: what happened when, without what messages, models and tools say, and \
                                                         without what came before the run. Of a long run it is a hundredth of the \
                                                         whole; it cannot be replayed."),
        ("since" = Option<houston_protocol::schema::Time>, Query, description = "Only lines of what was committed then or later, without messages of the \
                                                         thread and what came before the run. Only their texts are read. It cannot \
                                                         be replayed."),
        ("until" = Option<houston_protocol::schema::Time>, Query, description = "As `since`: only lines of what was committed until then, or then.")
    ),
    responses(
        (status = 200, description = "The trace, `houston.trace` version 1.", body = String, content_type = "application/jsonl"),
        (status = 410, description = "`event_log_expired`: events of the run were deleted by age."),
        (status = 413, description = "`too_large`: the trace is larger than `server.conversation.max_bytes`.")
    ),
}

pub(crate) async fn trace(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RunId>,
    Query(options): Query<Options>,
) -> Result<impl IntoResponse, ApiError> {
    let (contents, between) = (options.contents, options.between()?);
    let is_whole = contents && between.is_none();
    let run = app.store(caller).run(id).await?;
    let agentable = app.store(caller).agentable(&run.kind, run.agentable).await?;
    // The snapshot is made of the whole context of a run: an outline and a part do without.
    let of_kind = app.state.agent_types.get(&run.kind).filter(|_| !is_whole).map(|kind| Snapshot {
        conversational: kind.conversational,
        reply: kind.reply,
        driver: kind.driver.clone(),
        limits: app.state.agents.limits.with(kind.limits),
        tools: Vec::new(),
    });
    let snapshot = match of_kind {
        Some(snapshot) => snapshot,
        None => {
            let explanation = app.state.explain.get(ExplainTopic::Snapshot, agentable);
            let parse =
                |value| serde_json::from_value(value).map_err(|error| ExplainError::SetUp(Box::new(error)));
            app.offload.drive(async move { Ok(parse(explanation.await?)?) }).await?
        }
    };
    let header = Header::of(id, &run.kind, snapshot, app.state.agents.overseer);
    let max_bytes = app.state.config.conversation.max_bytes;
    let permit = DocumentPermit::new(&app, caller.tenant(), max_bytes).await?;
    let exporting = Arc::clone(&app);
    let export = async move {
        let store = exporting.store(caller);
        let trace = match (contents, between) {
            (true, None) => store.trace(id, max_bytes, |_| header).await?,
            (true, Some(between)) => store.trace_between(id, max_bytes, between, |_| header).await?,
            (false, between) => {
                let mut outline = store.trace_outline(id, max_bytes, |_| header).await?;
                if let Some((since, until)) = between {
                    outline.lines.retain(|line| line.at().is_some_and(|at| since <= at && at <= until));
                }
                outline
            }
        };
        Ok(DocumentBody::of_text(trace.to_text(), permit))
    };
    let sent = app.offload.drive(export).await?;
    let name = format!("attachment; filename=\"{id}.trace.jsonl\"");
    let headers =
        [(header::CONTENT_DISPOSITION, name), (header::CONTENT_TYPE, "application/jsonl".to_owned())];
    Ok((headers, Body::new(sent)))
}
