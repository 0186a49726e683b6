//! Notes: texts that an agent or a person stores with an agentable.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, NoteId, RunId, TenantId};
use houston_domain::knowledge::{KnowledgeLimits, ListQuery};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::excerpt::Excerpt;
use crate::knowledge_item::KnowledgeItem;

/// A note to be created.
#[derive(Debug, Clone, Copy)]
pub struct NewNote<'a> {
    /// The note's id.
    pub id: NoteId,
    /// The agentable it belongs to.
    pub agentable: AgentableId,
    /// The run that creates it; `None`: the API does.
    pub run: Option<RunId>,
    /// Its title, one line.
    pub title: &'a str,
    /// Its text, Markdown.
    pub content: &'a str,
    /// When it is created; `None`: now, by the database's clock.
    pub created_at: Option<DateTime<Utc>>,
}

/// A note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The note's id.
    pub id: NoteId,
    /// The agentable it belongs to.
    pub agentable: AgentableId,
    /// The kind of that agentable.
    pub kind: String,
    /// The run that created it; `None`: the API did.
    pub run: Option<RunId>,
    /// Its title, one line.
    pub title: String,
    /// Its text, Markdown.
    pub content: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// A change of a note; `None` leaves the value as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoteChange<'a> {
    /// The new title.
    pub title: Option<&'a str>,
    /// The new text.
    pub content: Option<&'a str>,
}

macro_rules! note {
    ($row:expr) => {{
        let row = $row;
        Note {
            id: NoteId(row.id),
            agentable: AgentableId(row.agentable_id),
            kind: row.kind,
            run: row.run_id.map(RunId),
            title: row.title,
            content: row.content,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }};
}

/// # Errors
/// [`Error::NotFound`] when the tenant has no such agentable, [`Error::Full`] when it has the maximum number of
/// notes.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    tenant: TenantId,
    note: &NewNote<'_>,
    limits: &KnowledgeLimits,
) -> Result<()> {
    let done = sqlx::query!(
        r#"-- store::note::insert
        with owner as (select id, tenant_id from houston.agentables where tenant_id = $2 and id = $3),
        made as (
            insert into houston.notes (id, tenant_id, agentable_id, run_id, title, content, created_at, updated_at)
            select $1, tenant_id, id, $4, $5, $6, coalesce($7, clock_timestamp()), coalesce($7, clock_timestamp())
              from owner where (select count(*) from houston.notes where agentable_id = $3) < $8
            returning id)
        select exists (select from owner) as "found!", exists (select from made) as "made!""#,
        note.id.0,
        tenant.0,
        note.agentable.0,
        note.run.map(|run| run.0),
        note.title,
        note.content,
        note.created_at,
        i64::from(limits.max_notes)
    )
    .fetch_one(connection)
    .await?;
    Error::check_inserted("agentable", "notes of an agentable", limits.max_notes, done.found, done.made)
}

/// Titles and beginnings, newest first: one row more than `listing` asks for, if there are more.
pub(crate) async fn excerpts(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    listing: &ListQuery<NoteId>,
    chars: i32,
) -> Result<Vec<Excerpt>> {
    let rows = sqlx::query!(
        r#"-- store::note::excerpts
        select id, title, left(content, $6) as "text!", char_length(content) as "chars!"
          from houston.notes
         where tenant_id = $1 and agentable_id = $2 and ($3::uuid is null or id < $3)
           and ($4::text is null or search @@ houston.any_word($4) or houston.likeness($4, title) > 0)
         order by id desc limit $5"#,
        tenant.0,
        agentable.0,
        listing.before.map(|id| id.0),
        listing.query,
        i64::from(listing.limit) + 1,
        chars
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Excerpt {
            id: NoteId(row.id).to_string(),
            title: Some(row.title),
            text: row.text,
            chars: row.chars,
        })
        .collect())
}

