//! Conversations that an agent makes for its user, and changes to those it reaches.

use houston_domain::id::AgentableId;
use houston_domain::reach::MadeCounts;
use houston_domain::settable::StatusChange;
use sqlx::PgConnection;

use crate::cancel;
use crate::error::{Error, Result};
use crate::record::Owner;

/// A conversation to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewConversation<'a> {
    /// The agentable's id.
    pub id: AgentableId,
    /// Its kind.
    pub kind: &'a str,
    /// Its first stored status.
    pub status: Option<&'a str>,
    /// Its title, one line.
    pub title: &'a str,
    /// What it is about; may be empty.
    pub description: &'a str,
}

/// A change to a conversation; `None` leaves the value as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationChange {
    /// The new title, one line.
    pub title: Option<String>,
    /// The new description.
    pub description: Option<String>,
    /// The new status.
    pub status: Option<StatusChange>,
}

/// What counts against the limits of a conversation that the run makes; at most `most` of the last hour are counted.
pub(crate) async fn counts(connection: &mut PgConnection, owner: Owner, most: i64) -> Result<MadeCounts> {
    let counts = sqlx::query_as!(
        MadeCounts,
        r#"-- store::reach::make::counts
        select (select count(*) from houston.made_conversations m where m.from_run = $3 and m.tenant_id = $1)
                   as "of_this_run!",
               (select count(*) from (
                       select from houston.made_conversations m
                        where m.tenant_id = $1 and m.user_id = $2
                          and m.created_at > clock_timestamp() - interval '1 hour' limit $4) h) as "of_this_hour!""#,
        owner.tenant.0,
        owner.user.0,
        owner.run.0,
        most
    );
    Ok(counts.fetch_one(connection).await?)
}

/// Makes a conversation of the user, without any message.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    owner: Owner,
    new: &NewConversation<'_>,
) -> Result<()> {
    sqlx::query!(
        "-- store::reach::make::insert
        with made as (
            insert into houston.agentables (id, tenant_id, user_id, kind, title, description, status, untrusted)
            values ($1, $2, $3, $4, $5, $6, $7, $8)),
        lock as (
            insert into houston.run_locks (agentable_id, tenant_id, user_id) values ($1, $2, $3))
        insert into houston.made_conversations (agentable_id, tenant_id, user_id, from_run) values ($1, $2, $3, $9)",
        new.id.0,
        owner.tenant.0,
        owner.user.0,
        new.kind,
        new.title,
        new.description,
        new.status,
        owner.untrusted,
        owner.run.0
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Changes a conversation that [`find`](super::find) has returned. One that a session changes that has read what strangers
/// wrote is marked.
pub(crate) async fn change(
    connection: &mut PgConnection,
    owner: Owner,
    id: AgentableId,
    change: &ConversationChange,
) -> Result<()> {
    // Archiving takes the lock row first, then that of the agentable.
    if change.status == Some(StatusChange::Archive) {
        cancel::archive(connection, id).await?;
    }
    let (sets_status, status) = match &change.status {
        Some(StatusChange::Store(status)) => (true, status.as_deref()),
        Some(StatusChange::Archive) | None => (false, None),
    };
    let describes = change.title.is_some() || change.description.is_some();
    // A title set here withdraws a pending request to find one.
    let done = sqlx::query!(
        "-- store::reach::make::change
        with asked as (delete from houston.title_requests where agentable_id = $3 and tenant_id = $1
                                                           and $4::text is not null)
        update houston.agentables a
           set title = coalesce($4, a.title), description = coalesce($5, a.description),
               status = case when $6 then $7 else a.status end, untrusted = a.untrusted or $8
         where a.tenant_id = $1 and a.user_id = $2 and a.id = $3",
        owner.tenant.0,
        owner.user.0,
        id.0,
        change.title,
        change.description,
        sets_status,
        status,
        describes && owner.untrusted
    )
    .execute(connection)
    .await?;
    if done.rows_affected() == 0 { Err(Error::NotFound { what: "agentable" }) } else { Ok(()) }
}
