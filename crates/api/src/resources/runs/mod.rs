//! `/v1/runs/{id}`: one run, i.e. one execution for an agentable, across crashes and hand-overs. It is read (`wait`: once it has
//! ended or waits for a person), cancelled, and shown with its model calls and its trace. For many runs: [`many`].

pub(crate) mod many;

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::http::header;
use chrono::{DateTime, Utc};
use houston_domain::event::{Event, Live};
use houston_domain::id::RunId;
use houston_domain::model::Usage;
use houston_domain::run::{Run, RunStatus};
use houston_domain::trace::{Header, Snapshot};
use houston_protocol::run::{ModelCallResponse, ModelCallsResponse};
use houston_queue::{Received, Subscription};
use houston_store::Error;
use houston_store::cost::StoredModelCall;
use houston_store::run::RunProgress;
use tokio::time::Instant;

use crate::admission;
use crate::deadline::Deadline;
use crate::request::prelude::*;
use crate::request::query::{clamped, time};
use crate::state::documents::{DocumentBody, DocumentPermit};
use crate::state::streams::StreamRegistration;
use crate::wiring::{ExplainError, ExplainTopic};

endpoints! {
    get "/v1/runs/{id}" for ROW => get,
    "get_run" in "runs": "Get a run; with `wait`, once it has ended or waits for a person.",
    params(("wait" = Option<u8>, Query, minimum = 0, maximum = 60, description = "Seconds to wait until the run has ended or waits for a person; then it is returned as it is. 0 by default.")),
    200 "The run." [houston_protocol::run::RunResponse],
    429 "`too_many_streams`: the process or the tenant has too many open streams and waiting requests.";

    get "/v1/runs/{id}/model_calls" for ROW.unshown() => calls,
    "list_model_calls" in "runs": "List the model calls of a run with usage and cost.",
    200 "The model calls." [ModelCallsResponse];

    get "/v1/runs/{id}/trace" for ROW.unshown() => trace,
    "get_run_trace" in "runs": "Get the trace of a run: what it was given, what it did, what was answered.",
    description = "Lines of JSON: a header, events, messages, answers, tool calls with their responses, and a footer with a \
                   digest. `houston replay` replays them. Texts that look like keys are redacted.",
    params(
        ("contents" = Option<bool>, Query, description = "`false`: what happened when, without what messages, models and tools say, and \
                                                         without what came before the run. Of a long run it is a hundredth of the \
                                                         whole; it cannot be replayed."),
        ("since" = Option<houston_protocol::time::Time>, Query, description = "Only lines of what was committed then or later, without messages of the \
                                                         thread and what came before the run. Only their texts are read. It cannot \
                                                         be replayed."),
        ("until" = Option<houston_protocol::time::Time>, Query, description = "As `since`: only lines of what was committed until then, or then."),
    ),
    200 "The trace, `houston.trace` version 1." [String, content_type = "application/jsonl"],
    410 "`event_log_expired`: events of the run were deleted by age.",
    413 "`too_large`: the trace is larger than `server.conversation.max_bytes`.";

    post "/v1/runs/{id}/cancel" for ROW => cancel,
    "cancel_run" in "runs": "Cancel a run.",
    202 "The cancellation was requested, now or before." [houston_protocol::run::RunResponse],
    409 "`invalid_state`: the run has ended with another status.";
}

/// The run as it is answered: how many digits its cost was computed with says nothing.
pub(crate) fn response(run: Run) -> Run {
    Run { cost: run.cost.map(|cost| cost.normalize()), ..run }
}

/// The longest wait, in seconds: proxies take longer silence for a broken connection.
const MAX_WAIT_S: u64 = 60;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GetOptions {
    wait: Option<String>,
}

async fn get(
    ctx: Ctx,
    Id(id): Id<RunId>,
    Query(options): Query<GetOptions>,
    Extension(deadline): Extension<Deadline>,
) -> Result<impl IntoResponse> {
    let within = seconds(options.wait.as_deref())?;
    if !within.is_zero() {
        deadline.restart_after(within);
        wait(&ctx, id, within).await?;
        deadline.restart_after(Duration::ZERO);
    }
    Ok(Json(response(run(&ctx, id).await?)))
}

