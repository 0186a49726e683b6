//! Webhooks: one process of each cell reads new events and makes deliveries of them ([`crate::jobs`]); every process sends
//! deliveries that are due: signed events, and push notifications of A2A.
//!
//! - An event becomes a delivery for each webhook that wants it, in the transaction that moves the reader's position.
//! - A delivery is sent at least once, with the same `webhook-id` each time. Those of one agentable are sent one after the
//!   other, for each webhook by itself.
//! - While no webhook is switched on, each process asks Postgres every `idle_s` whether there is one, and does nothing else.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::event::Committed;
use houston_domain::event::topic::EventOwner;
use houston_domain::id::WebhookId;
use houston_domain::quarantine::{InHand, Sorted, sorted};
use houston_domain::sealed::Purpose;
use houston_domain::webhook::FailedDelivery;
use houston_metrics::worker::Delivery;
use houston_protocol::a2a::update::{TaskIds, update};
use houston_protocol::a2a::{MEDIA_TYPE, PushSecrets};
use houston_protocol::cloud_event::{CONTENT_TYPE, CloudEvent, event_id};
use houston_store::outbox::{self, Attempted, ClaimedDeliveries, DeliveredPush, DueDeliveries, Settled};
use houston_store::{Error, Result};
use houston_web::sink::{Attempt, Message};
use houston_web::webhook::Signer;
use rand::RngExt as _;
use secrecy::ExposeSecret as _;
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::worker::Worker;

/// What is being sent: each task sends what was claimed of an agentable, and ends when that is settled. They are tasks, and not
/// futures that this one polls, because one holds a connection while it settles: one that is not polled while this one waits
/// for a connection of its own would never give it back.
type Sending = JoinSet<()>;

/// How long after a claim its deliveries are begun. Short, so that a process that stops lets them end within `drain_s`, and that
/// little is sent to a webhook after its owner has changed it.
const BEGIN_FOR: TimeDelta = TimeDelta::seconds(4);
/// After which time a delivery is due again that was given back, because it is sent beside less.
const GIVEN_BACK: TimeDelta = TimeDelta::seconds(1);
/// What the owner reads of a delivery that was set aside.
const SET_ASIDE: &str = "each process that sent it ended before there was an answer, the last one while it sent nothing else: it is not sent until it is asked \
     for again";

/// Sends until stopped, and lets what is being sent end.
pub(crate) async fn run(
    worker: Arc<Worker>,
    send_now: Arc<Notify>,
    stop: CancellationToken,
    kill: CancellationToken,
) {
    let (sending, open) = (Sending::new(), HashMap::new());
    let mut outbox = Outbox { worker, sending, open, after: None, waits_alone: false };
    loop {
        let claimed = outbox.claim().await;
        let config = &outbox.worker.webhooks.config;
        let pause = match claimed {
            Ok(true) => config.poll(),
            Ok(false) => config.idle(),
            Err(error) => {
                tracing::warn!(%error, "deliveries of webhooks could not be claimed; the next look finds them");
                config.poll()
            }
        };
        let deadline = tokio::time::Instant::now() + pause;
        // More is claimed when something has ended, but not after each single one: a claim is a statement.
        let mut count = 0;
        loop {
            let at_once = outbox.worker.webhooks.config.at_once;
            tokio::select! {
                () = stop.cancelled() => return outbox.drain(kill).await,
                Some(ended) = outbox.sending.join_next_with_id() => {
                    outbox.end(ended);
                    count += 1;
                    if count * 4 >= at_once || outbox.sending.is_empty() {
                        break;
                    }
                }
                () = send_now.notified() => break,
                () = tokio::time::sleep_until(deadline) => break,
            }
        }
    }
}

struct Outbox {
    worker: Arc<Worker>,
    sending: Sending,
    /// What each task sends.
    open: HashMap<Id, ClaimedDeliveries>,
    /// The last webhook that was claimed for, if there may be others after it.
    after: Option<WebhookId>,
    /// Whether a delivery waits until it can be sent alone: until then nothing else is claimed.
    waits_alone: bool,
}

