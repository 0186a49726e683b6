//! Deleting files that users posted. Their objects in the object store are marked, and deleted by
//! [`RunStore::drop_objects`](crate::handle::RunStore::drop_objects): no transaction of an erasure waits for that store.

use sqlx::PgConnection;
use uuid::Uuid;

use super::OpenRequest;
use crate::error::Result;

/// Files of one statement: each may have 20 MB in rows.
const FILES: i64 = 10;
/// Parts of files of one statement, each of 2 MiB.
const PARTS: i64 = 50;

/// Deletes which files agentables used, and files that no other agentable uses. Returns how many rows.
pub(super) async fn of_agentables(
    connection: &mut PgConnection,
    open: &mut OpenRequest,
    group: &[Uuid],
) -> Result<i64> {
    let gone = sqlx::query!(
        r#"-- store::erasure::attachments::of_agentables
        with uses as (
            delete from houston.attachment_uses where ctid = any (array(
                select ctid from houston.attachment_uses where agentable_id = any ($1) limit $2)) returning attachment_id),
        files as (
            delete from houston.attachments f
             where f.id in (select u.attachment_id from uses u)
               and not exists (select from houston.attachment_uses o
                                where o.attachment_id = f.id and o.agentable_id <> all ($1))
            returning f.id, f.object_id),
        parts as (delete from houston.attachment_parts p using files f where p.attachment_id = f.id),
        objects as (
            update houston.attachment_objects o set drop_at = now() from files f where o.id = f.object_id)
        select (select count(*) from uses) as "uses!", (select count(*) from files) as "files!""#,
        group,
        FILES
    )
    .fetch_one(connection)
    .await?;
    Ok(open.count("attachment_uses", gone.uses) + open.count("attachments", gone.files))
}

/// Deletes the files of a user. Returns how many rows.
pub(super) async fn of_user(
    connection: &mut PgConnection,
    open: &mut OpenRequest,
    user: Uuid,
    rows: i64,
) -> Result<i64> {
    let gone = sqlx::query!(
        r#"-- store::erasure::attachments::of_user
        with parts as (
            delete from houston.attachment_parts where ctid = any (array(
                select p.ctid from houston.attachments f join houston.attachment_parts p on p.attachment_id = f.id
                 where f.user_id = $1 limit $3)) returning 1),
        files as (
            delete from houston.attachments where ctid = any (array(
                select f.ctid from houston.attachments f
                 where f.user_id = $1
                   and not exists (select from houston.attachment_parts p where p.attachment_id = f.id) limit $2))
            returning 1),
        objects as (
            -- Those that are being deleted, or tried again in a minute, are left alone.
            update houston.attachment_objects set drop_at = now()
             where user_id = $1 and (drop_at is null or drop_at > now() + interval '2 minutes'))
        select (select count(*) from parts) as "parts!", (select count(*) from files) as "files!""#,
        user,
        rows,
        PARTS
    )
    .fetch_one(connection)
    .await?;
    Ok(open.count("attachment_parts", gone.parts) + open.count("attachments", gone.files))
}

/// Whether the object store may still have objects of the user.
pub(super) async fn wait_for_objects(connection: &mut PgConnection, user: Uuid) -> Result<bool> {
    let waits = sqlx::query_scalar!(
        r#"-- store::erasure::attachments::objects_left
        select exists (select from houston.attachment_objects where user_id = $1) as "waits!""#,
        user
    )
    .fetch_one(connection)
    .await?;
    Ok(waits)
}
