//! The delta bus: live items from the worker that drives a run to the processes that stream it.

mod link;
mod merge;
mod payload;
mod publisher;
mod subscription;
mod topics;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use houston_domain::event::{Live, LiveItem};
use houston_domain::id::AgentableId;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

pub use self::subscription::{Received, Subscription};

use self::link::{Arrivals, Link};
use self::publisher::{Outbox, Publisher};
use self::topics::{Channel, Topics};
use crate::connection::Redis;
use crate::health::{Line, RedisHealth};

/// Carries live items; cheap to clone. Listeners of this process get an item at once and in the publisher's order,
/// Redis or not; those of other processes through pub/sub, if Redis pleases.
#[derive(Clone)]
pub struct DeltaBus {
    topics: Arc<Topics>,
    arrivals: Arc<Arrivals>,
    outbox: Option<Arc<Outbox>>,
    health: RedisHealth,
}

/// What became of the items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BusCounts {
    /// Subscriptions now.
    pub listeners: usize,
    /// Items sent to Redis, merged deltas as one.
    pub sent: u64,
    /// Items that were not: too many at once, or Redis was away.
    pub dropped: u64,
    /// Items of other processes that arrived.
    pub received: u64,
    /// Payloads this build could not read.
    pub unreadable: u64,
    /// Subscriptions given up since their listener was too slow.
    pub lagged: u64,
}

impl DeltaBus {
    /// Starts the two tasks that talk to Redis. `process` distinguishes this process's own items from those of others:
    /// a fresh id at each start. What was published before `stop` is still sent, in one try.
    #[must_use]
    pub fn start(
        redis: Option<Redis>,
        process: Uuid,
        tracker: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let Some(redis) = redis else { return Self::within_process() };
        let (topics, arrivals) = (Arc::new(Topics::new()), Arc::new(Arrivals::default()));
        let outbox = Arc::new(Outbox::default());
        let line = Line::new("deltas in", redis.clone());
        let health = line.health();
        let link = Link {
            redis: redis.clone(),
            process,
            topics: Arc::clone(&topics),
            arrivals: Arc::clone(&arrivals),
            line,
            stop: stop.clone(),
        };
        tracker.spawn(link.run());
        let line = Line::new("deltas out", redis.clone());
        tracker.spawn(Publisher { redis, process, outbox: Arc::clone(&outbox), line, stop }.run());
        Self { topics, arrivals, outbox: Some(outbox), health }
    }

    /// A bus without Redis, for one process alone.
    #[must_use]
    pub fn within_process() -> Self {
        Self {
            topics: Arc::new(Topics::new()),
            arrivals: Arc::default(),
            outbox: None,
            health: RedisHealth::absent(),
        }
    }

    /// Sends an item to the streams of `agentable`. Never waits and never fails.
    pub fn publish(&self, agentable: AgentableId, live: Live) {
        self.send(Channel::Live(agentable), LiveItem { agentable, live });
    }

    /// Sends to every process, this one included: [`Live::TranscriptWanted`] or [`Live::CancelRequested`]. Never
    /// waits and never fails; the worker that drives the run acts on it.
    pub fn publish_control(&self, item: LiveItem) {
        self.send(Channel::Control, item);
    }

    /// Listens to `agentable` from now on.
    #[must_use]
    pub fn subscribe(&self, agentable: AgentableId) -> Subscription {
        Subscription::new(Channel::Live(agentable), Arc::clone(&self.topics))
    }

    /// Listens to what concerns the runs this process drives; the listener picks out its own.
    #[must_use]
    pub fn subscribe_control(&self) -> Subscription {
        Subscription::new(Channel::Control, Arc::clone(&self.topics))
    }

    /// Whether items of other processes arrive.
    #[must_use]
    pub fn health(&self) -> &RedisHealth {
        &self.health
    }

    /// What became of the items so far.
    #[must_use]
    pub fn counts(&self) -> BusCounts {
        let outgoing = |count: fn(&Outbox) -> u64| self.outbox.as_deref().map_or(0, count);
        BusCounts {
            listeners: self.topics.listeners(),
            sent: outgoing(|outbox| outbox.sent.load(Relaxed)),
            dropped: outgoing(|outbox| outbox.dropped.load(Relaxed)),
            received: self.arrivals.received.load(Relaxed),
            unreadable: self.arrivals.unreadable.load(Relaxed),
            lagged: self.arrivals.lagged.load(Relaxed),
        }
    }

    fn send(&self, channel: Channel, item: LiveItem) {
        let weight = payload::weight(&item.live);
        let item = Arc::new(item);
        let lagged = self.topics.deliver(channel, &item, weight);
        if lagged > 0 {
            self.arrivals.lagged.fetch_add(lagged as u64, Relaxed);
        }
        if let Some(outbox) = &self.outbox {
            outbox.push(channel, item, weight);
        }
    }
}

impl std::fmt::Debug for DeltaBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeltaBus").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
