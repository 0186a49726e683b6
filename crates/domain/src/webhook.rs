//! Webhooks: when a delivery that failed is tried again, and when it is given up.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::id::{DeliveryId, UserId, WebhookId};
use crate::setting::positive;
use crate::time::Time;

/// Maximum number of webhooks of a tenant.
pub const MAX_WEBHOOKS: i64 = 100;
/// How many events may wait for the receiver of a webhook, until it is switched off.
pub const MAX_PENDING: i64 = 100_000;
/// Maximum number of inbound hooks of an agentable.
pub const MAX_INBOUND_HOOKS: i64 = 20;
/// Maximum number of push notification configurations of a task.
pub const MAX_TASK_PUSHES: i64 = 10;
/// Maximum number of them of a tenant, of tasks that have not ended: the reader of events compares each event with them.
pub const MAX_OPEN_TASK_PUSHES: i64 = 1_000;
/// The topics of a run of which push notifications tell.
pub const PUSHED_TOPICS: [&str; 4] = ["attempt.started", "message.sent", "question.asked", "run.finished"];

/// A webhook. Its secret is answered only when it is made.
///
/// ```json
/// {"id": "webhook_0190…", "url": "https://hooks.example.com/houston", "topics": ["run.*"], "description": "", "user_id": null,
///  "kind": null, "agentable_id": null, "enabled": true, "disabled_because": null, "old_secret_until": null,
///  "created_at": "2026-11-26T09:00:00.000Z", "updated_at": "2026-11-26T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WebhookResponse))]
pub struct Webhook {
    pub id: WebhookId,
    pub url: String,
    pub topics: Vec<String>,
    pub description: String,
    pub user_id: Option<UserId>,
    pub kind: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::id::AgentableId>))]
    pub agentable_id: Option<String>,
    pub enabled: bool,
    /// Why Houston has switched it off: `gone`, its address answered 410; `backlog`, more than 100,000 events waited for its receiver.
    pub disabled_because: Option<String>,
    /// The secret that signs. On the server only, as the one before it.
    #[serde(skip)]
    pub sealed: Vec<u8>,
    #[serde(skip)]
    pub old_sealed: Option<Vec<u8>>,
    /// Until when the secret before this one signs, too.
    pub old_secret_until: Option<Time>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// One event for one webhook.
///
/// ```json
/// {"id": "delivery_0190…", "event_id": "goal_0190…:12", "type": "run.finished", "state": "dead", "attempts": 20, "status": 500,
///  "error": "the receiver answered 500 Internal Server Error", "created_at": "2026-11-26T09:00:00.000Z",
///  "attempted_at": "2026-11-29T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DeliveryResponse))]
pub struct Delivery {
    pub id: DeliveryId,
    /// The id of the event, which is sent as `webhook-id`.
    pub event_id: String,
    #[serde(rename = "type")]
    pub topic: String,
    /// `pending`, `delivered` or `dead`: given up.
    pub state: String,
    /// Attempts since it was made, or since it was last asked for again.
    pub attempts: i32,
    /// Of the last attempt: the status of the answer, if there was one.
    pub status: Option<i32>,
    /// Of the last attempt: what went wrong.
    pub error: Option<String>,
    pub created_at: Time,
    pub attempted_at: Option<Time>,
}

/// Changes to a webhook. What is left out stays.
///
/// ```json
/// {"enabled": true}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateWebhook {
    /// Where events are sent.
    pub url: Option<String>,
    /// Which events, 1 to 20 patterns of topics.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 20))]
    pub topics: Option<Vec<String>>,
    /// For people.
    #[cfg_attr(feature = "openapi", schema(max_length = 500))]
    pub description: Option<String>,
    /// Whether events are sent. What happens while it is false is not sent later, unless a replay asks for it.
    pub enabled: Option<bool>,
}

/// `[retry]` of `jobs/webhooks.toml`: the waits between the attempts of one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeliveryRetry {
    /// Seconds before the second attempt.
    #[serde(deserialize_with = "positive")]
    pub first_s: u64,
    /// By what each further wait is longer.
    pub factor: u32,
    /// The longest wait, in seconds.
    pub most_s: u64,
    /// Share of the wait, in percent, by which it is made longer at random, so that many do not come at once.
    pub jitter_percent: u8,
    /// Attempts after which a delivery is dead.
    #[serde(deserialize_with = "positive")]
    pub attempts: i32,
    /// Days after which a delivery is dead, however few attempts it had.
    pub days: u32,
}

/// A delivery whose attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedDelivery {
    /// Its attempts, with the one that failed.
    pub attempts: i32,
    /// When the delivery was made.
    pub created_at: DateTime<Utc>,
    /// How long the receiver asks to wait, if it does.
    pub retry_after_s: Option<u64>,
}

