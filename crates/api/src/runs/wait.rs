//! Waiting for a run. A waiting request is woken as streams are: by the bus, and by the poll that all of them share for what
//! the bus has lost. Between two reads it holds no database connection, and it counts as an open stream.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use houston_domain::event::{Event, Live};
use houston_domain::id::RunId;
use houston_queue::{Received, Subscription};
use houston_store::Error;
use houston_store::awaited::RunProgress;
use tokio::time::Instant;

use crate::admission;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::events::streams::{StreamPermit, StreamRegistration};
use crate::state::App;

/// Returns once the run has ended or waits for a person, after `within`, or when the process drains.
///
/// # Errors
/// [`ApiError::NotFound`] when there is no such run, also when it is erased meanwhile; [`ApiError::TooManyStreams`];
/// [`ApiError::Unauthorized`] when the key is revoked or expires meanwhile; the store's errors.
pub(crate) async fn wait(
    app: &Arc<App>,
    caller: Caller,
    run: RunId,
    within: Duration,
) -> Result<(), ApiError> {
    let until = Instant::now() + within;
    let mut progress = read(app, caller, run).await?;
    if is_over(&progress) || app.state.draining.is_cancelled() {
        return Ok(());
    }
    let permit = StreamPermit::new(Arc::clone(app), caller)?;
    admission::give_back();
    let agentable = progress.agentable;
    let registration = StreamRegistration::new(Arc::clone(app), agentable, progress.last_seq);
    let mut subscription = app.state.bus.subscribe(agentable);
    let mut revoked = std::pin::pin!(permit.key.ended(permit.caller.expires()));
    loop {
        // What was committed before the subscription began is found by this read, and not waited for.
        progress = read(app, caller, run).await?;
        if is_over(&progress) {
            return Ok(());
        }
        registration.watch().reached(progress.last_seq);
        let mut seen = progress.last_seq;
        let woken = poll_fn(|cx| poll_change(cx, &mut subscription, &registration, &mut seen));
        let lagged = tokio::select! {
            lagged = woken => lagged,
            () = &mut revoked => return Err(ApiError::Unauthorized),
            () = app.state.draining.cancelled() => return Ok(()),
            () = tokio::time::sleep_until(until) => return Ok(()),
        };
        if lagged {
            subscription = app.state.bus.subscribe(agentable);
        }
    }
}

fn is_over(progress: &RunProgress) -> bool {
    progress.has_ended || progress.asks
}

/// Reads the run, with as many others at once as streams may.
async fn read(app: &App, caller: Caller, run: RunId) -> Result<RunProgress, ApiError> {
    // The semaphore is never closed.
    let _permit = app.streams.reads.acquire().await.ok();
    let store = || app.store(caller);
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
                    registration.watch().reached(*seen);
                }
                Live::Delta(_) | Live::Progress(_) | Live::TranscriptWanted | Live::CancelRequested(_) => {}
            },
        }
    }
    let watch = registration.watch();
    if watch.take_behind(cx) || watch.is_gone() { Poll::Ready(false) } else { Poll::Pending }
}

fn may_end_a_wait(event: &Event) -> bool {
    matches!(event, Event::RunFinished { .. } | Event::RunWaiting { .. } | Event::QuestionAsked(_))
}