/// A note of the tenant; with `within`, only if it belongs to that agentable.
pub(crate) async fn find(
    connection: &mut PgConnection,
    tenant: TenantId,
    within: Option<AgentableId>,
    id: NoteId,
) -> Result<Option<Note>> {
    let row = sqlx::query!(
        "-- store::note::find
        select n.id, n.agentable_id, a.kind, n.run_id, n.title, n.content, n.created_at, n.updated_at
          from houston.notes n join houston.agentables a on a.id = n.agentable_id and a.tenant_id = $1
         where n.tenant_id = $1 and n.id = $2 and ($3::uuid is null or n.agentable_id = $3)",
        tenant.0,
        id.0,
        within.map(|within| within.0)
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| note!(row)))
}

/// Changes a note of the tenant; with `within`, only if it belongs to that agentable.
pub(crate) async fn change(
    connection: &mut PgConnection,
    tenant: TenantId,
    within: Option<AgentableId>,
    id: NoteId,
    title: Option<&str>,
    content: Option<&str>,
) -> Result<Option<Note>> {
    let row = sqlx::query!(
        "-- store::note::change
        update houston.notes n
           set title = coalesce($4, n.title), content = coalesce($5, n.content), updated_at = statement_timestamp()
          from houston.agentables a
         where n.tenant_id = $1 and n.id = $2 and ($3::uuid is null or n.agentable_id = $3)
           and a.id = n.agentable_id and a.tenant_id = $1
        returning n.id, n.agentable_id, a.kind, n.run_id, n.title, n.content, n.created_at, n.updated_at",
        tenant.0,
        id.0,
        within.map(|within| within.0),
        title,
        content
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| note!(row)))
}

/// Deletes a note of the tenant; with `within`, only if it belongs to that agentable. Returns whether it existed.
pub(crate) async fn delete(
    connection: &mut PgConnection,
    tenant: TenantId,
    within: Option<AgentableId>,
    id: NoteId,
) -> Result<bool> {
    let done = sqlx::query!(
        "-- store::note::delete
        delete from houston.notes
         where tenant_id = $1 and id = $2 and ($3::uuid is null or agentable_id = $3)
           and exists (select from houston.agentables o where o.id = agentable_id and o.tenant_id = $1)",
        tenant.0,
        id.0,
        within.map(|within| within.0)
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

impl KnowledgeItem for Note {
    type Id = NoteId;
    type Owner = AgentableId;
    type New<'a> = NewNote<'a>;
    type Change<'a> = NoteChange<'a>;

    const NAME: &'static str = "note";

    fn id(new: &Self::New<'_>) -> NoteId {
        new.id
    }

    fn owner(new: &Self::New<'_>) -> Uuid {
        new.agentable.0
    }

    async fn insert(
        connection: &mut PgConnection,
        tenant: TenantId,
        new: &Self::New<'_>,
        limits: &KnowledgeLimits,
    ) -> Result<()> {
        insert(connection, tenant, new, limits).await
    }

    async fn list(
        connection: &mut PgConnection,
        tenant: TenantId,
        owner: AgentableId,
        before: Option<NoteId>,
        limit: i64,
    ) -> Result<Vec<Self>> {
        let rows = sqlx::query!(
            "-- store::note::list
            select n.id, n.agentable_id, a.kind, n.run_id, n.title, n.content, n.created_at, n.updated_at
              from houston.notes n join houston.agentables a on a.id = n.agentable_id and a.tenant_id = $1
             where n.tenant_id = $1 and n.agentable_id = $2 and ($3::uuid is null or n.id < $3)
             order by n.id desc limit $4",
            tenant.0,
            owner.0,
            before.map(|before| before.0),
            limit
        )
        .fetch_all(connection)
        .await?;
        Ok(rows.into_iter().map(|row| note!(row)).collect())
    }

    async fn find(connection: &mut PgConnection, tenant: TenantId, id: NoteId) -> Result<Option<Self>> {
        find(connection, tenant, None, id).await
    }

    async fn change(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: NoteId,
        change: Self::Change<'_>,
    ) -> Result<Option<Self>> {
        let NoteChange { title, content } = change;
        self::change(connection, tenant, None, id, title, content).await
    }

    async fn delete(connection: &mut PgConnection, tenant: TenantId, id: NoteId) -> Result<bool> {
        delete(connection, tenant, None, id).await
    }
}
