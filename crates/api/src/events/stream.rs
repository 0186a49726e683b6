//! The body of a stream: feeds the cursor from Postgres and the bus, and writes what it says.
//!
//! It ends cleanly only after the last event of the last run. Whatever else happens to it, it is aborted: a client
//! takes a clean end for the end of the text.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use houston_domain::event::{Committed, Live, LiveItem};
use houston_domain::id::AgentableId;
use houston_protocol::agui::SnapshotMessage;
use houston_protocol::sse::{HEARTBEAT, SseEncoder};
use houston_queue::{Received, Subscription};
use houston_store::{Error, Store};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep, timeout};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::events::cursor::{Cursor, Heard};
use crate::events::snapshot;
use crate::events::streams::{Admitted, Registered};
use crate::state::App;

/// Events per read.
const PAGE: i64 = 500;
/// About how many bytes are written at once.
const WRITE_AT_ONCE: usize = 16 * 1024;
/// How many live items wait while Postgres is read; of more, Postgres tells.
const HELD: usize = 64;
/// The pause before a failed read is tried again.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The stream was cut off on purpose; its client comes back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Abort {
    /// The process is about to go.
    #[error("the server is draining")]
    Draining,
    /// The key that opened it was revoked.
    #[error("the API key was revoked")]
    Revoked,
    /// What it shows was erased.
    #[error("the agentable was erased")]
    Gone,
    /// The client reads too slowly.
    #[error("the client is too slow")]
    TooSlow,
    /// An event cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Error),
}

/// A body that breaks the connection off.
#[derive(Debug)]
pub(crate) struct Aborted;

impl Body for Aborted {
    type Data = Bytes;
    type Error = Abort;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Abort>>> {
        Poll::Ready(Some(Err(Abort::Draining)))
    }
}

/// What was read from Postgres.
enum Fetched {
    Events { events: Vec<Committed>, more: bool },
    Snapshot(Vec<SnapshotMessage>),
}

type Fetching = Pin<Box<dyn Future<Output = Result<Fetched, Error>> + Send>>;

/// One client's stream.
pub(crate) struct EventStream {
    app: Arc<App>,
    agentable: AgentableId,
    cursor: Cursor,
    /// Whether it stays open when a run ends.
    follow: bool,
    subscription: Subscription,
    registered: Registered,
    _admitted: Admitted,
    fetching: Option<Fetching>,
    /// Events read and not sent yet, and whether there are more.
    page: VecDeque<Committed>,
    more: bool,
    snapshot: Option<Vec<SnapshotMessage>>,
    held: VecDeque<Arc<LiveItem>>,
    /// Whether live items were dropped, so that Postgres must be read once more.
    missed: bool,
    /// Whether the text so far is waited for.
    wants_transcript: bool,
    frames: SseEncoder,
    sent_at: Instant,
    heartbeat: Pin<Box<Sleep>>,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    revoked: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl EventStream {
    /// Must be made before Postgres is asked for anything that the cursor does not know yet.
    pub(crate) fn new(
        app: Arc<App>,
        agentable: AgentableId,
        subscription: Subscription,
        cursor: Cursor,
        follow: bool,
        admitted: Admitted,
    ) -> Self {
        let config = &app.state.config;
        let mut stream = Self {
            agentable,
            follow,
            subscription,
            registered: Registered::new(Arc::clone(&app), agentable, cursor.seq()),
            revoked: Box::pin(admitted.key.revoked.clone().cancelled_owned()),
            _admitted: admitted,
            fetching: None,
            page: VecDeque::new(),
            more: false,
            snapshot: None,
            held: VecDeque::new(),
            missed: false,
            wants_transcript: true,
            frames: SseEncoder::new(config.retry_ms),
            sent_at: Instant::now(),
            heartbeat: Box::pin(tokio::time::sleep(config.heartbeat())),
            draining: Box::pin(app.state.draining.clone().cancelled_owned()),
            cursor,
            app,
        };
        stream.read();
        stream
    }

    /// Reads what comes after the cursor.
    fn read(&mut self) {
        let (app, agentable, after) = (Arc::clone(&self.app), self.agentable, self.cursor.seq());
        self.fetching = Some(Box::pin(read_events(app, agentable, after)));
    }

    /// Does one thing; pending when there is nothing to do.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Abort>> {
        if let Some(fetching) = &mut self.fetching {
            let Poll::Ready(fetched) = fetching.as_mut().poll(cx) else {
                self.hold(cx)?;
                return Poll::Pending;
            };
            self.fetching = None;
            match fetched? {
                Fetched::Snapshot(messages) => self.snapshot = Some(messages),
                Fetched::Events { events, more } => {
                    (self.page, self.more) = (events.into(), more);
                    if self.page.is_empty() {
                        self.caught_up();
                    }
                }
            }
            return Poll::Ready(Ok(()));
        }
        if self.send_next() {
            return Poll::Ready(Ok(()));
        }
        if let Some(item) = self.held.pop_front() {
            self.hear(&item);
            return Poll::Ready(Ok(()));
        }
        match self.subscription.poll_recv(cx) {
            Poll::Ready(Received::Item(item)) => self.hear(&item),
            Poll::Ready(Received::Lagged) => return Poll::Ready(Err(Abort::TooSlow)),
            Poll::Pending if self.registered.watch().take_behind(cx) => self.read(),
            Poll::Pending => return Poll::Pending,
        }
        Poll::Ready(Ok(()))
    }

    /// Takes live items out of their bounded box while Postgres is read: that may take long.
    fn hold(&mut self, cx: &mut Context<'_>) -> Result<(), Abort> {
        while let Poll::Ready(received) = self.subscription.poll_recv(cx) {
            match received {
                Received::Lagged => return Err(Abort::TooSlow),
                Received::Item(item) if self.held.len() < HELD => self.held.push_back(item),
                Received::Item(_) => {
                    self.held = VecDeque::new();
                    self.missed = true;
                }
            }
        }
        Ok(())
    }

