//! Idempotency keys: the requests sent under them, and the responses.

use houston_domain::id::TenantId;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;
use crate::handle::TenantStore;
use crate::statement::Statement as _;

/// A client's key for one request.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyKey<'a> {
    /// The key as the client sent it.
    pub key: &'a str,
    /// SHA-256 of method, path and body: the same key with a different request is refused.
    pub request_sha256: &'a [u8],
}

/// A request that creates something once: its key, if it has one, and what the client is answered, which is stored under it.
pub type Once<'a> = (Option<IdempotencyKey<'a>>, &'a Value);

/// The result of a request under an idempotency key.
#[derive(Debug, Clone, PartialEq)]
pub enum Created<T> {
    /// The request was new: this was created.
    New(T),
    /// The request is a repetition: this was created by the first one.
    Replayed(T),
    /// The key was used for a different request.
    KeyReused,
}

impl TenantStore<'_> {
    /// Creates `resource` in a transaction, unless a request under the key has done so.
    pub(crate) async fn create_once(
        self,
        resource: Uuid,
        (key, response): Once<'_>,
        create: impl AsyncFnOnce(&mut PgConnection) -> Result<()>,
    ) -> Result<Created<Value>> {
        let mut tx = self.pool.begin().await?;
        if let Some(earlier) = earlier(&mut tx, self.tenant, key, resource, response).await? {
            return Ok(earlier);
        }
        create(&mut tx).await?;
        tx.commit().await?;
        Ok(Created::New(response.clone()))
    }

    /// The latest key that begins with `prefix`, of those that end with the digits of an id.
    pub async fn latest_key(self, prefix: &str) -> Result<Option<String>> {
        // Digits are before `g` in all collations, so the index finds the few that begin so.
        let found = sqlx::query_scalar!(
            "-- store::idempotency::latest
            select key from houston.idempotency_keys
             where tenant_id = $1 and key > $2 and key < $2 || 'g' and starts_with(key, $2)
             order by key desc limit 1",
            self.tenant.0,
            prefix
        );
        Ok(found.fetch_optional(&self.pool).await?)
    }
}

/// Takes the key, if there is one. Returns the response to send instead when the key was taken before.
pub(crate) async fn earlier(
    connection: &mut PgConnection,
    tenant: TenantId,
    key: Option<IdempotencyKey<'_>>,
    resource: Uuid,
    response: &Value,
) -> Result<Option<Created<Value>>> {
    let Some(key) = key else { return Ok(None) };
    let done = sqlx::query!(
        "-- store::idempotency::take
        insert into houston.idempotency_keys (tenant_id, key, request_sha256, resource_id, response)
        values ($1, $2, $3, $4, $5) on conflict do nothing",
        tenant.0,
        key.key,
        key.request_sha256,
        resource,
        response
    )
    .execute(&mut *connection)
    .await?;
    if done.rows_affected() == 1 {
        return Ok(None);
    }
    let earlier = sqlx::query!(
        "-- store::idempotency::earlier
        select request_sha256, response from houston.idempotency_keys where tenant_id = $1 and key = $2",
        tenant.0,
        key.key
    )
    .fetch_one(&mut *connection)
    .await?;
    Ok(Some(if earlier.request_sha256 == key.request_sha256 {
        Created::Replayed(earlier.response.unwrap_or_default())
    } else {
        Created::KeyReused
    }))
}

/// Stores the response under a key taken in this transaction, if there is one.
pub(crate) async fn answer(
    connection: &mut PgConnection,
    tenant: TenantId,
    key: Option<IdempotencyKey<'_>>,
    response: &Value,
) -> Result<()> {
    let Some(key) = key else { return Ok(()) };
    sqlx::query!(
        "-- store::idempotency::answer
        update houston.idempotency_keys set response = $3 where tenant_id = $1 and key = $2",
        tenant.0,
        key.key,
        response
    )
    .run(connection)
    .await
}

/// Bytes as Postgres reads them from text.
pub(crate) fn bytea(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("\\x");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