impl Outbox {
    /// Claims what is due, and begins to send it. Returns whether there are webhooks.
    async fn claim(&mut self) -> Result<bool> {
        let Worker { background: store, ids, webhooks, .. } = &*self.worker;
        if self.sending.is_empty() && !store.has_webhooks().await? && !store.has_replays().await? {
            return Ok(false);
        }
        let room = webhooks.config.at_once.saturating_sub(self.sending.len());
        let in_hand = InHand::of(self.open.values().map(|claimed| claimed.deaths));
        if room == 0 || !in_hand.takes_more(self.waits_alone) {
            return Ok(true);
        }
        let busy = counts(self.open.values().map(|claimed| claimed.webhook));
        let busy_tenants = counts(self.open.values().map(|claimed| claimed.tenant));
        let now = ids.clock().now();
        let claim_time = TimeDelta::seconds(i64::try_from(webhooks.config.claim_s).unwrap_or(60));
        let due = DueDeliveries {
            busy: &busy,
            per_webhook: webhooks.config.per_webhook,
            busy_tenants: &busy_tenants,
            per_tenant: webhooks.config.per_tenant,
            limit: i64::try_from(room).unwrap_or(i64::MAX),
            after: self.after,
            now,
            until: now + claim_time,
        };
        let claimed = store.claim_deliveries(&due, ids.next()).await?;
        // Full: the others get their turn with the next claim.
        let is_full = claimed.len() >= room;
        self.after = claimed.iter().map(|claimed| claimed.webhook).max().filter(|_| is_full);
        let Sorted { now: claimed, later, set_aside, waits_alone } =
            sorted(claimed, |claimed| claimed.deaths, in_hand);
        self.waits_alone = waits_alone;
        if !later.is_empty() {
            store.give_back_deliveries(&later, now + GIVEN_BACK).await?;
        }
        for claimed in &set_aside {
            self::set_aside(&self.worker, claimed).await;
        }
        // One that began later could take longer than the claim lasts.
        let last = due.until - TimeDelta::from_std(webhooks.config.timeout()).unwrap_or(claim_time);
        let begin_until = last.min(now + BEGIN_FOR);
        let events = store.delivered_events(&claimed).await?;
        for (claimed, events) in claimed.into_iter().zip(events) {
            let worker = Arc::clone(&self.worker);
            let open = claimed.clone();
            let sends =
                self.sending.spawn(async move { deliver(&worker, &claimed, events, begin_until).await });
            self.open.insert(sends.id(), open);
        }
        Ok(true)
    }

    /// Forgets a task that has ended. What one that panicked has claimed is sent again when the claim is over.
    fn end(&mut self, ended: std::result::Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                tracing::error!(%error, "sending a delivery panicked; it is sent again");
                error.id()
            }
        };
        self.open.remove(&id);
    }

    /// Lets what is being sent end. What has not ended at `kill` is given back, and sent again by another process.
    async fn drain(mut self, kill: CancellationToken) {
        loop {
            tokio::select! {
                () = kill.cancelled() => break,
                ended = self.sending.join_next_with_id() => match ended {
                    Some(ended) => self.end(ended),
                    None => return,
                },
            }
        }
        self.sending.shutdown().await;
        let open: Vec<ClaimedDeliveries> = self.open.into_values().collect();
        let now = self.worker.ids.clock().now();
        if let Err(error) = self.worker.background.give_back_deliveries(&open, now).await {
            tracing::warn!(%error, "deliveries could not be given back; they are sent again when their claim is over");
        }
    }
}

/// How often each is there.
fn counts<T: Hash + Eq>(all: impl Iterator<Item = T>) -> Vec<(T, i64)> {
    let mut counts: HashMap<T, i64> = HashMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts.into_iter().collect()
}

