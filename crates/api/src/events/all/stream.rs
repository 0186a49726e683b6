//! The body of a stream of all events: reads from the position of the client to the present end, and then what the poll finds.
//!
//! It never ends by itself: when it must end, the connection is aborted, and the client resumes.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use houston_domain::cell::CellName;
use houston_domain::event::topic::EventFilter;
use houston_domain::id::shard;
use houston_protocol::cloud_event::CloudEvent;
use houston_protocol::sse::SseEncoder;
use houston_protocol::time::Time;
use houston_store::Error;
use houston_store::event::EventPosition;
use http_body::{Body, Frame};
use tokio::time::Instant;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{Place, Positions};
use crate::caller::Caller;
use crate::events::stream::{Heartbeat, PAGE, read_with_retries};
use crate::state::streams::feeds::{Feed, FeedPage, Listener};
use crate::state::streams::{Abort, StreamPermit};
use crate::state::{App, Ctx};

/// How long the position of a client may lag behind while others are busy: then it gets one without an event, so that it
/// need not read over what is not for it when it resumes.
const POSITION_EVERY: Duration = Duration::from_secs(60);
/// Approximate number of bytes per write.
const MAX_WRITE_BYTES: usize = 16 * 1024;
/// The topic of an event that only has a position.
const POSITION: &str = "stream.position";

pub(super) type Reading = Pin<Box<dyn Future<Output = Result<(FeedPage, bool), Error>> + Send>>;

/// The events of one cell.
pub(super) struct Source {
    /// The name of the cell, if there are several.
    pub(super) name: Option<CellName>,
    pub(super) app: Arc<App>,
    pub(super) position: EventPosition,
    pub(super) listener: Listener,
    /// Whether it reads from the position of the client by itself.
    pub(super) catches_up: bool,
    pub(super) reading: Option<Reading>,
}

impl Source {
    /// The position, and of which cell, if there are several.
    pub(super) fn place(&self) -> Place {
        (self.name.clone(), self.position.clone())
    }

    /// The next page of events.
    fn poll(&mut self, caller: Caller, cx: &mut Context<'_>) -> Poll<Result<Arc<FeedPage>, Abort>> {
        if !self.catches_up {
            match std::task::ready!(self.listener.pages.poll_recv(cx)) {
                Some(Feed::Page(page)) => return Poll::Ready(Ok(page)),
                Some(Feed::ReadOn) => self.catches_up = true,
                None => return Poll::Ready(Err(Abort::TooSlow)),
            }
        }
        let (ctx, position) = (Ctx { app: Arc::clone(&self.app), caller }, self.position.clone());
        let reading = self.reading.get_or_insert_with(|| Box::pin(read(ctx, position)));
        let read = std::task::ready!(reading.as_mut().poll(cx));
        self.reading = None;
        let (page, has_more) = read?;
        self.catches_up = has_more;
        Poll::Ready(Ok(Arc::new(page)))
    }
}

async fn read(ctx: Ctx, position: EventPosition) -> Result<(FeedPage, bool), Error> {
    let page = read_with_retries(&ctx, |store| store.events_of_all(&position, PAGE)).await?;
    Ok((FeedPage::of(&page), page.has_more))
}

