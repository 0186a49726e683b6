//! The subscriptions of this process by channel, and the SUBSCRIBEs and UNSUBSCRIBEs that follow from them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use houston_domain::event::LiveItem;
use houston_domain::id::AgentableId;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::subscription::Inbox;
use crate::connection::Redis;

/// How long a channel without listeners stays subscribed, so that a reconnecting client misses nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

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
#[derive(Debug)]
pub(super) struct Topics {
    /// Whether the pub/sub connection is up; written under the lock.
    linked: AtomicBool,
    state: Mutex<State>,
    /// Notified when channels must be subscribed or unsubscribed.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
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
    pub(super) fn new() -> Self {
        Self { linked: AtomicBool::new(false), state: Mutex::default(), changed: Notify::new() }
    }

    pub(super) fn is_linked(&self) -> bool {
        self.linked.load(Relaxed)
    }

    /// Number of subscriptions.
    pub(super) fn listeners(&self) -> usize {
        self.lock().listeners
    }

    pub(super) fn join(&self, channel: Channel, inbox: &Arc<Inbox>) {
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

    pub(super) fn leave(&self, channel: Channel, inbox: &Arc<Inbox>) {
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

    /// Delivers `item` to all listeners of `channel`. Returns how many of them were too slow.
    pub(super) fn deliver(&self, channel: Channel, item: &Arc<LiveItem>, weight: usize) -> usize {
        let inboxes = self.lock().topics.get(&channel).map(|topic| Arc::clone(&topic.inboxes));
        inboxes.map_or(0, |inboxes| inboxes.iter().filter(|inbox| !inbox.push(item, weight)).count())
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
