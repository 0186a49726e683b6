//! Who listens to what in this process, and what Redis must therefore be asked for.

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

/// How long a channel without listeners stays subscribed, so that a client that reconnects misses nothing.
const LINGER: Duration = Duration::from_secs(2);

/// One channel of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Channel {
    /// The channel of all processes: requests about runs.
    Control,
    /// What happens to one agentable.
    Live(AgentableId),
}

impl Channel {
    pub(super) fn agentable(self) -> Option<AgentableId> {
        match self {
            Self::Control => None,
            Self::Live(agentable) => Some(agentable),
        }
    }

    /// Its name in Redis.
    pub(super) fn name(self, redis: &Redis) -> String {
        match self {
            Self::Control => redis.key("control"),
            Self::Live(agentable) => redis.key(&format!("live:{}", agentable.0.simple())),
        }
    }
}

/// The channels this process listens to.
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
    /// Channels that lost their last one, and when they may go.
    leaving: VecDeque<(Instant, Channel)>,
}

#[derive(Debug, Default)]
struct Topic {
    /// Shared, so that an item can be delivered after the lock is released.
    inboxes: Arc<Vec<Arc<Inbox>>>,
    /// Whether Redis has confirmed the subscription.
    reached: bool,
    /// When the last listener left.
    idle_since: Option<Instant>,
}

/// What Redis must be asked for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub(super) subscribe: Vec<Channel>,
    pub(super) unsubscribe: Vec<Channel>,
    /// When the next channel may go.
    pub(super) next: Option<Instant>,
}

impl Topics {
    pub(super) fn new() -> Self {
        Self { linked: AtomicBool::new(false), state: Mutex::default(), changed: Notify::new() }
    }

    pub(super) fn is_linked(&self) -> bool {
        self.linked.load(Relaxed)
    }

    /// How many subscriptions there are.
    pub(super) fn listeners(&self) -> usize {
        self.lock().listeners
    }

    pub(super) fn join(&self, channel: Channel, inbox: &Arc<Inbox>) {
        let mut state = self.lock();
        state.listeners += 1;
        let topic = state.topics.entry(channel).or_default();
        let first = topic.inboxes.is_empty() && topic.idle_since.take().is_none();
        Arc::make_mut(&mut topic.inboxes).push(Arc::clone(inbox));
        if topic.reached {
            // Asked for long ago: nothing can have been missed.
            inbox.reached(None);
        }
        if first && self.is_linked() {
            state.new.push(channel);
            drop(state);
            self.changed.notify_one();
        }
    }

    pub(super) fn leave(&self, channel: Channel, inbox: &Arc<Inbox>) {
        let mut state = self.lock();
        // Once per listener, when it is dropped.
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
        let sleeping = state.leaving.is_empty();
        state.leaving.push_back((now + LINGER, channel));
        drop(state);
        if sleeping {
            self.changed.notify_one();
        }
    }

    /// Gives `item` to everybody who listens; says how many of them were too slow.
    pub(super) fn deliver(&self, channel: Channel, item: &Arc<LiveItem>, weight: usize) -> usize {
        let inboxes = self.lock().topics.get(&channel).map(|topic| Arc::clone(&topic.inboxes));
        inboxes.map_or(0, |inboxes| inboxes.iter().filter(|inbox| !inbox.push(item, weight)).count())
    }

    /// Whether anybody listens.
    pub(super) fn wants(&self, channel: Channel) -> bool {
        self.lock().topics.get(&channel).is_some_and(|topic| !topic.inboxes.is_empty())
    }

    /// A new connection, on which nothing is subscribed yet: subscribes to every channel again.
    pub(super) fn link_up(&self) {
        let mut state = self.lock();
        state.new = state.topics.keys().copied().collect();
        self.linked.store(true, Relaxed);
    }

    /// The connection has gone.
    pub(super) fn link_down(&self) {
        let mut state = self.lock();
        self.linked.store(false, Relaxed);
        state.new.clear();
        state.leaving.clear();
        state.topics.retain(|_, topic| !topic.inboxes.is_empty());
        for topic in state.topics.values_mut() {
            topic.reached = false;
            topic.inboxes.iter().for_each(|inbox| inbox.cut_off());
        }
    }

    /// Redis has confirmed these subscriptions: their listeners may have missed items until now.
    pub(super) fn reached(&self, channels: &[Channel]) {
        for channel in channels {
            let inboxes = self.lock().topics.get_mut(channel).map(|topic| {
                topic.reached = true;
                Arc::clone(&topic.inboxes)
            });
            for inbox in inboxes.iter().flat_map(|inboxes| inboxes.iter()) {
                inbox.reached(channel.agentable());
            }
        }
    }

    /// What Redis must be asked for at `now`.
    pub(super) fn changes(&self, now: Instant) -> Changes {
        let mut state = self.lock();
        let mut changes = Changes { subscribe: std::mem::take(&mut state.new), ..Changes::default() };
        while let Some((due, channel)) = state.leaving.front().copied() {
            if due > now {
                changes.next = Some(due);
                break;
            }
            state.leaving.pop_front();
            // A listener may have come back and left again later.
            let gone = state.topics.get(&channel).and_then(|topic| topic.idle_since);
            if gone.is_some_and(|since| since + LINGER <= now) {
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
