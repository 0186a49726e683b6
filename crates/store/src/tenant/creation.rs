//! What one request creates, all or nothing: a user, an agentable, its first message.

use chrono::{DateTime, Utc};
use houston_domain::id::{MessageId, RunId, UserId, shard};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::agentable::NewAgentable;
use crate::creation::batch::{CreationRow, Creations};
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, IdempotencyKey, earlier};
use crate::serving::ServedBy;
use crate::user::{User, with_external_id};

pub(crate) mod batch;

/// What a request creates: at least a user or an agentable.
#[derive(Debug, Clone, Copy, Default)]
pub struct Creation<'a> {
    /// A new user; `None`: the agentable is for a user that exists.
    pub user: Option<NewUser<'a>>,
    /// An agentable.
    pub agentable: Option<&'a NewAgentable<'a>>,
    /// The agent or team that answers for it.
    pub served_by: ServedBy,
    /// The first message to it, which opens its first run.
    pub message: Option<FirstMessage<'a>>,
}

/// A user to be created.
#[derive(Debug, Clone, Copy)]
pub struct NewUser<'a> {
    /// The user.
    pub user: &'a User,
    /// The agentables that belong to every user, one of each kind.
    pub own: &'a [NewAgentable<'a>],
}

/// The first message to a new agentable, as in `{"content": "hi", "metadata": {"source": "ios"}}`.
#[derive(Debug, Clone, Copy)]
pub struct FirstMessage<'a> {
    /// The message's id.
    pub id: MessageId,
    /// The id of the run that it opens.
    pub run: RunId,
    /// The text.
    pub content: &'a str,
    /// The client's own data, a JSON object.
    pub metadata: &'a Value,
    /// When it was received.
    pub created_at: DateTime<Utc>,
    /// Where its run belongs in a trace: a `traceparent`.
    pub traceparent: Option<&'a str>,
}

impl FirstMessage<'_> {
    /// The position of its event. The event before it is that of its run.
    pub const SEQ: i64 = 2;
}

impl Creation<'_> {
    /// What the request creates first of all, under which its idempotency key is stored.
    fn resource(&self, owner: UserId) -> Uuid {
        self.agentable.map_or(owner.0, |agentable| agentable.id.0)
    }

    /// The user for whom it is; `None` if nothing is created.
    fn owner(&self) -> Option<UserId> {
        self.user.map(|new| new.user.id).or(self.agentable.map(|agentable| agentable.user))
    }
}

impl TenantStore<'_> {
    /// Creates a user, an agentable and its first message, in one transaction. `response` is what the client is
    /// answered, stored under the idempotency key.
    ///
    /// # Errors
    /// [`Error::Exists`] when the tenant has a user with this `external_id`; [`Error::Moved`] when a new user belongs into
    /// another cell; [`Error::NotFound`] when the tenant has no such user, agent or team; [`Error::TooManyPending`] when the user has too many unread messages;
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn create(
        self,
        creation: &Creation<'_>,
        key: Option<IdempotencyKey<'_>>,
        response: &Value,
    ) -> Result<Created<Value>> {
        let Some(owner) = creation.owner() else { return Ok(Created::New(response.clone())) };
        if !self.is_unbatched {
            let row = CreationRow::of(self.tenant, owner, creation, key.map(|key| (key, response)))?;
            if self.batchers.creations.submit(row).await.is_some() {
                return Ok(Created::New(response.clone()));
            }
        }
        self.create_alone(owner, creation, key, response).await
    }

    async fn create_alone(
        self,
        owner: UserId,
        creation: &Creation<'_>,
        key: Option<IdempotencyKey<'_>>,
        response: &Value,
    ) -> Result<Created<Value>> {
        let mut tx = self.pool.begin().await?;
        if let Some(earlier) = earlier(&mut tx, self.tenant, key, creation.resource(owner), response).await? {
            return Ok(earlier);
        }
        match self.create_within(&mut tx, owner, creation).await {
            Ok(Ok(())) => {}
            Ok(Err(existing)) => {
                drop(tx);
                return Err(self.refusal(owner, creation, existing).await);
            }
            Err(error) => return refused(error).map(|()| Created::New(response.clone())),
        }
        tx.commit().await?;
        Ok(Created::New(response.clone()))
    }

    /// Creates it within a transaction. If something prevents that, nothing is created, and the user with its external id is
    /// returned; [`Self::refusal`] says what.
    pub(crate) async fn create_within(
        self,
        connection: &mut PgConnection,
        owner: UserId,
        creation: &Creation<'_>,
    ) -> Result<std::result::Result<(), Option<UserId>>> {
        let mut row = [CreationRow::of(self.tenant, owner, creation, None)?];
        let creations = Creations { max_pending: self.fairness.pending() };
        if creations.create(connection, &mut row).await? == [0] {
            return Ok(Ok(()));
        }
        if creation.user.is_some() && !has_shard(connection, owner).await? {
            return Err(Error::Moved);
        }
        let external_id = creation.user.and_then(|new| new.user.external_id.as_deref());
        let existing = with_external_id(connection, self.tenant, external_id).await?;
        Ok(Err(existing.map(UserId)))
    }

    /// Why nothing was created.
    pub(crate) async fn refusal(
        self,
        owner: UserId,
        creation: &Creation<'_>,
        existing: Option<UserId>,
    ) -> Error {
        if creation.user.is_some() {
            return Error::Exists { what: "user", existing: existing.map(|id| id.to_string()) };
        }
        let limit = self.fairness.max_pending;
        match self.user(owner).await {
            Ok(_) => Error::TooManyPending { pending: limit, limit },
            Err(error) => error,
        }
    }
}

/// Whether a user's shard is in this cell, as far as the cell's moves say.
async fn has_shard(connection: &mut PgConnection, user: UserId) -> Result<bool> {
    let is_here = sqlx::query_scalar!(
        r#"-- store::creation::has_shard
        select coalesce((select h.is_here from houston.moved_shards h where $1 between h.first and h.last
                          order by h.version desc limit 1), true) as "is_here!""#,
        i32::from(shard(user).0)
    );
    Ok(is_here.fetch_one(connection).await?)
}

/// Explains the constraint that a creation violates. No error: callers assign ids, so what exists under them was created by
/// a batch whose outcome was unknown.
pub(crate) fn refused(error: Error) -> Result<()> {
    let constraint = error.constraint().unwrap_or_default();
    match error.sqlstate().as_deref() {
        Some("23505") if constraint.ends_with("_pkey") => Ok(()),
        Some("23505") => Err(Error::Exists { what: "user", existing: None }),
        Some("23503") if constraint.contains("user") => Err(Error::NotFound { what: "user" }),
        Some("23503") => Err(Error::NotFound { what: "agent or team" }),
        _ => Err(error),
    }
}
