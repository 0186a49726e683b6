//! Listens to `NOTIFY` of Postgres, for messages that other programs post by SQL and for cancel requests. It needs no Redis.
//! Notifications may be lost; the sweep and the reaper find what was missed. [`control`] hears requests over the bus.

use std::sync::Arc;
use std::time::Duration;

use backon::{ConstantBuilder, Retryable as _};
use houston_domain::id::{AgentableId, RunId};
use houston_faults::mutation::{self, Mutation};
use houston_queue::{Hint, Lane, LocalHints, Received, RedisHealth};
use houston_store::listen::Notification;
use tokio_util::sync::CancellationToken;

use crate::jobs::Wakes;
use crate::worker::Worker;

/// Pause before listening again after the connection broke.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// Turns notifications into hints and cancellations.
pub(crate) struct Listener {
    pub(crate) worker: Arc<Worker>,
    pub(crate) local: LocalHints,
    pub(crate) redis: RedisHealth,
    pub(crate) wakes: Wakes,
    pub(crate) stop: CancellationToken,
}

impl Listener {
    /// Listens until stopped.
    pub(crate) async fn run(self) {
        if mutation::is(Mutation::Sweep) {
            return;
        }
        let listener = Arc::new(self);
        let pauses = ConstantBuilder::new().with_delay(RECONNECT_AFTER).without_max_times();
        let receiving = (|| Arc::clone(&listener).receive()).retry(pauses).notify(|error, _| {
            tracing::debug!(%error, "cannot listen to postgres; the sweep still finds the work");
        });
        listener.stop.run_until_cancelled(receiving).await;
    }

    async fn receive(self: Arc<Self>) -> houston_store::Result<()> {
        let mut notifications = self.worker.store.listen().await?;
        loop {
            match notifications.recv().await? {
                // A user posted the message and waits for the answer.
                Some(Notification::Posted(agentable)) => self.send_hint(agentable),
                Some(Notification::Cancelled { agentable, run }) => self.cancel(agentable, run),
                Some(Notification::Webhooks) => self.wakes.webhooks.notify_one(),
                Some(Notification::Triggers) => self.wakes.triggers.notify_one(),
                None => {}
            }
        }
    }

    fn cancel(&self, agentable: AgentableId, run: RunId) {
        // If no worker drives the run, one has to end it. With Redis up, one worker has received a hint already.
        if !self.worker.engine.live().cancel(agentable, run) && !self.redis.is_up() {
            self.send_hint(agentable);
        }
    }

    /// May fail when too many hints wait or the worker is stopping: the sweep finds the agentable.
    fn send_hint(&self, agentable: AgentableId) {
        self.local.try_send(Lane::Interactive, Hint::run(agentable));
    }
}

/// Handles requests of streams and other processes for the runs driven here.
pub(crate) async fn control(worker: Arc<Worker>, stop: CancellationToken) {
    let mut control = worker.bus.subscribe_control();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            received = control.recv() => match received {
                Received::Item(item) => worker.engine.live().on_control(&item),
                Received::Lagged => control = worker.bus.subscribe_control(),
            },
        }
    }
}