/// The first attempts after which a receiver may ask for a shorter wait than the usual one.
const SHORT_WAITS: i32 = 5;

/// The longest wait that a receiver may ask for: a day.
const MAX_RETRY_AFTER_S: u64 = 24 * 3600;

impl DeliveryRetry {
    /// When the next attempt is due; `None`: the delivery is dead. `chance` in 0..1 is the jitter.
    pub fn next(&self, failed: FailedDelivery, now: DateTime<Utc>, chance: f64) -> Option<DateTime<Utc>> {
        let FailedDelivery { attempts, created_at, retry_after_s } = failed;
        if attempts >= self.attempts {
            return None;
        }
        let exponent = u32::try_from(attempts - 1).unwrap_or(0);
        let growth = u64::from(self.factor.max(1)).saturating_pow(exponent);
        let wait = self.first_s.saturating_mul(growth).min(self.most_s);
        let asked = retry_after_s.filter(|asked| *asked > 0).map(|asked| asked.min(MAX_RETRY_AFTER_S));
        // Short waits would use up the attempts before a receiver is back.
        let asked = asked.filter(|asked| *asked >= wait || attempts <= SHORT_WAITS);
        let jitter = if asked.is_some() { 0 } else { self.jitter_ms(wait, chance) };
        let most = i64::try_from(asked.unwrap_or(wait).saturating_mul(1000)).unwrap_or(i64::MAX / 2);
        let at = now + TimeDelta::milliseconds(most.saturating_add(jitter));
        (at <= self.given_up_at(created_at)).then_some(at)
    }

    /// When a delivery is given up that was made at this time.
    pub fn given_up_at(&self, created_at: DateTime<Utc>) -> DateTime<Utc> {
        created_at + TimeDelta::days(i64::from(self.days))
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "milliseconds of a day are far below 2^52"
    )]
    fn jitter_ms(&self, wait_s: u64, chance: f64) -> i64 {
        (wait_s as f64 * 10.0 * f64::from(self.jitter_percent) * chance.clamp(0.0, 1.0)) as i64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RETRY: DeliveryRetry =
        DeliveryRetry { first_s: 5, factor: 3, most_s: 6 * 3600, jitter_percent: 20, attempts: 20, days: 5 };
    const START: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn failed(attempts: i32) -> FailedDelivery {
        FailedDelivery { attempts, created_at: START, retry_after_s: None }
    }

    #[test]
    fn waits_grow_to_the_longest_one_over_days() {
        let mut now = START;
        let mut waits = Vec::new();
        for attempts in 1.. {
            let Some(next) = RETRY.next(failed(attempts), now, 0.0) else { break };
            waits.push((next - now).num_seconds());
            now = next;
        }
        assert_eq!(waits[..5], [5, 15, 45, 135, 405]);
        assert_eq!(waits[18], 6 * 3600);
        assert_eq!(waits.len(), 19, "20 attempts");
        assert!((now - START).num_hours() > 60, "{now}");
    }

    #[test]
    fn receivers_are_asked_again_when_they_say_within_a_day() {
        let asked = |attempts, seconds| {
            let failed = FailedDelivery { retry_after_s: Some(seconds), ..failed(attempts) };
            (RETRY.next(failed, START, 0.9).unwrap() - START).num_milliseconds()
        };
        let day = 24 * 3_600_000;
        assert_eq!([asked(1, 2), asked(1, 60), asked(1, u64::MAX)], [2_000, 60_000, day]);
        assert_eq!(asked(1, 0), 5_900, "what is usual, with its jitter");
        assert_eq!(asked(5, 2), 2_000);
        assert!(asked(6, 2) > 1_000_000, "it would use up its attempts");
        assert_eq!(asked(6, 5_000), 5_000_000);
    }

    #[test]
    fn old_deliveries_are_given_up() {
        let late = START + TimeDelta::days(5) - TimeDelta::seconds(3);
        assert_eq!(RETRY.next(failed(1), late, 0.0), None);
        assert_eq!(RETRY.given_up_at(START), START + TimeDelta::days(5));
    }

    proptest! {
        #[test]
        fn next_attempt_is_later_and_within_the_days(
            attempts in 1..30, chance in 0.0..1.0, late in 0_i64..6 * 86_400, asked: Option<u64>,
        ) {
            let now = START + TimeDelta::seconds(late);
            let failed = FailedDelivery { retry_after_s: asked, ..failed(attempts) };
            if let Some(next) = RETRY.next(failed, now, chance) {
                prop_assert!(next > now && next <= RETRY.given_up_at(START));
                prop_assert!((next - now).num_seconds() <= 24 * 3600 * 12 / 10);
            }
        }
    }
}
