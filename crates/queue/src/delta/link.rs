//! The pub/sub connection of the process, subscribed to the channels that have listeners.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use houston_domain::event::{Live, LiveItem};
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Client, Msg};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::payload::{self, Head};
use super::subscription::{Channel, Topics};
use crate::connection::{RESPONSE_TIMEOUT, Redis};
use crate::error::{Failure, within};
use crate::health::ConnectionMonitor;

/// Maximum number of channels per SUBSCRIBE.
const SUBSCRIBE_CHUNK: usize = 256;
/// Pause after a full SUBSCRIBE, so that after a reconnect not all streams read Postgres at once.
const SUBSCRIBE_PAUSE: Duration = Duration::from_millis(20);
/// Interval at which a silent connection is checked.
const PING_INTERVAL: Duration = Duration::from_secs(3);
/// Interval at which sentinels, or the nodes of a cluster, are asked whether the server is still the right one.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The task that holds the connection.
pub(super) struct PubSubLink {
    pub(super) redis: Redis,
    pub(super) process: Uuid,
    pub(super) topics: Arc<Topics>,
    pub(super) monitor: ConnectionMonitor,
    pub(super) stop: CancellationToken,
}

impl PubSubLink {
    /// Listens until `stop`, and reconnects after every failure.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        while let Some(failure) = stop.run_until_cancelled(self.run_connection()).await {
            self.topics.link_down();
            self.monitor.rest(&failure, &stop).await;
        }
    }

    /// Opens one connection and runs it until it fails. Returns the failure.
    async fn run_connection(&mut self) -> Failure {
        let (client, (mut sink, stream)) = match self.redis.connect_pubsub().await {
            Ok((client, connection)) => (client, connection.split()),
            Err(failure) => return failure,
        };
        if let Err(failure) = within(RESPONSE_TIMEOUT, sink.ping::<redis::Value>()).await {
            return failure;
        }
        self.monitor.succeeded();
        self.topics.link_up();
        tokio::select! {
            failure = self.listen(stream) => failure,
            failure = self.maintain_subscriptions(sink) => failure,
            failure = self.check(&client) => failure,
        }
    }

    /// Returns when another server takes the writes. A former master pushes no more, and the connection need not break: it
    /// may have been cut off, or demoted without a word to its clients.
    async fn check(&self, client: &Client) -> Failure {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            if let Err(failure) = self.redis.check(client).await {
                return failure;
            }
        }
    }

    async fn listen(&self, mut stream: PubSubStream) -> Failure {
        let control = Channel::Control.name(&self.redis);
        while let Some(message) = stream.next().await {
            self.receive(&control, &message);
        }
        Failure::Closed
    }

    fn receive(&self, control: &str, message: &Msg) {
        let Some(head) = Head::read(message.get_payload_bytes()) else { return };
        let agentable = head.agentable;
        let is_control = message.get_channel_name() == control;
        let channel = if is_control { Channel::Control } else { Channel::Live(agentable) };
        // Items of this process were delivered locally when they were published.
        if head.process == self.process {
            return;
        }
        // A channel may have lost its listeners. One that comes after this reads Postgres.
        if !self.topics.has_listeners(channel) {
            self.topics.begun.forget(agentable);
            if !self.topics.has_listeners(channel) {
                return;
            }
        }
        // A newer release sent an item this build cannot decode: let the stream read Postgres.
        let live = head.live().unwrap_or(Live::Nudge);
        let weight = payload::weight(&live);
        self.topics.deliver(channel, &Arc::new(LiveItem { agentable, live }), weight);
    }

    /// Subscribes and unsubscribes as listeners come and go, and pings a silent connection.
    async fn maintain_subscriptions(&self, mut sink: PubSubSink) -> Failure {
        loop {
            let next = match self.apply_changes(&mut sink).await {
                Ok(next) => next,
                Err(failure) => return failure,
            };
            let due = next.unwrap_or_else(|| Instant::now() + PING_INTERVAL);
            tokio::select! {
                () = self.topics.changed.notified() => continue,
                () = tokio::time::sleep_until(due) => {}
            }
            if next.is_none()
                && let Err(failure) = within(RESPONSE_TIMEOUT, sink.ping::<redis::Value>()).await
            {
                return failure;
            }
        }
    }

    /// Applies the pending changes. Returns when the next change is due.
    async fn apply_changes(&self, sink: &mut PubSubSink) -> Result<Option<Instant>, Failure> {
        let changes = self.topics.changes(Instant::now());
        for chunk in changes.subscribe.chunks(SUBSCRIBE_CHUNK) {
            within(RESPONSE_TIMEOUT, sink.subscribe(self.names(chunk))).await?;
            self.topics.established(chunk);
            if chunk.len() == SUBSCRIBE_CHUNK {
                tokio::time::sleep(SUBSCRIBE_PAUSE).await;
            }
        }
        for chunk in changes.unsubscribe.chunks(SUBSCRIBE_CHUNK) {
            within(RESPONSE_TIMEOUT, sink.unsubscribe(self.names(chunk))).await?;
        }
        Ok(changes.next)
    }

    fn names(&self, channels: &[Channel]) -> Vec<String> {
        channels.iter().map(|channel| channel.name(&self.redis)).collect()
    }
}
