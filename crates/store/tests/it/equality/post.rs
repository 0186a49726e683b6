//! Posting to a goal.

use houston_domain::id::AgentableId;
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::message::{NewPost, Posted};
use houston_store::{Error, Result};
use serde_json::json;

use super::Scene;
use super::claim::crashes;
use super::direct::may_start;
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
        if !self.is_batched() {
            return self.post_alone(twin, goal, &post, key).await;
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
        post: &NewPost<'_>,
        key: Option<IdempotencyKey<'_>>,
    ) -> String {
        let max_running = self.store.fairness().max_running;
        let may_start = post.starts && may_start(self.pool(), goal, max_running).await;
        let posted = self.store.tenant(self.side.test.tenant).post_message(goal, post, key).await;
        let may_start = may_start && matches!(&posted, Ok(Created::New(posted)) if posted.opened);
        assert!(may_start || !twin.is_started, "a message started its run while another one waited");
        // The batch may leave it out, for example while a transaction of the act before is rolled back. If sessions are
        // closed, the claim may have to close one, and is not made with the message.
        twin.has_missed = may_start && !twin.is_started && self.store.runs().archiving().kinds.is_empty();
        let outcome = outcome(posted, twin.is_started);
        if !twin.is_started {
            return outcome;
        }
        let (token, message) = (self.ids().next(), self.ids().next());
        let claimed =
            self.store.runs().claim_run(goal, twin.worker, token, message, crashes()).await.unwrap();
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
