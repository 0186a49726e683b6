//! Users: the people agents work for. With a user, one agentable is created of each kind whose agent type asks for one.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, TenantId, UserId};
use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::agent::exists;
use crate::agentable::NewAgentable;
use crate::cost::Cost;
use crate::creation::{Creation, NewUser};
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, Once};
use crate::row_security::with_connection;
use crate::statement::uuids;

/// A user of a tenant. Written as what a new one has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct User {
    /// The user's id.
    #[serde(skip)]
    pub id: UserId,
    /// The client's own id for the user; unique within the tenant.
    pub external_id: Option<String>,
    /// What agents call the user.
    pub name: String,
    /// An IANA name, as in `Europe/Berlin`.
    pub time_zone: String,
    /// When the user was created.
    pub created_at: DateTime<Utc>,
    /// Cost of all model calls of the user's agentables.
    #[serde(skip)]
    pub cost: Cost,
}

/// An agentable that was created together with its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnAgentable {
    /// The user.
    pub user: UserId,
    /// Its kind.
    pub kind: String,
    /// Its id.
    pub id: AgentableId,
}

/// A change of a user; `None` leaves the value as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserChange {
    /// The new name.
    pub name: Option<String>,
    /// The new time zone: an IANA name.
    pub time_zone: Option<String>,
    /// The new external id; `Some(None)`: removes it.
    pub external_id: Option<Option<String>>,
}

macro_rules! user {
    ($row:expr) => {
        User {
            id: UserId($row.id),
            external_id: $row.external_id,
            name: $row.name,
            time_zone: $row.time_zone,
            created_at: $row.created_at,
            cost: Cost::of(Some($row.cost), $row.unpriced_calls),
        }
    };
}

/// The id of the tenant's user with this external id.
pub(crate) async fn with_external_id(
    connection: &mut PgConnection,
    tenant: TenantId,
    external_id: Option<&str>,
) -> Result<Option<Uuid>> {
    let id = sqlx::query_scalar!(
        "-- store::user::with_external_id
        select id from houston.users where tenant_id = $1 and external_id = $2",
        tenant.0,
        external_id
    );
    Ok(id.fetch_optional(connection).await?)
}

impl TenantStore<'_> {
    /// Creates a user together with the agentables in `own`, one of each kind.
    ///
    /// # Errors
    /// [`Error::Exists`] when the tenant has a user with this `external_id`.
    pub async fn create_user(
        self,
        user: &User,
        own: &[NewAgentable<'_>],
        once: Once<'_>,
    ) -> Result<Created<Value>> {
        let creation = Creation { user: Some(NewUser { user, own }), ..Creation::default() };
        self.create(&creation, once).await
    }

    /// The id of the tenant's user with this external id.
    pub async fn user_with_external_id(self, external_id: &str) -> Result<UserId> {
        let id = with_connection!(self.pool, |c| with_external_id(c, self.tenant, Some(external_id)));
        id.map(UserId).ok_or(Error::NotFound { what: "user" })
    }

    /// Reads a user of the tenant.
    pub async fn user(self, id: UserId) -> Result<User> {
        let row = sqlx::query!(
            r#"-- store::user::get
            select u.id, u.external_id, u.name, u.time_zone, u.created_at,
                   s.cost as "cost!", s.unpriced_calls as "unpriced_calls!"
              from houston.users u
              cross join (select coalesce(sum(d.cost), 0) as cost,
                                 coalesce(sum(d.unpriced_calls), 0)::integer as unpriced_calls
                            from houston.spending d where d.user_id = $2) s
             where u.tenant_id = $1 and u.id = $2"#,
            self.tenant.0,
            id.0
        )
        .map(|row| user!(row));
        row.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "user" })
    }

    /// Users of the tenant, newest first, older than `before` if given; with `external_id`, the user who has it.
    pub async fn users(
        self,
        external_id: Option<&str>,
        before: Option<UserId>,
        limit: i64,
    ) -> Result<Vec<User>> {
        let rows = sqlx::query!(
            r#"-- store::user::list
            select u.id, u.external_id, u.name, u.time_zone, u.created_at,
                   s.cost as "cost!", s.unpriced_calls as "unpriced_calls!"
              -- First the page: otherwise Postgres may sum up what all users have spent, and then sort.
              from (select p.id, p.external_id, p.name, p.time_zone, p.created_at from houston.users p
                     where p.tenant_id = $1 and ($2::text is null or p.external_id = $2) and ($3::uuid is null or p.id < $3)
                     order by p.id desc limit $4) as u
              cross join lateral (
                    select coalesce(sum(d.cost), 0) as cost,
                           coalesce(sum(d.unpriced_calls), 0)::integer as unpriced_calls
                      from houston.spending d where d.user_id = u.id) s
             order by u.id desc"#,
            self.tenant.0,
            external_id,
            before.map(|before| before.0),
            limit
        )
        .map(|row| user!(row));
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Applies a change to a user of the tenant. A new time zone recomputes the time of the next feed; pending
    /// check-ins keep their instant.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user, [`Error::Exists`] when another user has the external id.
    pub async fn change_user(self, id: UserId, change: &UserChange) -> Result<()> {
        let mut tx = self.pool.begin().await?;
        let changed = sqlx::query!(
            "-- store::user::change
            with changed as (
                update houston.users
                   set name = coalesce($3, name), time_zone = coalesce($4, time_zone),
                       external_id = case when $5 then $6 else external_id end
                 where tenant_id = $1 and id = $2 returning id),
            feeds as (
                update houston.feeds f set due_at = '-infinity' from changed c where f.user_id = c.id and $4 is not null)
            select id from changed",
            self.tenant.0,
            id.0,
            change.name,
            change.time_zone,
            change.external_id.is_some(),
            change.external_id.as_ref().and_then(Option::as_deref)
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(|error| exists(error.into(), "user"));
        match changed {
            Err(Error::Exists { what, .. }) => {
                tx.rollback().await?;
                let external_id = change.external_id.as_ref().and_then(Option::as_deref);
                let existing = with_connection!(self.pool, |c| with_external_id(c, self.tenant, external_id));
                Err(Error::Exists { what, existing: existing.map(|id| UserId(id).to_string()) })
            }
            Err(error) => Err(error),
            Ok(None) => Err(Error::NotFound { what: "user" }),
            Ok(Some(_)) => Ok(tx.commit().await?),
        }
    }

    /// The agentables that were created together with these users of the tenant, sorted by kind.
    pub async fn own_agentables_of(self, users: &[UserId]) -> Result<Vec<OwnAgentable>> {
        let own = sqlx::query_as!(
            OwnAgentable,
            r#"-- store::user::own
            select user_id as "user", id, kind from houston.agentables
             where tenant_id = $1 and user_id = any ($2) and made_with_user order by kind"#,
            self.tenant.0,
            &uuids(users)
        );
        Ok(own.fetch_all(&self.pool).await?)
    }

    /// The user with this external id and their newest agentable of a kind; for `houston dev`.
    pub async fn user_by_external_id(
        self,
        external_id: &str,
        kind: &str,
    ) -> Result<Option<(UserId, Option<AgentableId>)>> {
        let found = sqlx::query!(
            r#"-- store::user::by_external_id
            select u.id, (select max(a.id::text)::uuid from houston.agentables a
                           where a.user_id = u.id and a.kind = $3) as newest
              from houston.users u where u.tenant_id = $1 and u.external_id = $2"#,
            self.tenant.0,
            external_id,
            kind
        )
        .map(|found| (UserId(found.id), found.newest.map(AgentableId)));
        Ok(found.fetch_optional(&self.pool).await?)
    }
}