/// The run. One that opens when the run before it has ended, since that is being cancelled, is queued.
async fn run(ctx: &Ctx, id: RunId) -> Result<Run> {
    let store = || ctx.store();
    let missing = match store().run(id).await {
        Err(missing @ Error::NotFound { .. }) => missing,
        run => return Ok(run?),
    };
    match store().run(id.predecessor()).await {
        Ok(before) if before.ended_at.is_none() && before.cancel_requested => Ok(before.followed_by(id)),
        // It may have opened meanwhile.
        Ok(before) if before.ended_at.is_some() => Ok(store().run(id).await?),
        Ok(_) | Err(Error::NotFound { .. }) => Err(missing.into()),
        Err(error) => Err(error.into()),
    }
}

fn seconds(given: Option<&str>) -> Result<Duration> {
    let Some(given) = given else { return Ok(Duration::ZERO) };
    let seconds = given.parse().ok().filter(|seconds| *seconds <= MAX_WAIT_S);
    seconds.map(Duration::from_secs).ok_or_else(|| {
        ApiError::parameter("wait", format!("must be a number of seconds from 0 to {MAX_WAIT_S}"))
    })
}

/// Returns once the run has ended or waits for a person, after `within`, or when the process drains.
///
/// # Errors
/// [`ApiError::NotFound`] when there is no such run, also when it is erased meanwhile; [`ApiError::TooManyStreams`];
/// [`ApiError::Unauthorized`] when the key is revoked or expires meanwhile; the store's errors.
async fn wait(ctx: &Ctx, run: RunId, within: Duration) -> Result<()> {
    let until = Instant::now() + within;
    let mut progress = progress_of(ctx, run).await?;
    if is_over(&progress) || ctx.state.draining.is_cancelled() {
        return Ok(());
    }
    let permit = ctx.streams.permit(ctx.caller)?;
    admission::give_back();
    let agentable = progress.agentable;
    let registration = ctx.streams.register(agentable, progress.last_seq);
    let mut subscription = ctx.state.bus.subscribe(agentable);
    let mut revoked = std::pin::pin!(permit.key.ended(permit.caller.expires()));
    loop {
        // What was committed before the subscription began is found by this read, and not waited for.
        progress = progress_of(ctx, run).await?;
        if is_over(&progress) {
            return Ok(());
        }
        registration.watch.reached(progress.last_seq);
        let mut seen = progress.last_seq;
        let woken = poll_fn(|cx| poll_change(cx, &mut subscription, &registration, &mut seen));
        let lagged = tokio::select! {
            lagged = woken => lagged,
            () = &mut revoked => return Err(ApiError::Unauthorized),
            () = ctx.state.draining.cancelled() => return Ok(()),
            () = tokio::time::sleep_until(until) => return Ok(()),
        };
        if lagged {
            subscription = ctx.state.bus.subscribe(agentable);
        }
    }
}

fn is_over(progress: &RunProgress) -> bool {
    progress.has_ended || progress.asks
}

/// Reads the run, with as many others at once as streams may.
async fn progress_of(ctx: &Ctx, run: RunId) -> Result<RunProgress> {
    // The semaphore is never closed.
    let _permit = ctx.streams.reads.acquire().await.ok();
    let store = || ctx.store();
    match store().run_progress(run).await {
        Err(Error::NotFound { .. }) => {
            // It opens when the run before it has ended.
            let before = store().run_progress(run.predecessor()).await?;
            if before.has_ended {
                return Ok(store().run_progress(run).await?);
            }
            Ok(RunProgress { asks: false, ..before })
        }
        progress => Ok(progress?),
    }
}

/// Ready when the run must be read again; whether that is because the subscription has ended. All events up to `seen` were
/// looked at.
fn poll_change(
    cx: &mut Context<'_>,
    subscription: &mut Subscription,
    registration: &StreamRegistration,
    seen: &mut i64,
) -> Poll<bool> {
    while let Poll::Ready(received) = subscription.poll_recv(cx) {
        match received {
            Received::Lagged => return Poll::Ready(true),
            Received::Item(item) => match &item.live {
                Live::Nudge => return Poll::Ready(false),
                Live::Committed(events) => {
                    for event in events {
                        if event.seq <= *seen {
                            continue;
                        }
                        if event.seq > *seen + 1 || may_end_a_wait(&event.event) {
                            return Poll::Ready(false);
                        }
                        *seen = event.seq;
                    }
                    // The poll need not wake this for what was looked at.
                    registration.watch.reached(*seen);
                }
                Live::Delta(_) | Live::Progress(_) | Live::TranscriptWanted | Live::CancelRequested(_) => {}
            },
        }
    }
    let watch = &registration.watch;
    if watch.take_behind(cx) || watch.is_gone() { Poll::Ready(false) } else { Poll::Pending }
}

