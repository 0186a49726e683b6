//! Posting to a goal.

use houston_domain::id::{AgentableId, MessageId, RunId};
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::message::{NewPost, Posted};
use houston_store::{Error, Result};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sqlx::error::DatabaseError;
use uuid::Uuid;

use super::Scene;
use super::claim::crashes;
use super::direct::may_start;
use super::sequence::Post;
use super::twin::Twin;
use crate::test_store::ClaimRun as _;

impl Scene<'_> {
    /// Posts a message, and what its sender learns. If it starts its run at once: also what the worker learns.
    pub(super) async fn post(&self, twin: &mut Twin, goal: AgentableId, new: &Post) -> String {
        let content = if new.is_another_request { "hello" } else { "hi" };
        let mut post = NewPost::new(self.ids().next(), self.ids().next(), content, json!({}));
        post.double_texting = new.double_texting;
        post.starts = new.starts;
        post.kind = Some("goal".to_owned());
        // As the function computes it.
        let request = Sha256::digest(format!("{} {} {}", goal.0, post.double_texting.as_str(), post.content));
        let key = new.key.map(|key| format!("{key} {}", goal.0));
        let key = key.as_ref().map(|key| IdempotencyKey { key, request_sha256: &request });
        if !self.is_batched() {
            return self.post_alone(twin, goal, (&post, key), new.by_function).await;
        }
        if new.starts {
            self.offer(twin, goal);
        }
        let posted = self.store.tenant(self.side.test.tenant).post_message(goal, &post, key).await;
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

    /// Posts a message by itself, and claims its run if that was started directly in the other database.
    async fn post_alone(
        &self,
        twin: &mut Twin,
        goal: AgentableId,
        (post, key): (&NewPost, Option<IdempotencyKey<'_>>),
        by_function: bool,
    ) -> String {
        let max_running = self.store.fairness.max_running;
        let may_start = post.starts && may_start(self.pool(), goal, max_running).await;
        let posted = if by_function {
            self.post_by_function(goal, post, key).await
        } else {
            self.store.tenant(self.side.test.tenant).post_message(goal, post, key).await
        };
        let may_start = may_start && matches!(&posted, Ok(Created::New(posted)) if posted.opened);
        assert!(may_start || !twin.is_started, "a message started its run while another one waited");
        // The batch may leave it out, for example while a transaction of the act before is rolled back. If sessions are
        // closed, the claim may have to close one, and is not made with the message.
        twin.has_missed = may_start && !twin.is_started && self.store.archiving.kinds.is_empty();
        let outcome = outcome(posted, twin.is_started);
        if !twin.is_started {
            return outcome;
        }
        let (token, message) = (self.ids().next(), self.ids().next());
        let claimed =
            self.store.runs().claim_run(goal, twin.worker, token, message, crashes()).await.unwrap();
        format!("{outcome}\n{}", self.claimed(twin, claimed.unwrap(), true).await)
    }

    /// Posts a message as an application does.
    async fn post_by_function(
        &self,
        goal: AgentableId,
        post: &NewPost,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Created<Posted>> {
        let before = "select last_seq from houston.run_locks where agentable_id = $1";
        let before: i64 = sqlx::query_scalar(before).bind(goal.0).fetch_one(self.pool()).await.unwrap();
        let posted = sqlx::query_scalar("select houston.post_message($1, $2, $3, $4)");
        let posted = posted.bind(goal.0).bind(&post.content).bind(key.map(|key| key.key));
        let posted: sqlx::Result<Uuid> =
            posted.bind(post.double_texting.as_str()).fetch_one(self.pool()).await;
        let id = match posted {
            Ok(id) => id,
            Err(error) => match error.as_database_error().and_then(DatabaseError::code).as_deref() {
                Some("HO409") => return Err(Error::RunInProgress { run: post.run }),
                Some("HO422") => return Ok(Created::KeyReused),
                _ => panic!("{error}"),
            },
        };
        // The run is found by position: the message's row may name a later one by now.
        let stored = "select m.seq, m.created_at, r.id, r.first_seq, r.cancel_seq,
                             l.holder is null and houston.free_slots(l.user_id, l.agentable_id, $3) > 0
                        from houston.messages m
                        join houston.run_locks l on l.agentable_id = m.agentable_id
                       cross join lateral (
                             select * from houston.runs r where r.agentable_id = m.agentable_id and r.first_seq <= m.seq
                              order by r.first_seq desc limit 1) r
                       where m.agentable_id = $1 and m.id = $2";
        let max_running = i32::from(self.store.fairness.max_running);
        let stored = sqlx::query_as(stored).bind(goal.0).bind(id).bind(max_running);
        let (seq, created_at, run, run_seq, cancel_seq, needs_hint): (i64, _, Uuid, i64, Option<i64>, bool) =
            stored.fetch_one(self.pool()).await.unwrap();
        let is_new = seq > before;
        let posted = Posted {
            id: MessageId(id),
            run: RunId(run),
            answered_by: RunId(run).answering(seq, cancel_seq),
            seq,
            run_seq,
            opened: run_seq > before,
            created_at,
            needs_hint,
            is_started: false,
        };
        Ok(if is_new { Created::New(posted) } else { Created::Replayed(posted) })
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