/// The stream of one client.
pub(super) struct AllEvents {
    sources: Vec<Source>,
    filter: EventFilter,
    permit: StreamPermit,
    /// Events of the page in progress that are wanted, and where the page ends: in which source, and at which position.
    page: VecDeque<CloudEvent>,
    ends: Option<(usize, EventPosition)>,
    /// Where the stream says that it is.
    path: String,
    frames: SseEncoder,
    heartbeat: Heartbeat,
    position_at: Instant,
    /// When the sources last went to the position of the poll.
    followed_at: Instant,
    /// The position that the client has.
    sent: Option<String>,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl AllEvents {
    pub(super) fn new(
        app: &App,
        sources: Vec<Source>,
        filter: EventFilter,
        permit: StreamPermit,
        path: String,
    ) -> Self {
        let config = &app.state.config;
        Self {
            sources,
            filter,
            page: VecDeque::new(),
            ends: None,
            path,
            frames: SseEncoder::new(config.retry_ms),
            heartbeat: Heartbeat::new(config.heartbeat()),
            position_at: Instant::now(),
            followed_at: Instant::now(),
            sent: None,
            draining: Box::pin(app.state.draining.clone().cancelled_owned()),
            revoked: Box::pin(permit.key.ended(permit.caller.expires())),
            permit,
        }
    }

    fn positions(&self) -> String {
        Positions(self.sources.iter().map(Source::place).collect()).to_string()
    }

    /// Whether the user of the stream is in another cell now.
    fn is_moved(&self) -> bool {
        let (Some(user), Some(source)) = (self.filter.user, self.sources.first()) else { return false };
        !Arc::ptr_eq(&source.app.with_shard(shard(user)), &source.app)
    }

    /// Sends the position alone, if the client has another one.
    fn send_position(&mut self) {
        self.position_at = Instant::now();
        let position = self.positions();
        if self.sent.as_ref() == Some(&position) {
            return;
        }
        let time = self.sources.first().map_or_else(Default::default, |source| source.app.now());
        let event = CloudEvent::plain(position.clone(), self.path.clone(), POSITION, Time(time));
        self.frames.push(&position, &event);
        self.sent = Some(position);
    }

    /// Makes one step; pending when there is nothing to do.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Abort>> {
        if self.sent.is_none() {
            self.send_position();
            return Poll::Ready(Ok(()));
        }
        if let Some(event) = self.page.pop_front() {
            // Only the last event of a page has the position behind it: with those before it, the page is read again.
            if self.page.is_empty() {
                self.end_page();
            }
            let position = self.positions();
            self.frames.push(&position, &event);
            self.sent = Some(position);
            self.position_at = Instant::now();
            return Poll::Ready(Ok(()));
        }
        for nth in 0..self.sources.len() {
            let Poll::Ready(page) = self.sources[nth].poll(self.permit.caller, cx) else { continue };
            let page = page?;
            let wanted =
                page.events.iter().filter(|event| self.filter.matches(&event.event.topic, &event.owner));
            self.page = wanted.map(|event| event.event.clone()).collect();
            self.ends = Some((nth, page.next.clone()));
            if self.page.is_empty() {
                self.end_page();
            }
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    fn end_page(&mut self) {
        if let Some((nth, position)) = self.ends.take() {
            self.sources[nth].position = position;
        }
    }

    /// Goes to the present position of the poll now and then, also in cells that have nothing for the client while another one is
    /// busy: otherwise it would resume there from long ago, and be refused.
    fn follow_poll(&mut self) {
        if self.followed_at.elapsed() < POSITION_EVERY || self.ends.is_some() {
            return;
        }
        self.followed_at = Instant::now();
        for source in self.sources.iter_mut().filter(|source| !source.catches_up) {
            if let Some(position) = source.listener.position() {
                source.position = position;
            }
        }
    }
}

impl Body for AllEvents {
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
        while self.frames.len() < MAX_WRITE_BYTES {
            match self.advance(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(abort)) => {
                    tracing::warn!(error = %abort, path = self.path, "stream aborted");
                    return Poll::Ready(Some(Err(self.permit.dropped(abort))));
                }
                Poll::Pending => {
                    self.follow_poll();
                    break;
                }
            }
        }
        if let Some(bytes) = self.frames.take() {
            self.heartbeat.sent();
            return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
        }
        let Poll::Ready(heartbeat) = self.heartbeat.poll(cx) else { return Poll::Pending };
        if self.is_moved() {
            return Poll::Ready(Some(Err(self.permit.dropped(Abort::Moved))));
        }
        if self.position_at.elapsed() >= POSITION_EVERY && self.ends.is_none() {
            self.send_position();
        }
        let bytes = self.frames.take().map_or(heartbeat, Bytes::from);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}