fn may_end_a_wait(event: &Event) -> bool {
    matches!(event, Event::RunFinished { .. } | Event::RunWaiting { .. } | Event::QuestionAsked(_))
}

pub(crate) async fn cancel(ctx: Ctx, Id(id): Id<RunId>) -> Result<impl IntoResponse> {
    let is_asked = ctx.cancel_run(id).await?;
    let run = ctx.store().run(id).await?;
    if !is_asked && run.status != RunStatus::Cancelled {
        return Err(ApiError::InvalidState(run.status));
    }
    Ok((StatusCode::ACCEPTED, Json(response(run))))
}

fn call_response(StoredModelCall { call, at }: StoredModelCall) -> ModelCallResponse {
    let cost = call.usage.cost.map(|cost| cost.normalize());
    ModelCallResponse {
        iteration: call.iteration,
        provider: call.provider,
        model: call.model,
        usage: Usage { cost: None, ..call.usage },
        cost,
        cost_source: cost.map(|_| if call.reported { "provider" } else { "list" }.to_owned()),
        estimated: call.estimated,
        created_at: Time(at),
    }
}

async fn calls(ctx: Ctx, Id(id): Id<RunId>) -> Result<impl IntoResponse> {
    let calls = ctx.store().model_calls(id).await?;
    Ok(Json(ModelCallsResponse { data: calls.into_iter().map(call_response).collect() }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceOptions {
    contents: Option<bool>,
    since: Option<String>,
    until: Option<String>,
}

/// The first and the last time.
type Between = (DateTime<Utc>, DateTime<Utc>);

impl TraceOptions {
    /// The times between which lines are wanted; `None`: all are.
    fn between(&self) -> Result<Option<Between>> {
        let (since, until) = (time("since", self.since.as_deref())?, time("until", self.until.as_deref())?);
        let is_whole = since.is_none() && until.is_none();
        let (first, last) = (DateTime::UNIX_EPOCH, clamped(DateTime::<Utc>::MAX_UTC));
        Ok((!is_whole).then(|| (since.unwrap_or(first), until.unwrap_or(last))))
    }
}

async fn trace(
    ctx: Ctx,
    Id(id): Id<RunId>,
    Query(options): Query<TraceOptions>,
) -> Result<impl IntoResponse> {
    let (contents, between) = (options.contents.unwrap_or(true), options.between()?);
    let is_whole = contents && between.is_none();
    let run = ctx.store().run(id).await?;
    let agentable = ctx.store().agentable(&run.owner.kind, run.owner.id).await?;
    // The snapshot is made of the whole context of a run: an outline and a part do without.
    let of_kind = ctx.state.agent_types.get(&run.owner.kind).filter(|_| !is_whole).map(|kind| Snapshot {
        conversational: kind.conversational,
        reply: kind.reply,
        driver: kind.driver.clone(),
        limits: ctx.state.agents.limits.with(kind.limits),
        tools: Vec::new(),
    });
    let snapshot = match of_kind {
        Some(snapshot) => snapshot,
        None => {
            let explanation = ctx.state.explain.get(ExplainTopic::Snapshot, agentable);
            let parse =
                |value| serde_json::from_value(value).map_err(|error| ExplainError::SetUp(Box::new(error)));
            ctx.offload.drive(async move { Ok(parse(explanation.await?)?) }).await?
        }
    };
    let header = Header::of(id, &run.owner.kind, snapshot, ctx.state.agents.overseer);
    let max_bytes = ctx.state.config.conversation.max_bytes;
    let permit = DocumentPermit::new(&ctx.documents, ctx.caller.tenant(), max_bytes).await?;
    let exporting = Arc::clone(&ctx.app);
    let export = async move {
        let store = exporting.store(ctx.caller);
        let mut trace = match is_whole {
            true => store.trace(id, max_bytes, header).await?,
            false => store.trace_outline(id, max_bytes, between.filter(|_| contents), header).await?,
        };
        if let Some((since, until)) = between {
            trace.lines.retain(|line| line.at().is_some_and(|at| since <= at && at <= until));
        }
        Ok(DocumentBody::new(trace.to_text(), permit))
    };
    let sent = ctx.offload.drive(export).await?;
    let name = format!("attachment; filename=\"{id}.trace.jsonl\"");
    let headers =
        [(header::CONTENT_DISPOSITION, name), (header::CONTENT_TYPE, "application/jsonl".to_owned())];
    Ok((headers, Body::new(sent)))
}
