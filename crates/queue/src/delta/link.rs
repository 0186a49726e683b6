//! The process's one pub/sub connection, subscribed to the channels this process listens to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures_util::StreamExt;
use houston_domain::event::{Live, LiveItem};
use redis::Msg;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::payload::{self, Head};
use super::topics::{Channel, Topics};
use crate::connection::{ANSWER_WITHIN, Redis, within};
use crate::error::Failure;
use crate::health::Line;

/// How many channels one SUBSCRIBE names.
const CHUNK: usize = 256;
/// The pause between two full SUBSCRIBEs, so that a reconnect does not send every stream to Postgres at once.
const PACE: Duration = Duration::from_millis(20);
/// How often a silent connection is checked.
const PING: Duration = Duration::from_secs(3);

/// What came in.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    pub(super) received: AtomicU64,
    pub(super) unreadable: AtomicU64,
    pub(super) lagged: AtomicU64,
}

/// The task that holds the connection.
pub(super) struct Link {
    pub(super) redis: Redis,
    pub(super) process: Uuid,
    pub(super) topics: Arc<Topics>,
    pub(super) arrivals: Arc<Arrivals>,
    pub(super) line: Line,
    pub(super) stop: CancellationToken,
}

impl Link {
    /// Listens until `stop`; whatever happens to Redis, it goes on.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        loop {
            let failure = tokio::select! {
                failure = self.session() => failure,
                () = stop.cancelled() => return,
            };
            self.topics.link_down();
            let pause = self.line.failed(&failure);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// The life of one connection, and what ended it.
    async fn session(&mut self) -> Failure {
        let (mut sink, stream) = match self.redis.connect_pubsub().await {
            Ok(connection) => connection.split(),
            Err(failure) => return failure,
        };
        if let Err(failure) = within(ANSWER_WITHIN, sink.ping::<redis::Value>()).await {
            return failure;
        }
        self.line.works();
        self.topics.link_up();
        tokio::select! {
            failure = self.listen(stream) => failure,
            failure = self.steer(sink) => failure,
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
        let Some(head) = Head::read(message.get_payload_bytes()) else {
            self.arrivals.unreadable.fetch_add(1, Relaxed);
            return;
        };
        let agentable = head.agentable;
        let is_control = message.get_channel_name() == control;
        let channel = if is_control { Channel::Control } else { Channel::Live(agentable) };
        // Our own echo went to everybody here long ago; and a channel stays for a while after its last listener.
        if head.process == self.process || !self.topics.wants(channel) {
            return;
        }
        let live = head.live().unwrap_or_else(|| {
            // A newer release sent an item this build cannot read: the stream reads Postgres.
            self.arrivals.unreadable.fetch_add(1, Relaxed);
            Live::Nudge
        });
        self.arrivals.received.fetch_add(1, Relaxed);
        let weight = payload::weight(&live);
        let lagged = self.topics.deliver(channel, &Arc::new(LiveItem { agentable, live }), weight);
        self.arrivals.lagged.fetch_add(lagged as u64, Relaxed);
    }

    /// Asks Redis for what is wanted, and no more for what is not.
    async fn steer(&self, mut sink: PubSubSink) -> Failure {
        loop {
            match self.settle(&mut sink).await {
                Ok(next) => {
                    let due = next.unwrap_or_else(|| Instant::now() + PING);
                    tokio::select! {
                        () = self.topics.changed.notified() => continue,
                        () = tokio::time::sleep_until(due) => {}
                    }
                    if next.is_some() {
                        continue;
                    }
                }
                Err(failure) => return failure,
            }
            if let Err(failure) = within(ANSWER_WITHIN, sink.ping::<redis::Value>()).await {
                return failure;
            }
        }
    }

    /// One round of changes; when the next is due.
    async fn settle(&self, sink: &mut PubSubSink) -> Result<Option<Instant>, Failure> {
        let changes = self.topics.changes(Instant::now());
        for chunk in changes.subscribe.chunks(CHUNK) {
            within(ANSWER_WITHIN, sink.subscribe(self.names(chunk))).await?;
            self.topics.reached(chunk);
            if chunk.len() == CHUNK {
                tokio::time::sleep(PACE).await;
            }
        }
        for chunk in changes.unsubscribe.chunks(CHUNK) {
            within(ANSWER_WITHIN, sink.unsubscribe(self.names(chunk))).await?;
        }
        Ok(changes.next)
    }

    fn names(&self, channels: &[Channel]) -> Vec<String> {
        channels.iter().map(|channel| channel.name(&self.redis)).collect()
    }
}
