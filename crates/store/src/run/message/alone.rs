//! Posting a message by itself, not in a batch.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, MessageId, RunId, TenantId};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{NewPost, Posted};
use crate::error::Result;
use crate::handle::Shared;
use crate::idempotency::{Created, IdempotencyKey};

/// What `houston.post_message` returns.
pub(crate) struct PostedRow {
    message_id: Option<Uuid>,
    run_id: Option<Uuid>,
    seq: Option<i64>,
    created_at: Option<DateTime<Utc>>,
    replayed: bool,
    key_reused: Option<bool>,
    opened: Option<bool>,
    ring: bool,
}

impl PostedRow {
    /// Whether nothing was stored: it was before, or its key is another message's.
    pub(crate) fn is_old(&self) -> bool {
        self.replayed || self.key_reused == Some(true)
    }
}

impl Shared {
    /// Posts a message by itself, on this connection.
    ///
    /// # Errors
    /// That of Postgres; [`refusal`](super::refusal) says what it means.
    pub(crate) async fn post_alone(
        &self,
        connection: &mut PgConnection,
        tenant: TenantId,
        agentable: AgentableId,
        post: &NewPost<'_>,
        key: Option<IdempotencyKey<'_>>,
    ) -> std::result::Result<PostedRow, sqlx::Error> {
        sqlx::query_as!(
            PostedRow,
            r#"-- store::message::post
            select message_id, run_id, seq, created_at, replayed as "replayed!", key_reused, opened, ring as "ring!"
              from houston.post_message($1, $2, $3, $4, $5, $6, $7, $8, false, $9, $10, $11)"#,
            tenant.0,
            agentable.0,
            post.id.0,
            post.run.0,
            post.content,
            post.metadata,
            key.map(|key| key.key),
            key.map(|key| key.request_sha256),
            post.double_texting.as_str(),
            self.fairness.running(),
            self.fairness.pending()
        )
        .fetch_one(connection)
        .await
    }

    /// What was posted by itself, after its commit.
    pub(crate) async fn posted_alone(
        &self,
        agentable: AgentableId,
        row: PostedRow,
    ) -> Result<Created<Posted>> {
        let (Some(id), Some(run), Some(seq), Some(created_at)) =
            (row.message_id, row.run_id, row.seq, row.created_at)
        else {
            return Ok(Created::KeyReused);
        };
        if row.key_reused == Some(true) {
            return Ok(Created::KeyReused);
        }
        let opened = row.opened.unwrap_or(false);
        let (run, run_seq) =
            if opened { (RunId(run), seq - 1) } else { self.posted_into(agentable, seq).await? };
        let needs_hint = row.ring;
        let posted = Posted {
            id: MessageId(id),
            run,
            seq,
            run_seq,
            opened,
            created_at,
            needs_hint,
            is_started: false,
        };
        Ok(if row.replayed { Created::Replayed(posted) } else { Created::New(posted) })
    }
}
