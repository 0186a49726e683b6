//! The audit log: who changed what. Written when the request has been answered by its handler, so it also has what was refused.
//!
//! What was done to the whole installation, such as draining a worker, belongs to no tenant: see `INSTALLATION`.

use std::time::Duration;

use chrono::{DateTime, Utc};
pub use houston_domain::audit::AuditRecord;
use houston_domain::id::{AuditId, TenantId};
use uuid::Uuid;

use crate::api_key::Principal;
use crate::error::Result;
use crate::handle::{ApiStore, OperatorStore, RunStore, Shared, TenantStore};
use crate::operate::run_list::{LATER_ID, id_at};
use crate::statement::Statement as _;

/// In the place of the tenant of what was done to the whole installation. No tenant has this id, so the requests of none see it.
const INSTALLATION: TenantId = TenantId(Uuid::nil());

/// What is recorded of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// The record's id.
    pub id: AuditId,
    /// Who: the public id of a key, or a command.
    pub actor: String,
    /// The public id of the user whom the key is bound to.
    pub on_behalf_of: Option<String>,
    /// What, as in the OpenAPI document, or the name of a command.
    pub operation: String,
    /// The id or the name of the thing.
    pub target: Option<String>,
    /// The status of the answer; 0 for a command.
    pub status: i16,
    /// The code of the problem, if it was refused.
    pub code: Option<String>,
    /// The id of the request.
    pub request_id: Option<String>,
}

impl NewRecord {
    /// That `actor` has done something to `target` by a command, or by signing in: not by a request.
    pub fn without_request(id: AuditId, actor: String, operation: &str, target: String) -> Self {
        Self {
            id,
            actor,
            on_behalf_of: None,
            operation: operation.to_owned(),
            target: Some(target),
            status: 0,
            code: None,
            request_id: None,
        }
    }
}

/// Which records; `None` matches any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordFilter {
    /// Of this operation.
    pub operation: Option<String>,
    /// By this actor.
    pub actor: Option<String>,
    /// About this thing.
    pub target: Option<String>,
    /// Recorded at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Recorded before this time.
    pub until: Option<DateTime<Utc>>,
}

impl Shared {
    /// `None`: it was done to the whole installation.
    async fn write_record(&self, tenant: Option<TenantId>, new: &NewRecord) -> Result<()> {
        sqlx::query!(
            "-- store::audit::record
            insert into houston.audit (id, tenant_id, actor, on_behalf_of, operation, target, status, code, request_id)
            values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            new.id.0,
            tenant.unwrap_or(INSTALLATION).0,
            new.actor,
            new.on_behalf_of,
            new.operation,
            new.target,
            new.status,
            new.code,
            new.request_id
        )
        .run(&self.pool)
        .await
    }

    /// `None`: what was done to the whole installation.
    async fn list_records(
        &self,
        tenant: Option<TenantId>,
        filter: &RecordFilter,
        before: Option<AuditId>,
        limit: i64,
    ) -> Result<Vec<AuditRecord>> {
        let until = filter.until.map_or(Uuid::max(), |until| id_at(until + LATER_ID));
        let records = sqlx::query_as!(
            AuditRecord,
            r#"-- store::audit::list
            select id, at, actor, on_behalf_of, operation, target, status, code, request_id,
                   (select k.name from houston.api_keys k
                     where k.id = case when actor ~ '^key_[0-9a-f]{32}$' then substr(actor, 5)::uuid end) as actor_name
              from houston.audit
             where tenant_id = $1 and id < $2 and id >= $3 and ($4::text is null or operation = $4)
               and ($5::text is null or actor = $5) and ($6::text is null or target = $6)
               and ($7::timestamptz is null or at >= $7) and ($8::timestamptz is null or at < $8)
             order by id desc limit $9"#,
            tenant.unwrap_or(INSTALLATION).0,
            before.map_or(until, |before| before.0.min(until)),
            filter.since.map_or(Uuid::nil(), |since| id_at(since - LATER_ID)),
            filter.operation.as_deref(),
            filter.actor.as_deref(),
            filter.target.as_deref(),
            filter.since,
            filter.until,
            limit
        );
        Ok(records.fetch_all(&self.pool_of(tenant)).await?)
    }
}

impl ApiStore {
    /// Records what a request of this key changed, or tried to.
    pub async fn record(&self, by: Principal, new: &NewRecord) -> Result<()> {
        self.shared.write_record(Some(by.tenant()), new).await
    }

    /// Records what was done to the whole installation.
    pub async fn record_of_installation(&self, new: &NewRecord) -> Result<()> {
        self.shared.write_record(None, new).await
    }

    /// As [`TenantStore::records`], of what was done to the whole installation.
    pub async fn records_of_installation(
        &self,
        filter: &RecordFilter,
        before: Option<AuditId>,
        limit: i64,
    ) -> Result<Vec<AuditRecord>> {
        self.shared.list_records(None, filter, before, limit).await
    }
}

impl OperatorStore<'_> {
    /// Records what a command changed, for a tenant or, without one, for the whole installation.
    pub async fn record(self, tenant: Option<TenantId>, new: &NewRecord) -> Result<()> {
        self.shared.write_record(tenant, new).await
    }

    /// The tenant of the thing with this id: a tenant, a user, an agent, an agentable, a run, a message, a question, a grant, a
    /// trigger, or a table. `None`: it does not exist.
    pub async fn tenant_of_thing(self, id: Uuid) -> Result<Option<TenantId>> {
        let found = sqlx::query_scalar!(
            r#"-- store::audit::tenant_of_thing
            select tenant_id as "tenant_id!"
              from (select id as tenant_id from houston.tenants where id = $1
                    union all select tenant_id from houston.users where id = $1
                    union all select tenant_id from houston.agents where id = $1
                    union all select tenant_id from houston.agentables where id = $1
                    union all select tenant_id from houston.runs where id = $1
                    union all select tenant_id from houston.messages where id = $1
                    union all select tenant_id from houston.questions where id = $1
                    union all select tenant_id from houston.grants where id = $1
                    union all select tenant_id from houston.triggers where id = $1
                    union all select tenant_id from houston.custom_tables where id = $1) as t
             where tenant_id is not null"#,
            id
        );
        Ok(found.fetch_optional(&self.shared.pool).await?.map(TenantId))
    }
}

impl TenantStore<'_> {
    /// Records what was changed without a key: by a command, or with a link.
    pub async fn write_audit(self, new: &NewRecord) -> Result<()> {
        self.shared.write_record(Some(self.tenant), new).await
    }

    /// The records of the tenant that match, older than `before`, newest first, at most `limit`.
    pub async fn records(
        self,
        filter: &RecordFilter,
        before: Option<AuditId>,
        limit: i64,
    ) -> Result<Vec<AuditRecord>> {
        self.shared.list_records(Some(self.tenant), filter, before, limit).await
    }
}

impl RunStore {
    /// Deletes records older than `after`, the oldest first, at most `batch`. Returns their number.
    pub async fn forget_records(&self, after: Duration, batch: i64) -> Result<u64> {
        let done = sqlx::query!(
            "-- store::audit::forget
            delete from houston.audit
             where ctid = any (array(
                   select ctid from houston.audit
                    where at < now() - make_interval(secs => $1)
                    order by at limit $2 for update skip locked))",
            after.as_secs_f64(),
            batch
        )
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected())
    }
}
