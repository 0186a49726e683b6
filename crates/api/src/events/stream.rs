//! The body of an event stream: feeds the cursor with events from Postgres and live items from the bus, and writes the
//! frames it returns.
//!
//! The body ends cleanly only after the last event of the last run. In all other cases it is aborted, because clients
//! take a clean end for the end of the run.
//!
//! [`Dialect`] writes the frames of a client's protocol, made from AG-UI events. All endpoints that stream read the same events,
//! in the same order, with the same positions; a dialect only translates. To add a protocol: implement it, and open its
//! streams with [`open_as`](super::open_as).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use houston_domain::event::{Committed, Live, LiveItem};
use houston_domain::id::{AgentableId, MessageId};
use houston_protocol::agui::{EntityId, Event, Interrupt, Outcome};
use houston_protocol::sse::{HEARTBEAT, SseEncoder};
use houston_queue::{Received, Subscription};
use houston_store::{Error, TenantStore};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep, timeout};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::events::cursor::{Cursor, DeltaOutcome, Needed};
use crate::events::position::Position;
use crate::events::snapshot;
use crate::state::Ctx;
use crate::state::streams::{Abort, StreamPermit, StreamRegistration};

/// Events per query.
pub(crate) const PAGE: i64 = 500;
/// Approximate number of bytes per write.
const MAX_WRITE_BYTES: usize = 16 * 1024;
/// How many live items are buffered while Postgres is read. Beyond that all are dropped and Postgres is read once more.
const MAX_BUFFERED: usize = 64;
/// Pause before a failed read is repeated.
const READ_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The result of a read from Postgres.
enum Fetched {
    Events { events: Vec<Committed>, has_more: bool },
    Needed(Needed),
}

type Fetching = Pin<Box<dyn Future<Output = Result<Fetched, Error>> + Send>>;

