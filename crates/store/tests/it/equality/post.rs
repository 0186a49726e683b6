//! Posting to a goal.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, MessageId, RunId, TenantId};
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::message::{NewPost, Posted};
use houston_store::{Error, Result, Store};
use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

use super::Scene;
use super::claim::crashes;
use super::direct::may_start;
use super::oracle;
use super::sequence::Post;
use super::twin::Twin;

impl Scene<'_> {
    /// Posts a message, and what its sender learns. If it starts its run at once: also what the worker learns.
    pub(super) async fn post(&self, twin: &mut Twin, goal: AgentableId, new: &Post) -> String {
        let (id, run, metadata) = (self.ids().next(), self.ids().next(), json!({}));
        let post = NewPost {
            traceparent: None,
            kind: Some("goal"),
            id,
            run,
            content: "hi",
            metadata: &metadata,
            double_texting: new.double_texting,
            starts: new.starts,
        };
        let key = new.key.map(|key| (format!("{key} {}", goal.0), [u8::from(new.is_another_request); 32]));
        let key = key.as_ref().map(|(key, sha256)| IdempotencyKey { key, request_sha256: sha256 });
        let posted = if self.is_rust() {
            if new.starts {
                self.offer(twin, goal);
            }
            self.store.tenant(self.side.test.tenant).post_message(goal, &post, key).await
        } else {
            return self.post_by_function(twin, goal, &post, key).await;
        };
        let started = self.side.slots.take(goal);
        twin.is_started = started.is_some();
        let outcome = outcome(posted, twin.is_started);
        match started {
            Some(run) => {
                self.assert_read(goal, &run.posted).await;
                format!("{outcome}\n{}", self.claimed(twin, run, true).await)
            }
            None => outcome,
        }
    }

    /// Posts a message by the functions, and claims its run if the rules in Rust did so.
    async fn post_by_function(
        &self,
        twin: &mut Twin,
        goal: AgentableId,
        post: &NewPost<'_>,
        key: Option<IdempotencyKey<'_>>,
    ) -> String {
        let max_running = self.store.fairness().max_running;
        let may_start = post.starts && may_start(self.pool(), goal, max_running).await;
        let of = (self.side.test.tenant, goal);
        let posted = post_by_function(self.pool(), self.store, of, post, key).await;
        let may_start = may_start && matches!(&posted, Ok(Created::New(posted)) if posted.opened);
        assert!(may_start || !twin.is_started, "a message started its run while another one waited");
        // The batch may leave it out, for example while a transaction of the act before is rolled back. If sessions are
        // closed, the claim may have to close one, and is not made with the message.
        twin.has_missed = may_start && !twin.is_started && self.store.runs().archiving().kinds.is_empty();
        let outcome = outcome(posted, twin.is_started);
        if !twin.is_started {
            return outcome;
        }
        let ids = (twin.worker, self.ids().next(), self.ids().next());
        let claimed = oracle::claim(self.pool(), self.store, goal, ids, crashes()).await.unwrap();
        format!("{outcome}\n{}", self.claimed(twin, claimed.unwrap(), true).await)
    }
}

/// What the sender learns.
fn outcome(posted: Result<Created<Posted>>, is_started: bool) -> String {
    match posted {
        Ok(Created::New(Posted { seq, run_seq, opened, .. })) if is_started => {
            format!("{seq} {run_seq} {opened} started")
        }
        Ok(Created::New(Posted { seq, run_seq, opened, needs_hint, .. })) => {
            format!("{seq} {run_seq} {opened} {needs_hint}")
        }
        Ok(Created::Replayed(Posted { seq, run_seq, opened, .. })) => {
            format!("replayed {seq} {run_seq} {opened} -")
        }
        Ok(Created::KeyReused) => "the key was used for another request".into(),
        Err(Error::RunInProgress { .. }) => "a run is in progress".into(),
        Err(error) => panic!("{error}"),
    }
}

/// Posts a message through the functions.
async fn post_by_function(
    pool: &PgPool,
    store: &Store,
    (tenant, agentable): (TenantId, AgentableId),
    post: &NewPost<'_>,
    key: Option<IdempotencyKey<'_>>,
) -> Result<Created<Posted>> {
    type Row =
        (Option<Uuid>, Option<Uuid>, Option<i64>, Option<DateTime<Utc>>, Option<bool>, bool, Option<bool>);
    let fairness = store.fairness();
    let posted: std::result::Result<Row, sqlx::Error> = sqlx::query_as(
        "select case when key_reused then null else message_id end, run_id, seq, created_at, opened, replayed, ring
           from houston.posted_with_events($1, $2, $3, $4, $5, $6, $10, $11, false, $7, $8, $9)",
    )
    .bind(tenant.0)
    .bind(agentable.0)
    .bind(post.id.0)
    .bind(post.run.0)
    .bind(post.content)
    .bind(post.metadata)
    .bind(post.double_texting.as_str())
    .bind(i32::from(fairness.max_running))
    .bind(i32::try_from(fairness.max_pending).unwrap())
    .bind(key.map(|key| key.key))
    .bind(key.map(|key| key.request_sha256))
    .fetch_one(pool)
    .await;
    match posted {
        Ok((Some(id), Some(run), Some(seq), Some(created_at), opened, replayed, needs_hint)) => {
            // The run's row is found by position: a replayed post does not name it.
            let run_seq = "select r.first_seq, r.cancel_seq from houston.runs r
                            where r.agentable_id = $1 and r.first_seq <= $2 order by r.first_seq desc limit 1";
            let (run_seq, cancel_seq): (i64, Option<i64>) =
                sqlx::query_as(run_seq).bind(agentable.0).bind(seq).fetch_one(pool).await?;
            let posted = Posted {
                id: MessageId(id),
                run: RunId(run),
                answered_by: RunId(run).answering(seq, cancel_seq),
                seq,
                run_seq,
                opened: opened.unwrap_or(false),
                created_at,
                needs_hint: needs_hint.unwrap_or(false),
                is_started: false,
            };
            Ok(if replayed { Created::Replayed(posted) } else { Created::New(posted) })
        }
        Ok(_) => Ok(Created::KeyReused),
        Err(error) => match error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() {
            Some("HO409") => Err(Error::RunInProgress { run: post.run }),
            _ => panic!("{error}"),
        },
    }
}