/// Sends deliveries one after the other until one is to be attempted again, and stores what became of them. After `begin_until`
/// only the first one is begun.
async fn deliver(
    worker: &Worker,
    claimed: &ClaimedDeliveries,
    events: Vec<Option<(EventOwner, Committed)>>,
    begin_until: DateTime<Utc>,
) {
    let clock = worker.ids.clock();
    let mut attempted: Vec<Attempted> = Vec::new();
    for (delivery, event) in claimed.deliveries.iter().zip(events) {
        if !attempted.is_empty() && clock.now() > begin_until {
            break;
        }
        let (settled, attempt) = match event {
            _ if worker.webhooks.config.retry.given_up_at(delivery.created_at) <= clock.now() => {
                (Settled::Dead, failed("it waited too long behind deliveries that failed"))
            }
            Some(event) => {
                let attempt = attempt(worker, claimed, delivery, &event, clock.now()).await;
                (judge(worker, delivery, &attempt, clock.now()), attempt)
            }
            None => (Settled::Dead, failed("the event was erased")),
        };
        if let Some(error) = &attempt.error {
            let webhook = claimed.webhook;
            tracing::debug!(delivery = %delivery.id, %webhook, error, ?settled, "a delivery failed");
        }
        let Attempt { status, error, .. } = attempt;
        attempted.push(Attempted { id: delivery.id, settled, status, error, at: clock.now() });
        if matches!(settled, Settled::Retry(_) | Settled::Gone) {
            break;
        }
    }
    if attempted.last().is_some_and(|last| last.settled == Settled::Gone)
        && let Some(error) = off_in_all_cells(worker, claimed, clock.now()).await
    {
        let webhook = claimed.webhook;
        tracing::warn!(%error, %webhook, "a webhook was not switched off in all cells; its event is sent again");
        attempted.pop();
    }
    let (webhook, agentable) = (claimed.webhook, claimed.agentable);
    match worker.background.settle_deliveries(claimed, &attempted).await {
        Ok(true) => {
            for Attempted { settled, .. } in &attempted {
                worker.metrics.worker.delivered(counted(*settled));
            }
        }
        Ok(false) => tracing::debug!(%webhook, %agentable, "another process has taken the deliveries over"),
        Err(error) => {
            tracing::warn!(%error, %webhook, %agentable, "deliveries could not be settled; they are sent again");
        }
    }
}

/// Gives up the delivery that processes end with.
async fn set_aside(worker: &Worker, claimed: &ClaimedDeliveries) {
    let (webhook, deaths) = (claimed.webhook, claimed.deaths);
    let give_up = claimed.deliveries.iter().map(|delivery| Attempted {
        id: delivery.id,
        settled: Settled::Dead,
        status: None,
        error: Some(SET_ASIDE.to_owned()),
        at: worker.ids.clock().now(),
    });
    let attempted: Vec<Attempted> = give_up.collect();
    for Attempted { id, .. } in &attempted {
        tracing::error!(delivery = %id, %webhook, deaths, "a delivery was set aside: processes ended while they sent it");
    }
    match worker.background.settle_deliveries(claimed, &attempted).await {
        Ok(_) => worker.metrics.worker.delivered(Delivery::Dead),
        Err(error) => {
            tracing::warn!(%error, %webhook, "a delivery could not be set aside; the next look does")
        }
    }
}

fn counted(settled: Settled) -> Delivery {
    match settled {
        Settled::Delivered => Delivery::Delivered,
        Settled::Retry(_) => Delivery::Retried,
        Settled::Dead => Delivery::Dead,
        Settled::Gone => Delivery::Gone,
    }
}

/// Switches the webhook off in the other cells before the deliveries are settled, so that this is repeated if the process dies.
async fn off_in_all_cells(worker: &Worker, claimed: &ClaimedDeliveries, now: DateTime<Utc>) -> Option<Error> {
    let copies = worker.webhooks.copies.as_ref().filter(|_| claimed.push.is_none())?;
    copies.switch_off_webhook(claimed.tenant, claimed.webhook, now).await.err()
}

fn failed(why: &str) -> Attempt {
    Attempt { status: None, error: Some(why.to_owned()), retry_after_s: None }
}

