//! A subscription to one channel, with a small bounded inbox.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use houston_domain::event::{Live, LiveItem};
use houston_domain::id::AgentableId;

use super::topics::{Channel, Topics};

/// Maximum number of items in an inbox.
const MAX_ITEMS: usize = 256;
/// Approximate maximum size of an inbox in bytes. An empty inbox accepts an item of any size.
const MAX_BYTES: usize = 1024 * 1024;
/// An inbox whose capacity exceeds this frees its memory when it is empty.
const RETAINED_CAPACITY: usize = 16;
/// Time limit of [`Subscription::ready`].
const READY_TIMEOUT: Duration = Duration::from_millis(250);

/// What a subscription yields.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// The next item, shared with all other listeners.
    Item(Arc<LiveItem>),
    /// The listener was too slow, and no more items follow. Abort the stream; its client resumes.
    Lagged,
}

/// A subscription to one channel, until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    channel: Channel,
    inbox: Arc<Inbox>,
    topics: Arc<Topics>,
}

impl Subscription {
    pub(super) fn new(channel: Channel, topics: Arc<Topics>) -> Self {
        let inbox = Arc::new(Inbox::default());
        topics.join(channel, &inbox);
        Self { channel, inbox, topics }
    }

    /// Waits until Redis has confirmed the subscription, so that items of other processes arrive; at most 250 ms, and
    /// not at all while Redis is unavailable. Returns whether it has.
    ///
    /// A listener that reads Postgres *after* this call misses no event. A listener that does not call it gets a
    /// [`Live::Nudge`] when the subscription is confirmed.
    pub async fn ready(&mut self) -> bool {
        if !self.topics.is_linked() || self.inbox.lock().established {
            return self.inbox.lock().established;
        }
        let waiter = ReadyWaiter::new(&self.inbox);
        let established = std::future::poll_fn(|cx| waiter.inbox.poll_established(cx));
        tokio::time::timeout(READY_TIMEOUT, established).await.is_ok()
    }

    /// Waits for the next item.
    pub async fn recv(&mut self) -> Received {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next item.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        let mut state = self.inbox.lock();
        match state.next() {
            Some(received) => Poll::Ready(received),
            None => {
                state.register_waker(cx);
                Poll::Pending
            }
        }
    }

    /// The next item if one is waiting, e.g. to put several items into one write.
    pub fn try_recv(&mut self) -> Option<Received> {
        self.inbox.lock().next()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.topics.leave(self.channel, &self.inbox);
    }
}

/// The bounded queue of one subscription.
#[derive(Debug, Default)]
pub(super) struct Inbox(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    items: VecDeque<(Arc<LiveItem>, usize)>,
    bytes: usize,
    lagged: bool,
    /// Whether Redis has confirmed the subscription.
    established: bool,
    /// Whether the subscriber waits for the confirmation.
    awaited: bool,
    waker: Option<Waker>,
}

impl Inbox {
    /// Adds `item` of about `weight` bytes; `false` if that made the inbox overflow.
    pub(super) fn push(&self, item: &Arc<LiveItem>, weight: usize) -> bool {
        let mut state = self.lock();
        if state.lagged {
            return true;
        }
        let full = state.items.len() >= MAX_ITEMS
            || (!state.items.is_empty() && state.bytes.saturating_add(weight) > MAX_BYTES);
        if full {
            state.items = VecDeque::new();
            state.bytes = 0;
            state.lagged = true;
        } else {
            state.items.push_back((Arc::clone(item), weight));
            state.bytes += weight;
        }
        wake(state);
        !full
    }

    /// Records that Redis confirmed the subscription. Earlier items may be missing, so a subscriber that does not wait
    /// for this gets a nudge, unless `agentable` is `None`.
    pub(super) fn established(&self, agentable: Option<AgentableId>) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.established, true) {
            return;
        }
        if state.awaited {
            wake(state);
        } else if let Some(agentable) = agentable {
            drop(state);
            let nudge = LiveItem { agentable, live: Live::Nudge };
            let weight = super::payload::weight(&nudge.live);
            self.push(&Arc::new(nudge), weight);
        }
    }

    /// Records that the connection was lost, so that items of other processes do not arrive.
    pub(super) fn disconnected(&self) {
        self.lock().established = false;
    }

    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.established {
            return Poll::Ready(());
        }
        state.register_waker(cx);
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self) -> Option<Received> {
        if self.lagged {
            return Some(Received::Lagged);
        }
        let (item, weight) = self.items.pop_front()?;
        self.bytes -= weight;
        if self.items.is_empty() && self.items.capacity() > RETAINED_CAPACITY {
            self.items = VecDeque::new();
        }
        Some(Received::Item(item))
    }

    fn register_waker(&mut self, cx: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }
}

/// Wakes the subscriber after releasing the lock, which its task may need.
fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Marks the subscriber as waiting for the confirmation until it is dropped.
struct ReadyWaiter<'a> {
    inbox: &'a Inbox,
}

impl<'a> ReadyWaiter<'a> {
    fn new(inbox: &'a Inbox) -> Self {
        inbox.lock().awaited = true;
        Self { inbox }
    }
}

impl Drop for ReadyWaiter<'_> {
    fn drop(&mut self) {
        self.inbox.lock().awaited = false;
    }
}
