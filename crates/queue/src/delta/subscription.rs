//! One listener of one channel, and the small bounded box its items wait in.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use houston_domain::event::{Live, LiveItem};
use houston_domain::id::AgentableId;

use super::topics::{Channel, Topics};

/// How many items may wait.
const MOST_ITEMS: usize = 256;
/// About how many bytes may wait, an item that comes to an empty box excepted.
const MOST_BYTES: usize = 1024 * 1024;
/// A box that had to grow beyond this gives its memory back once it is empty.
const ROOM_KEPT: usize = 16;
/// How long [`Subscription::ready`] waits at most.
const READY_WITHIN: Duration = Duration::from_millis(250);

/// What a subscription yields.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// The next item; shared with every other listener.
    Item(Arc<LiveItem>),
    /// The listener was too slow: nothing comes any more. Abort the stream; its client resumes.
    Lagged,
}

/// Listens to one channel for as long as it lives.
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

    /// Waits until items of other processes arrive here, too; at most 250 ms, and not at all while Redis is away.
    ///
    /// Who looks into Postgres *after* this has missed nothing. Who does not call it gets a [`Live::Nudge`] instead
    /// when that moment comes.
    pub async fn ready(&mut self) {
        if !self.topics.is_linked() || self.inbox.lock().reached {
            return;
        }
        let waits = Waits::new(&self.inbox);
        let reached = std::future::poll_fn(|cx| waits.inbox.poll_reached(cx));
        let _ = tokio::time::timeout(READY_WITHIN, reached).await;
    }

    /// The next item, once there is one.
    pub async fn recv(&mut self) -> Received {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// The next item, for a stream that polls.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        let mut state = self.inbox.lock();
        match state.next() {
            Some(received) => Poll::Ready(received),
            None => {
                state.wake_later(cx);
                Poll::Pending
            }
        }
    }

    /// The next item if one waits: to put several into one write.
    pub fn try_recv(&mut self) -> Option<Received> {
        self.inbox.lock().next()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.topics.leave(self.channel, &self.inbox);
    }
}

/// Where the items of one subscription wait.
#[derive(Debug, Default)]
pub(super) struct Inbox(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    items: VecDeque<(Arc<LiveItem>, usize)>,
    bytes: usize,
    lagged: bool,
    /// Whether items of other processes arrive.
    reached: bool,
    /// Whether a subscriber waits for this.
    awaited: bool,
    waker: Option<Waker>,
}

impl Inbox {
    /// Puts `item` of about `weight` bytes in; `false` when that was the one too many.
    pub(super) fn push(&self, item: &Arc<LiveItem>, weight: usize) -> bool {
        let mut state = self.lock();
        if state.lagged {
            return true;
        }
        let full = state.items.len() >= MOST_ITEMS
            || (!state.items.is_empty() && state.bytes.saturating_add(weight) > MOST_BYTES);
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

    /// Items of other processes arrive from now on; what came before may be missing.
    pub(super) fn reached(&self, agentable: Option<AgentableId>) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.reached, true) {
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

    /// Items of other processes do not arrive any more.
    pub(super) fn cut_off(&self) {
        self.lock().reached = false;
    }

    fn poll_reached(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.reached {
            return Poll::Ready(());
        }
        state.wake_later(cx);
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
        if self.items.is_empty() && self.items.capacity() > ROOM_KEPT {
            self.items = VecDeque::new();
        }
        Some(Received::Item(item))
    }

    fn wake_later(&mut self, cx: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }
}

/// Releases the lock first: the task that wakes may need it.
fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Counts a subscriber that waits for the channel, until it is dropped.
struct Waits<'a> {
    inbox: &'a Inbox,
}

impl<'a> Waits<'a> {
    fn new(inbox: &'a Inbox) -> Self {
        inbox.lock().awaited = true;
        Self { inbox }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.inbox.lock().awaited = false;
    }
}
