//! The subscriptions of this process, each to one channel and with a small bounded inbox, and the SUBSCRIBEs and UNSUBSCRIBEs that
//! follow from them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use houston_domain::event::{Live, LiveItem};
use houston_domain::id::AgentableId;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::begun::BegunRuns;
use crate::connection::Redis;

/// Maximum number of items in an inbox.
const MAX_ITEMS: usize = 256;
/// Approximate maximum size of an inbox in bytes. An empty inbox accepts an item of any size.
const MAX_BYTES: usize = 1024 * 1024;
/// An inbox whose capacity exceeds this frees its memory when it is empty.
const RETAINED_CAPACITY: usize = 16;
/// Time limit of [`Subscription::ready`].
const READY_TIMEOUT: Duration = Duration::from_millis(250);
/// How long a channel without listeners stays subscribed, so that a reconnecting client misses nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

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
        if let Some(received) = state.next() {
            return Poll::Ready(received);
        }
        state.register_waker(cx);
        Poll::Pending
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
struct Inbox(Mutex<State>);

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
    /// Adds `item` of about `weight` bytes.
    fn push(&self, item: &Arc<LiveItem>, weight: usize) {
        let mut state = self.lock();
        if state.lagged {
            return;
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
    }

    /// Records that Redis confirmed the subscription. Earlier items may be missing, so a subscriber that does not wait
    /// for this gets a nudge, unless `agentable` is `None`.
    fn established(&self, agentable: Option<AgentableId>) {
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
    fn disconnected(&self) {
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

/// One channel of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Channel {
    /// Requests about runs, received by all processes.
    Control,
    /// The live items of one agentable.
    Live(AgentableId),
}

impl Channel {
    pub(super) fn agentable(self) -> Option<AgentableId> {
        match self {
            Self::Control => None,
            Self::Live(agentable) => Some(agentable),
        }
    }

    /// Name of the channel in Redis.
    pub(super) fn name(self, redis: &Redis) -> String {
        match self {
            Self::Control => redis.key("control"),
            Self::Live(agentable) => redis.key(&format!("live:{}", agentable.0.simple())),
        }
    }
}

/// The channels with listeners in this process.
#[derive(Debug, Default)]
pub(super) struct Topics {
    /// Whether the pub/sub connection is up; written under the lock.
    linked: AtomicBool,
    state: Mutex<Channels>,
    pub(super) begun: BegunRuns,
    /// Notified when channels must be subscribed or unsubscribed.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct Channels {
    topics: HashMap<Channel, Topic>,
    listeners: usize,
    /// Channels that got their first listener.
    new: Vec<Channel>,
    /// Channels that lost their last listener, and when they are unsubscribed.
    idle: VecDeque<(Instant, Channel)>,
}

#[derive(Debug, Default)]
struct Topic {
    /// Shared, so that an item can be delivered after the lock is released.
    inboxes: Arc<Vec<Arc<Inbox>>>,
    /// Whether Redis has confirmed the subscription.
    established: bool,
    /// When the last listener left.
    idle_since: Option<Instant>,
}

/// Pending changes of the subscriptions in Redis.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub(super) subscribe: Vec<Channel>,
    pub(super) unsubscribe: Vec<Channel>,
    /// When the next channel is to be unsubscribed.
    pub(super) next: Option<Instant>,
}

impl Topics {
    fn is_linked(&self) -> bool {
        self.linked.load(Relaxed)
    }

    /// Number of subscriptions.
    pub(super) fn listeners(&self) -> usize {
        self.lock().listeners
    }

    fn join(&self, channel: Channel, inbox: &Arc<Inbox>) {
        let mut state = self.lock();
        state.listeners += 1;
        let topic = state.topics.entry(channel).or_default();
        let first = topic.inboxes.is_empty() && topic.idle_since.take().is_none();
        Arc::make_mut(&mut topic.inboxes).push(Arc::clone(inbox));
        if topic.established {
            // The channel is subscribed already: the new listener has missed nothing.
            inbox.established(None);
        }
        if first && self.is_linked() {
            state.new.push(channel);
            drop(state);
            self.changed.notify_one();
        }
    }

    fn leave(&self, channel: Channel, inbox: &Arc<Inbox>) {
        let mut state = self.lock();
        // Called once per listener, when it is dropped.
        state.listeners -= 1;
        let Some(topic) = state.topics.get_mut(&channel) else { return };
        Arc::make_mut(&mut topic.inboxes).retain(|other| !Arc::ptr_eq(other, inbox));
        if !topic.inboxes.is_empty() {
            return;
        }
        if !self.is_linked() {
            state.topics.remove(&channel);
            return;
        }
        let now = Instant::now();
        topic.inboxes = Arc::default();
        topic.idle_since = Some(now);
        let sleeping = state.idle.is_empty();
        state.idle.push_back((now + IDLE_TIMEOUT, channel));
        drop(state);
        if sleeping {
            self.changed.notify_one();
        }
    }

    /// Delivers `item` to all listeners of `channel`.
    pub(super) fn deliver(&self, channel: Channel, item: &Arc<LiveItem>, weight: usize) {
        self.begun.take(item, weight);
        let inboxes = self.lock().topics.get(&channel).map(|topic| Arc::clone(&topic.inboxes));
        for inbox in inboxes.iter().flat_map(|inboxes| inboxes.iter()) {
            inbox.push(item, weight);
        }
    }

    /// Whether `channel` has listeners.
    pub(super) fn has_listeners(&self, channel: Channel) -> bool {
        self.lock().topics.get(&channel).is_some_and(|topic| !topic.inboxes.is_empty())
    }

    /// Records a new connection: all channels must be subscribed again.
    pub(super) fn link_up(&self) {
        let mut state = self.lock();
        state.new = state.topics.keys().copied().collect();
        self.linked.store(true, Relaxed);
    }

    /// Records the loss of the connection.
    pub(super) fn link_down(&self) {
        let mut state = self.lock();
        self.linked.store(false, Relaxed);
        state.new.clear();
        state.idle.clear();
        state.topics.retain(|_, topic| !topic.inboxes.is_empty());
        for topic in state.topics.values_mut() {
            topic.established = false;
            topic.inboxes.iter().for_each(|inbox| inbox.disconnected());
        }
    }

    /// Redis has confirmed these subscriptions: their listeners may have missed items until now.
    pub(super) fn established(&self, channels: &[Channel]) {
        for channel in channels {
            // Those who listen now are told, and those who come later are not.
            if let Some(agentable) = channel.agentable() {
                self.begun.forget(agentable);
            }
            let inboxes = self.lock().topics.get_mut(channel).map(|topic| {
                topic.established = true;
                Arc::clone(&topic.inboxes)
            });
            for inbox in inboxes.iter().flat_map(|inboxes| inboxes.iter()) {
                inbox.established(channel.agentable());
            }
        }
    }

    /// Takes the changes that are due at `now`.
    pub(super) fn changes(&self, now: Instant) -> Changes {
        let mut state = self.lock();
        let mut changes = Changes { subscribe: std::mem::take(&mut state.new), ..Changes::default() };
        while let Some((due, channel)) = state.idle.front().copied() {
            if due > now {
                changes.next = Some(due);
                break;
            }
            state.idle.pop_front();
            // The channel may have got a listener again, and lost it later.
            let gone = state.topics.get(&channel).and_then(|topic| topic.idle_since);
            if gone.is_some_and(|since| since + IDLE_TIMEOUT <= now) {
                state.topics.remove(&channel);
                changes.unsubscribe.push(channel);
            }
        }
        changes
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