/// The event stream of one client, in the words of its protocol.
pub(crate) struct EventStream<D> {
    dialect: D,
    ctx: Ctx,
    agentable: AgentableId,
    cursor: Cursor,
    /// Whether the stream stays open when a run ends.
    follow: bool,
    subscription: Subscription,
    registration: StreamRegistration,
    permit: StreamPermit,
    fetching: Option<Fetching>,
    /// Events that were read and not sent yet, and whether Postgres has more.
    page: VecDeque<Committed>,
    has_more: bool,
    needed: Option<Needed>,
    buffered: VecDeque<Arc<LiveItem>>,
    /// Whether buffered live items were dropped, so that Postgres must be read once more.
    missed: bool,
    /// Whether what follows the last event was written.
    ended: bool,
    /// Whether the text written so far must still be requested from the worker, or was and has not arrived.
    wants_transcript: bool,
    frames: SseEncoder,
    heartbeat: Heartbeat,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<D: Dialect> EventStream<D> {
    /// A stream that begins with `first`, the page of events after the cursor. It was read after the subscription began,
    /// so no event is missed.
    pub(crate) fn new(
        ctx: Ctx,
        agentable: AgentableId,
        (subscription, permit): (Subscription, StreamPermit),
        cursor: Cursor,
        first: Vec<Committed>,
        (dialect, follow): (D, bool),
    ) -> Self {
        let config = &ctx.state.config;
        Self {
            dialect,
            agentable,
            follow,
            subscription,
            registration: ctx.streams.register(agentable, cursor.seq()),
            revoked: Box::pin(permit.key.ended(permit.caller.expires())),
            permit,
            fetching: Some(Box::pin(page(first))),
            page: VecDeque::new(),
            has_more: false,
            needed: None,
            buffered: VecDeque::new(),
            missed: false,
            ended: false,
            wants_transcript: true,
            frames: SseEncoder::new(config.retry_ms),
            heartbeat: Heartbeat::new(config.heartbeat()),
            draining: Box::pin(ctx.state.draining.clone().cancelled_owned()),
            cursor,
            ctx,
        }
    }

    /// Starts to read the events after the cursor.
    fn read(&mut self) {
        let (ctx, agentable, after) = (self.ctx.clone(), self.agentable, self.cursor.seq());
        self.fetching = Some(Box::pin(async move {
            page(read_with_retries(&ctx, |store| store.events_after(agentable, after, PAGE)).await?).await
        }));
    }

    /// Makes one step; pending when there is nothing to do.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Abort>> {
        if let Some(fetching) = &mut self.fetching {
            let Poll::Ready(fetched) = fetching.as_mut().poll(cx) else {
                self.buffer_live(cx)?;
                return Poll::Pending;
            };
            self.fetching = None;
            match fetched? {
                Fetched::Needed(needed) => self.needed = Some(needed),
                Fetched::Events { events, has_more } => {
                    self.page = events.into();
                    self.has_more = has_more;
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
        if let Some(item) = self.buffered.pop_front() {
            self.handle_live(&item);
            return Poll::Ready(Ok(()));
        }
        match self.subscription.poll_recv(cx) {
            Poll::Ready(Received::Item(item)) => self.handle_live(&item),
            Poll::Ready(Received::Lagged) => return Poll::Ready(Err(Abort::TooSlow)),
            Poll::Pending if self.registration.watch.take_behind(cx) => self.read(),
            Poll::Pending => return Poll::Pending,
        }
        Poll::Ready(Ok(()))
    }

    /// Buffers live items while Postgres is read, because their bounded queue could overflow meanwhile.
    fn buffer_live(&mut self, cx: &mut Context<'_>) -> Result<(), Abort> {
        while let Poll::Ready(received) = self.subscription.poll_recv(cx) {
            match received {
                Received::Lagged => return Err(Abort::TooSlow),
                Received::Item(item) if self.buffered.len() < MAX_BUFFERED => self.buffered.push_back(item),
                Received::Item(_) => {
                    self.buffered = VecDeque::new();
                    self.missed = true;
                }
            }
        }
        Ok(())
    }

    /// Sends the next event of the page; `false` if the page is empty.
    fn send_next(&mut self) -> bool {
        let Some(event) = self.page.front() else { return false };
        if event.seq > self.cursor.seq() {
            if self.needed.is_none() && needs_more(&self.cursor, event) {
                let before = self.cursor.snapshot_before(event);
                let waits_at = self.cursor.needs_questions(event).then_some(event.seq);
                let ctx = self.ctx.clone();
                self.fetching = Some(Box::pin(read_needed(ctx, self.agentable, before, waits_at)));
                return true;
            }
            let needed = self.needed.take().unwrap_or_default();
            let (frames, dialect) = (&mut self.frames, &mut self.dialect);
            dialect.committed(event);
            self.cursor.durable(event, &needed, &mut |at, event| dialect.push(at, event, frames));
        }
        self.page.pop_front();
        if self.page.is_empty() {
            self.caught_up();
        }
        true
    }

    /// The page is sent: reads the next one, or continues with live items.
    fn caught_up(&mut self) {
        self.page = VecDeque::new();
        self.registration.watch.reached(self.cursor.seq());
        if self.has_more || self.missed {
            (self.has_more, self.missed) = (false, false);
            self.read();
        } else if self.wants_transcript {
            self.request_transcript();
        }
    }

    fn request_transcript(&mut self) {
        self.wants_transcript = self.cursor.is_writing();
        if self.wants_transcript {
            let agentable = self.agentable;
            self.ctx.state.bus.publish_control(LiveItem { agentable, live: Live::TranscriptWanted });
        }
    }

    fn handle_live(&mut self, item: &LiveItem) {
        let (frames, dialect) = (&mut self.frames, &mut self.dialect);
        match &item.live {
            Live::Delta(delta) => {
                let mut sent = false;
                let outcome = self.cursor.delta(delta, &mut |at, event| {
                    sent = true;
                    dialect.push(at, event, frames);
                });
                match outcome {
                    DeltaOutcome::Handled => self.wants_transcript &= !sent,
                    DeltaOutcome::Gap => self.request_transcript(),
                    DeltaOutcome::Behind => self.read(),
                }
            }
            Live::Progress(progress) => {
                self.cursor.progress(progress, &mut |at, event| dialect.push(at, event, frames))
            }
            Live::Committed(events) => {
                for event in events {
                    let next = self.cursor.seq() + 1;
                    if event.seq < next {
                        continue;
                    }
                    if event.seq > next || needs_more(&self.cursor, event) {
                        self.read();
                        break;
                    }
                    dialect.committed(event);
                    self.cursor.durable(event, &Needed::default(), &mut |at, event| {
                        dialect.push(at, event, frames);
                    });
                }
                self.registration.watch.reached(self.cursor.seq());
            }
            Live::Nudge => self.read(),
            Live::TranscriptWanted | Live::CancelRequested(_) => {}
        }
    }

    /// What follows the last event, once.
    fn take_end(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.ended, true) {
            self.dialect.end(&mut self.frames);
        }
        self.frames.take().map(Bytes::from)
    }

    fn is_finished(&self) -> bool {
        self.dialect.is_done() || !self.follow && self.cursor.is_over() && self.fetching.is_none()
    }
}

impl<D: Dialect> Body for EventStream<D> {
    type Data = Bytes;
    type Error = Abort;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Abort>>> {
        if self.draining.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(self.permit.dropped(Abort::Draining))));
        }
        if self.revoked.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(self.permit.dropped(Abort::Revoked))));
        }
        if self.registration.watch.is_gone() {
            return Poll::Ready(Some(Err(self.permit.dropped(Abort::Gone))));
        }
        while self.frames.len() < MAX_WRITE_BYTES && !self.dialect.is_done() {
            match self.advance(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(abort)) => {
                    tracing::warn!(error = %abort, agentable = %self.agentable, "stream aborted");
                    return Poll::Ready(Some(Err(self.permit.dropped(abort))));
                }
                Poll::Pending => break,
            }
        }
        if let Some(bytes) = self.frames.take() {
            self.heartbeat.sent();
            return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
        }
        if self.is_finished() {
            return Poll::Ready(self.take_end().map(|bytes| Ok(Frame::data(bytes))));
        }
        ready!(self.heartbeat.poll(cx));
        let this = &mut *self;
        let alive = this.dialect.idle(&mut this.frames);
        let bytes = this.frames.take().map_or(Bytes::from_static(alive), Bytes::from);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