async fn attempt(
    worker: &Worker,
    claimed: &ClaimedDeliveries,
    delivery: &outbox::Delivery,
    event: &(EventOwner, Committed),
    now: DateTime<Utc>,
) -> Attempt {
    let traceparent = delivery.traceparent.as_deref();
    if let Some(push) = &claimed.push {
        return send_push(worker, claimed, push, event, traceparent, now).await;
    }
    let (owner, committed) = event;
    let signer = match signer(worker, claimed) {
        Ok(signer) => signer,
        Err(why) => return failed(&why),
    };
    let event = CloudEvent::of(owner, committed);
    let body = Bytes::from(serde_json::to_vec(&event).unwrap_or_default());
    let message = Message { url: &claimed.url, id: &event.id, body, content_type: CONTENT_TYPE, traceparent };
    worker.webhooks.sinks.send(&message, &signer, now).await
}

/// Signs with the secret of the webhook, and with the one before it while that is valid.
fn signer(worker: &Worker, claimed: &ClaimedDeliveries) -> std::result::Result<Signer, String> {
    let keys = worker.webhooks.keys.as_ref().ok_or("HOUSTON_SECRETS_KEY is not set for the workers")?;
    let purpose = claimed.webhook.to_string();
    let of = Purpose { tenant: claimed.tenant, what: &purpose };
    let sealed = std::iter::once(&claimed.sealed).chain(&claimed.old_sealed);
    let secrets: std::result::Result<Vec<_>, _> = sealed.map(|sealed| keys.open(of, sealed)).collect();
    let secrets = secrets.map_err(|error| format!("its secret cannot be opened: {error}"))?;
    Signer::new(&secrets).map_err(|error| error.to_string())
}

/// What becomes of a delivery after an attempt.
fn judge(worker: &Worker, delivery: &outbox::Delivery, attempt: &Attempt, now: DateTime<Utc>) -> Settled {
    if attempt.is_accepted() {
        return Settled::Delivered;
    }
    if attempt.is_gone() {
        return Settled::Gone;
    }
    let failed = FailedDelivery {
        attempts: delivery.attempts + 1,
        created_at: delivery.created_at,
        retry_after_s: attempt.retry_after_s,
    };
    let chance = rand::rng().random::<f64>();
    worker.webhooks.config.retry.next(failed, now, chance).map_or(Settled::Dead, Settled::Retry)
}

/// Sends a push notification of A2A: the event as an update of the client's task, with the token and the credentials that the
/// client gave.
async fn send_push(
    worker: &Worker,
    claimed: &ClaimedDeliveries,
    push: &DeliveredPush,
    (owner, committed): &(EventOwner, Committed),
    traceparent: Option<&str>,
    now: DateTime<Utc>,
) -> Attempt {
    let ids = TaskIds { run: push.run, context: push.context.clone() };
    let Some(update) = update(&ids, committed) else {
        // A message that was taken back: there is nothing to say.
        return Attempt { status: None, error: None, retry_after_s: None };
    };
    let secrets = match push_secrets(worker, claimed, push) {
        Ok(secrets) => secrets,
        Err(why) => return failed(&why),
    };
    let body = Bytes::from(serde_json::to_vec(&update).unwrap_or_default());
    let id = event_id(owner, committed.seq);
    let message = Message { url: &claimed.url, id: &id, body, content_type: MEDIA_TYPE, traceparent };
    worker.webhooks.sinks.send_with(&message, &secrets.headers(), now).await
}

fn push_secrets(
    worker: &Worker,
    claimed: &ClaimedDeliveries,
    push: &DeliveredPush,
) -> std::result::Result<PushSecrets, String> {
    if claimed.sealed.is_empty() {
        return Ok(PushSecrets::default());
    }
    let keys = worker.webhooks.keys.as_ref().ok_or("HOUSTON_SECRETS_KEY is not set for the workers")?;
    let purpose = PushSecrets::purpose(push.run, &push.push_id);
    let opened = keys.open(Purpose { tenant: claimed.tenant, what: &purpose }, &claimed.sealed);
    let opened = opened.map_err(|error| format!("its credentials cannot be opened: {error}"))?;
    serde_json::from_str(opened.expose_secret()).map_err(|_| "its credentials cannot be read".to_owned())
}