    /// Sends the next event of the page; false when there is none.
    fn send_next(&mut self) -> bool {
        let Some(event) = self.page.front() else { return false };
        if event.seq > self.cursor.seq() {
            if let (None, Some(before)) = (&self.snapshot, self.cursor.snapshot_before(event)) {
                self.fetching = Some(Box::pin(read_snapshot(Arc::clone(&self.app), self.agentable, before)));
                return true;
            }
            let snapshot = self.snapshot.take().unwrap_or_default();
            let frames = &mut self.frames;
            self.cursor.durable(event, &snapshot, &mut |at, event| frames.push(at, event));
        }
        self.page.pop_front();
        if self.page.is_empty() {
            self.caught_up();
        }
        true
    }

    /// The page is sent: goes on reading, or turns to what is live.
    fn caught_up(&mut self) {
        self.page = VecDeque::new();
        self.registered.watch().reached(self.cursor.seq());
        if self.more || self.missed {
            (self.more, self.missed) = (false, false);
            self.read();
        } else if self.wants_transcript {
            self.ask_for_transcript();
        }
    }

    fn ask_for_transcript(&mut self) {
        self.wants_transcript = self.cursor.is_writing();
        if self.wants_transcript {
            let agentable = self.agentable;
            self.app.state.bus.publish_control(LiveItem { agentable, live: Live::TranscriptWanted });
        }
    }

    fn hear(&mut self, item: &LiveItem) {
        let frames = &mut self.frames;
        match &item.live {
            Live::Delta(delta) => {
                let before = frames.len();
                match self.cursor.delta(delta, &mut |at, event| frames.push(at, event)) {
                    Heard::Fine => self.wants_transcript &= self.frames.len() == before,
                    Heard::Gap => self.ask_for_transcript(),
                    Heard::Behind => self.read(),
                }
            }
            Live::Committed(events) => {
                for event in events {
                    let next = self.cursor.seq() + 1;
                    if event.seq < next {
                        continue;
                    }
                    if event.seq > next || self.cursor.snapshot_before(event).is_some() {
                        self.read();
                        break;
                    }
                    let frames = &mut self.frames;
                    self.cursor.durable(event, &[], &mut |at, event| frames.push(at, event));
                }
                self.registered.watch().reached(self.cursor.seq());
            }
            Live::Nudge => self.read(),
            Live::TranscriptWanted | Live::CancelRequested(_) => {}
        }
    }

    fn is_finished(&self) -> bool {
        !self.follow && self.cursor.is_over() && self.fetching.is_none()
    }

    /// A heartbeat after each stretch of silence.
    fn poll_heartbeat(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let period = self.app.state.config.heartbeat();
        loop {
            ready!(self.heartbeat.as_mut().poll(cx));
            // The timer is not moved at each frame, which would cost more than the frame.
            let (now, due) = (Instant::now(), self.sent_at + period);
            if now >= due {
                self.sent_at = now;
                self.heartbeat.as_mut().reset(now + period);
                return Poll::Ready(Bytes::from_static(HEARTBEAT));
            }
            self.heartbeat.as_mut().reset(due);
        }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Abort;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Abort>>> {
        if self.draining.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(Abort::Draining)));
        }
        if self.revoked.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(Abort::Revoked)));
        }
        if self.registered.watch().is_gone() {
            return Poll::Ready(Some(Err(Abort::Gone)));
        }
        while self.frames.len() < WRITE_AT_ONCE {
            match self.advance(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(abort)) => {
                    tracing::warn!(error = %abort, agentable = %self.agentable, "stream aborted");
                    return Poll::Ready(Some(Err(abort)));
                }
                Poll::Pending => break,
            }
        }
        if let Some(bytes) = self.frames.take() {
            self.sent_at = Instant::now();
            return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
        }
        if self.is_finished() {
            return Poll::Ready(None);
        }
        self.poll_heartbeat(cx).map(|bytes| Some(Ok(Frame::data(bytes))))
    }
}

async fn read_events(app: Arc<App>, agentable: AgentableId, after: i64) -> Result<Fetched, Error> {
    let read = |store: Store| async move { store.events_after(agentable, after, PAGE).await };
    let events = persistently(&app, read).await?;
    houston_faults::fault!("C13").map_err(houston_store::Error::from)?;
    let more = i64::try_from(events.len()).is_ok_and(|count| count >= PAGE);
    Ok(Fetched::Events { events, more })
}

async fn read_snapshot(app: Arc<App>, agentable: AgentableId, before: i64) -> Result<Fetched, Error> {
    let read = |store: Store| async move {
        store.thread_events_before(agentable, before, snapshot::MOST_MESSAGES).await
    };
    let newest_first = persistently(&app, read).await?;
    Ok(Fetched::Snapshot(snapshot::of(newest_first)))
}

/// Reads until Postgres answers: a stream that was accepted is not failed because Postgres is away.
async fn persistently<T, F>(app: &App, read: impl Fn(Store) -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        let outcome = {
            // The door is never closed.
            let _permit = app.streams.reads.acquire().await.ok();
            timeout(app.state.config.request_timeout(), read(app.store().clone())).await
        };
        match outcome {
            Err(elapsed) => tracing::debug!(%elapsed, "stream waits for postgres"),
            Ok(Err(error)) if error.is_transient() => {
                tracing::debug!(%error, "stream waits for postgres");
                tokio::time::sleep(READ_AGAIN_AFTER).await;
            }
            Ok(outcome) => return outcome,
        }
    }
}