async fn page(events: Vec<Committed>) -> Result<Fetched, Error> {
    houston_faults::fault!("C13").map_err(houston_store::Error::from)?;
    let has_more = i64::try_from(events.len()).is_ok_and(|count| count >= PAGE);
    Ok(Fetched::Events { events, has_more })
}

/// Whether Postgres must be read before `event`, the next one, can be sent.
fn needs_more(cursor: &Cursor, event: &Committed) -> bool {
    cursor.snapshot_before(event).is_some() || cursor.needs_questions(event)
}

async fn read_needed(
    ctx: Ctx,
    agentable: AgentableId,
    snapshot_before: Option<i64>,
    waits_at: Option<i64>,
) -> Result<Fetched, Error> {
    let mut needed = Needed::default();
    if let Some(before) = snapshot_before {
        let read = read_with_retries(&ctx, |store| {
            store.thread_events_before(agentable, before, snapshot::MAX_MESSAGES)
        });
        needed.snapshot = snapshot::of(read.await?);
    }
    if let Some(seq) = waits_at {
        let read = read_with_retries(&ctx, |store| store.questions_at_wait(agentable, seq));
        needed.questions = read.await?;
    }
    Ok(Fetched::Needed(needed))
}

/// Repeats `read` until Postgres answers: an accepted stream does not fail because Postgres is unavailable.
pub(crate) async fn read_with_retries<'a, T, F>(
    ctx: &'a Ctx,
    read: impl Fn(TenantStore<'a>) -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        let outcome = {
            // The semaphore is never closed.
            let _permit = ctx.streams.reads.acquire().await.ok();
            timeout(ctx.state.config.request_timeout(), read(ctx.store())).await
        };
        match outcome {
            Err(elapsed) => tracing::debug!(%elapsed, "stream waits for postgres"),
            Ok(Err(error)) if error.is_transient() => {
                tracing::debug!(%error, "stream waits for postgres");
                tokio::time::sleep(READ_RETRY_PAUSE).await;
            }
            Ok(outcome) => return outcome,
        }
    }
}

