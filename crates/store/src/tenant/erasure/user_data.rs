//! Deleting what belongs to a user and to no agentable.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::OpenRequest;
use super::sweep::count_items;
use crate::error::Result;

/// Deletes up to about `rows` rows of each table. Returns how many.
pub(super) async fn delete(
    connection: &mut PgConnection,
    open: &mut OpenRequest,
    user: Uuid,
    rows: i64,
) -> Result<i64> {
    sqlx::query!(
        "-- store::erasure::user_data::rates
        delete from houston.rates where owner_id = $1",
        user
    )
    .execute(&mut *connection)
    .await?;
    let gone = sqlx::query!(
        r#"-- store::erasure::user_data::delete
        with items as (
            delete from houston.knowledge_items where ctid = any (array(
                select ctid from houston.knowledge_items where user_id = $1 limit $2)) returning kind),
        -- A copy of such a key in another cell names a user who is found nowhere.
        keys as (delete from houston.api_keys where user_id = $1 returning 1),
        profiles as (delete from houston.profiles where user_id = $1 returning 1),
        todos as (
            delete from houston.todos where ctid = any (array(
                select ctid from houston.todos where user_id = $1 limit $2)) returning 1),
        records as (
            delete from houston.custom_records where ctid = any (array(
                select ctid from houston.custom_records where user_id = $1 limit $2)) returning 1),
        images as (
            delete from houston.images where ctid = any (array(
                select ctid from houston.images where user_id = $1 limit $2)) returning 1),
        tables as (delete from houston.custom_tables where user_id = $1 returning 1),
        accounts as (delete from houston.mcp_accounts where user_id = $1 returning 1),
        logins as (delete from houston.mcp_logins where user_id = $1 returning 1),
        webhooks as (delete from houston.webhooks where user_id = $1 returning 1),
        servers as (delete from houston.mcp_servers where user_id = $1 returning 1)
        select (select json_object_agg(i.kind, i.n) from (select kind, count(*) as n from items group by kind) as i)
                   as "items: Json<BTreeMap<String, i64>>",
               (select count(*) from profiles) as "profiles!", (select count(*) from todos) as "todos!",
               (select count(*) from records) as "records!", (select count(*) from keys) as "keys!",
               (select count(*) from tables) as "tables!",
               (select count(*) from images) as "images!", (select count(*) from servers) as "servers!",
               (select count(*) from accounts) as "accounts!", (select count(*) from logins) as "logins!",
               (select count(*) from webhooks) as "webhooks!""#,
        user,
        rows
    )
    .fetch_one(connection)
    .await?;
    Ok(count_items(open, gone.items)
        + open.count("api_keys", gone.keys)
        + open.count("profiles", gone.profiles)
        + open.count("todos", gone.todos)
        + open.count("images", gone.images)
        + open.count("custom_records", gone.records)
        + open.count("custom_tables", gone.tables)
        + open.count("mcp_servers", gone.servers)
        + open.count("mcp_accounts", gone.accounts)
        + open.count("mcp_logins", gone.logins)
        + open.count("webhooks", gone.webhooks))
}

/// Adds the user's costs to those of the tenant's erased users, by day.
pub(super) async fn account(connection: &mut PgConnection, tenant: Uuid, user: Uuid) -> Result<()> {
    sqlx::query!(
        "-- store::erasure::user_data::account
        with spent as (
            delete from houston.spending where user_id = $2 returning day, cost, model_calls, unpriced_calls)
        insert into houston.erased_spending as e (tenant_id, day, cost, model_calls, unpriced_calls)
        select $1, day, sum(cost), sum(model_calls), sum(unpriced_calls) from spent group by day
            on conflict (tenant_id, day) do update
           set cost = case when e.cost is null then excluded.cost else e.cost + coalesce(excluded.cost, 0) end,
               model_calls = e.model_calls + excluded.model_calls,
               unpriced_calls = e.unpriced_calls + excluded.unpriced_calls",
        tenant,
        user
    )
    .execute(connection)
    .await?;
    Ok(())
}
