//! The delta bus: live items from the worker that drives a run to the processes that stream it.

mod begun;
mod link;
mod payload;
mod publisher;
mod subscription;

use std::sync::{Arc, OnceLock};

use houston_domain::event::{Committed, Live, LiveItem};
use houston_domain::id::AgentableId;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

pub use self::begun::BegunRun;
pub use self::subscription::{Received, Subscription};

use self::link::PubSubLink;
use self::publisher::{Outbox, Publisher};
use self::subscription::{Channel, Topics};
use crate::connection::Redis;
use crate::health::{ConnectionMonitor, RedisHealth};

/// Publishes live items to subscriptions; cheap to clone. Subscriptions of this process get an item at once and in the
/// publisher's order, with or without Redis; those of other processes get it through Redis pub/sub, unless it is lost.
#[derive(Debug, Clone)]
pub struct DeltaBus {
    topics: Arc<Topics>,
    /// Those who hear all events that this process commits. Nothing, until the first of them asks.
    committed: Arc<OnceLock<Arc<Topics>>>,
    outbox: Option<Arc<Outbox>>,
    /// Health of the pub/sub connection, on which items of other processes arrive.
    pub health: RedisHealth,
}

impl DeltaBus {
    /// Starts the two tasks that talk to Redis. `process` is a new id at each start, by which this process ignores its
    /// own items. Items published before `stop` are still sent, in one attempt.
    pub fn start(
        redis: Option<Redis>,
        process: Uuid,
        tracker: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let mut bus = Self::within_process();
        let Some(redis) = redis else { return bus };
        let outbox = Arc::<Outbox>::default();
        let monitor = ConnectionMonitor::new("deltas in", redis.clone());
        bus.health = monitor.health();
        let link = PubSubLink {
            redis: redis.clone(),
            process,
            topics: Arc::clone(&bus.topics),
            monitor,
            stop: stop.clone(),
        };
        tracker.spawn(link.run());
        let monitor = ConnectionMonitor::new("deltas out", redis.clone());
        tracker.spawn(Publisher { redis, process, outbox: Arc::clone(&outbox), monitor, stop }.run());
        bus.outbox = Some(outbox);
        bus
    }

    /// A bus without Redis, for a single process.
    pub fn within_process() -> Self {
        Self {
            topics: Arc::default(),
            committed: Arc::default(),
            outbox: None,
            health: RedisHealth::absent(),
        }
    }

    /// Publishes an item to the streams of `agentable`. Never waits and never fails.
    pub fn publish(&self, agentable: AgentableId, live: Live) {
        self.send(Channel::Live(agentable), LiveItem { agentable, live });
    }

    /// Publishes a request to all processes, including this one: [`Live::TranscriptWanted`] or
    /// [`Live::CancelRequested`]. The worker that drives the run acts on it. Never waits and never fails.
    pub fn publish_control(&self, item: LiveItem) {
        self.send(Channel::Control, item);
    }

    /// Keeps the events of a run that are published from now on, beginning with its first, for streams that open soon.
    pub fn keep(&self, agentable: AgentableId, of: BegunRun) {
        self.topics.begun.keep(agentable, of);
    }

    /// The run is over, or others may have written events of the agentable: streams that open read Postgres.
    pub fn forget(&self, agentable: AgentableId) {
        self.topics.begun.forget(agentable);
    }

    /// Of a run that has begun in this process, the events after a position, or all of them, as far as the process has published them;
    /// `None`: Postgres must be read. Whoever subscribes first misses none that follow them.
    pub fn begun(&self, agentable: AgentableId, after: Option<i64>) -> Option<(BegunRun, Vec<Committed>)> {
        self.topics.begun.events(agentable, after)
    }

    /// Subscribes to the items of `agentable`.
    pub fn subscribe(&self, agentable: AgentableId) -> Subscription {
        Subscription::new(Channel::Live(agentable), Arc::clone(&self.topics))
    }

    /// Subscribes to requests about runs. The listener ignores those about runs it does not drive.
    pub fn subscribe_control(&self) -> Subscription {
        Subscription::new(Channel::Control, Arc::clone(&self.topics))
    }

    /// Subscribes to the [`Live::Committed`] items that this process publishes, of whichever agentable.
    pub fn subscribe_committed(&self) -> Subscription {
        let topics = self.committed.get_or_init(Arc::default);
        Subscription::new(Channel::Control, Arc::clone(topics))
    }

    /// The number of subscriptions now.
    pub fn listeners(&self) -> usize {
        self.topics.listeners()
    }

    fn send(&self, channel: Channel, item: LiveItem) {
        let weight = payload::weight(&item.live);
        let item = Arc::new(item);
        self.topics.deliver(channel, &item, weight);
        if let (Live::Committed(_), Some(listeners)) = (&item.live, self.committed.get()) {
            listeners.deliver(Channel::Control, &item, weight);
        }
        if let Some(outbox) = &self.outbox {
            outbox.push(channel, item, weight);
        }
    }
}