/// The translation of one stream.
///
/// A dialect may keep state, but a client that resumes gets a new one: what a frame says must follow from `event`, the
/// position, and what the dialect was made with.
pub(crate) trait Dialect: Send + Unpin + 'static {
    /// Appends the frames of `event`; there may be none. A client that has them resumes at `at`.
    ///
    /// The last event of a stream that ends is [`Event::RunFinished`] or [`Event::RunError`].
    fn push(&mut self, at: Position, event: &Event<'_>, frames: &mut SseEncoder);

    /// Called with each durable event before its frames: for a protocol that repeats whole texts at their end, of which a
    /// client that resumes has been sent the beginning.
    fn committed(&mut self, _event: &Committed) {}

    /// Called after a time without frames. Returns what keeps the connection open.
    fn idle(&mut self, _frames: &mut SseEncoder) -> &'static [u8] {
        HEARTBEAT
    }

    /// Whether the stream ends here, although its run goes on.
    fn is_done(&self) -> bool {
        false
    }

    /// Appends what follows the last event of a stream that ends. Default: nothing.
    fn end(&mut self, _frames: &mut SseEncoder) {}
}

/// AG-UI as it is: the events with their positions as ids.
///
/// Calls of the client's own tools are no interrupts there: a client carries out the calls that have no result when a run has ended
/// with success, and sends the results as messages with the next one. It would refuse to send them while they are interrupts.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgUi {
    /// Calls whose results came with the request for the stream: its client has them, under ids of its own.
    pub(crate) given: Box<[MessageId]>,
}

impl Dialect for AgUi {
    fn push(&mut self, at: Position, event: &Event<'_>, frames: &mut SseEncoder) {
        if let Event::ToolCallResult { tool_call_id: EntityId::Message(cell), .. } = event
            && self.given.contains(cell)
        {
            return;
        }
        let calls_client = |outcome: &Outcome<'_>| match outcome {
            Outcome::Interrupt { interrupts } => interrupts.iter().any(Interrupt::is_client_call),
            Outcome::Success | Outcome::Cancelled => false,
        };
        let mut event = Cow::Borrowed(event);
        if matches!(&*event, Event::RunFinished { outcome, .. } if calls_client(outcome))
            && let Event::RunFinished { outcome, .. } = event.to_mut()
        {
            outcome.leave_out_client_calls();
        }
        frames.push(at, &*event);
    }
}

/// Yields a heartbeat after each period in which nothing was sent.
pub(crate) struct Heartbeat {
    period: Duration,
    sent_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Heartbeat {
    pub(crate) fn new(period: Duration) -> Self {
        Self { period, sent_at: Instant::now(), timer: Box::pin(tokio::time::sleep(period)) }
    }

    /// Something was sent.
    pub(crate) fn sent(&mut self) {
        self.sent_at = Instant::now();
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            // The timer is not reset at every frame: that would cost more than the frame.
            let (now, due) = (Instant::now(), self.sent_at + self.period);
            if now >= due {
                self.sent_at = now;
                self.timer.as_mut().reset(now + self.period);
                return Poll::Ready(Bytes::from_static(HEARTBEAT));
            }
            self.timer.as_mut().reset(due);
        }
    }
}
