//! The open streams of tenants and users, and the poll that reads new events for all of them.

use std::collections::HashMap;
use std::sync::Arc;

use houston_domain::event::topic::EventOwner;
use houston_domain::id::TenantId;
use houston_protocol::cloud_event::CloudEvent;
use houston_store::event::{EventPosition, OwnedEvent, OwnedPage};
use houston_store::{ApiStore, Error};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::state::config::Config;

/// Events of one read of the poll.
const PAGE: i64 = 500;
/// Pages that may wait for a stream; beyond that it is aborted, and its client resumes.
const MAX_WAITING: usize = 64;

/// New events of one tenant.
#[derive(Debug)]
pub(crate) struct FeedPage {
    pub(crate) events: Vec<FeedEvent>,
    /// The position behind them.
    pub(crate) next: EventPosition,
}

/// What a stream receives.
#[derive(Debug, Clone)]
pub(crate) enum Feed {
    /// New events.
    Page(Arc<FeedPage>),
    /// The poll has read on without the tenant of the stream, which must read from its position by itself once.
    ReadOn,
}

/// An event as streams send it, and whose it is.
#[derive(Debug)]
pub(crate) struct FeedEvent {
    pub(crate) owner: EventOwner,
    pub(crate) event: CloudEvent,
}

impl FeedEvent {
    fn of(event: &OwnedEvent) -> Self {
        Self { owner: event.owner.clone(), event: CloudEvent::of(&event.owner, &event.event) }
    }
}

impl FeedPage {
    pub(crate) fn of(page: &OwnedPage) -> Self {
        Self { events: page.events.iter().map(FeedEvent::of).collect(), next: page.next.clone() }
    }
}

/// The open streams of one cell.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    state: Mutex<State>,
    /// A first stream was opened.
    opened: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Where each stream gets its pages. The sender of a stream that has ended is closed, and removed at the next poll.
    listeners: HashMap<TenantId, Vec<mpsc::Sender<Feed>>>,
    /// How far the poll has read; `None`: no stream is open.
    position: Option<EventPosition>,
    /// Whether the last read failed: meanwhile events may have been deleted by age.
    has_failed: bool,
}

impl State {
    /// The poll has read up to `position` for these tenants. The others, whose first stream was opened meanwhile, read by
    /// themselves what it has passed over.
    fn move_to(&mut self, position: EventPosition, tenants: &[TenantId]) {
        let left_out: Vec<TenantId> =
            self.listeners.keys().filter(|tenant| !tenants.contains(tenant)).copied().collect();
        left_out.into_iter().for_each(|tenant| self.send(tenant, &Feed::ReadOn));
        self.position = Some(position);
    }

    /// A stream that is too slow finds its channel closed.
    fn send(&mut self, tenant: TenantId, feed: &Feed) {
        if let Some(listeners) = self.listeners.get_mut(&tenant) {
            listeners.retain(|sender| sender.try_send(feed.clone()).is_ok());
        }
    }
}

/// Receives the new events of a tenant until it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    feeds: Arc<Feeds>,
    /// The pages; closed when the stream was too slow.
    pub(crate) pages: mpsc::Receiver<Feed>,
}

impl Listener {
    /// How far the poll has read, if the stream has received everything up to there.
    pub(crate) fn position(&self) -> Option<EventPosition> {
        let state = self.feeds.state.lock();
        // Closed: it was too slow, and has missed some.
        state.position.clone().filter(|_| self.pages.is_empty() && !self.pages.is_closed())
    }
}

impl Feeds {
    /// Receives the events of `tenant` that become visible from now on, at the latest.
    pub(crate) fn listen(self: &Arc<Self>, tenant: TenantId) -> Listener {
        let (sender, pages) = mpsc::channel(MAX_WAITING);
        let mut state = self.state.lock();
        let listeners = state.listeners.entry(tenant).or_default();
        listeners.retain(|sender| !sender.is_closed());
        listeners.push(sender);
        drop(state);
        self.opened.notify_one();
        Listener { feeds: Arc::clone(self), pages }
    }

    /// Reads new events every `poll_ms` while a stream is open. Never returns.
    pub(crate) async fn poll(&self, store: &ApiStore, config: &Config) {
        loop {
            let has_more = match timeout(config.request_timeout(), self.poll_once(store)).await {
                Ok(Ok(has_more)) => has_more,
                Ok(Err(error)) => self.failed(&error.to_string()),
                Err(elapsed) => self.failed(&elapsed.to_string()),
            };
            match has_more {
                Some(true) => {}
                Some(false) => tokio::time::sleep(config.poll()).await,
                None => self.opened.notified().await,
            }
        }
    }

    fn failed(&self, error: &str) -> Option<bool> {
        tracing::debug!(error, "new events could not be read for streams");
        self.state.lock().has_failed = true;
        Some(false)
    }

    /// Aborts all streams; their clients resume, or are refused.
    fn begin_anew(&self) {
        let mut state = self.state.lock();
        state.listeners.clear();
        (state.position, state.has_failed) = (None, false);
    }

    /// Reads one page. Returns whether there may be more; `None`: no stream is open.
    async fn poll_once(&self, store: &ApiStore) -> Result<Option<bool>, Error> {
        let (tenants, position) = {
            let mut state = self.state.lock();
            state.listeners.retain(|_, listeners| {
                listeners.retain(|sender| !sender.is_closed());
                !listeners.is_empty()
            });
            if state.listeners.is_empty() {
                state.position = None;
                return Ok(None);
            }
            (state.listeners.keys().copied().collect::<Vec<_>>(), state.position.clone())
        };
        let Some(position) = position else {
            let position = store.event_position().await?;
            self.state.lock().move_to(position, &[]);
            return Ok(Some(false));
        };
        match store.events_of_tenants(&position, PAGE, &tenants).await {
            Ok(page) => {
                let has_failed = self.state.lock().has_failed;
                // Asked after the page was read: what is deleted from now on was still on it.
                if has_failed && !store.keeps_events_since(&position).await? {
                    self.begin_anew();
                    return Ok(Some(false));
                }
                self.state.lock().has_failed = false;
                self.publish(&page, &tenants);
                Ok(Some(page.has_more))
            }
            Err(Error::UnknownPosition) => {
                // Postgres was restored.
                self.begin_anew();
                Ok(Some(false))
            }
            Err(error) => Err(error),
        }
    }

    fn publish(&self, page: &OwnedPage, tenants: &[TenantId]) {
        let mut by_tenant: HashMap<TenantId, Vec<FeedEvent>> = HashMap::new();
        for event in &page.events {
            by_tenant.entry(event.tenant).or_default().push(FeedEvent::of(event));
        }
        let mut state = self.state.lock();
        for (tenant, events) in by_tenant {
            let page = Arc::new(FeedPage { events, next: page.next.clone() });
            state.send(tenant, &Feed::Page(page));
        }
        state.move_to(page.next.clone(), tenants);
    }
}
