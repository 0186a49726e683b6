//! Feed items: what agents report to a user unasked.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, FeedItemId, RunId, TenantId, UserId};
use houston_domain::knowledge::{KnowledgeLimits, ListQuery};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::excerpt::Excerpt;
use crate::knowledge_item::KnowledgeItem;

/// A feed item to be created.
#[derive(Debug, Clone, Copy)]
pub struct NewFeedItem<'a> {
    /// The feed item's id.
    pub id: FeedItemId,
    /// The user whose feed it is in.
    pub user: UserId,
    /// The agentable and the run that create it; `None`: the API does.
    pub author: Option<(AgentableId, RunId)>,
    /// Its title, one line.
    pub title: &'a str,
    /// Its text, Markdown.
    pub content: &'a str,
    /// When it is created; `None`: now, by the database's clock.
    pub created_at: Option<DateTime<Utc>>,
}

/// A feed item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedItem {
    /// The feed item's id.
    pub id: FeedItemId,
    /// The user whose feed it is in.
    pub user: UserId,
    /// The run that created it; `None`: the API did.
    pub run: Option<RunId>,
    /// Its title, one line.
    pub title: String,
    /// Its text, Markdown.
    pub content: String,
    /// When the user read it.
    pub read_at: Option<DateTime<Utc>>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed; reading it is not a change.
    pub updated_at: DateTime<Utc>,
}

/// A change of a feed item; `None` leaves the value as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct FeedItemChange<'a> {
    /// The new title.
    pub title: Option<&'a str>,
    /// The new text.
    pub content: Option<&'a str>,
    /// Whether the user has read it.
    pub read: Option<bool>,
}

macro_rules! feed_item {
    ($row:expr) => {{
        let row = $row;
        FeedItem {
            id: FeedItemId(row.id),
            user: UserId(row.user_id),
            run: row.run_id.map(RunId),
            title: row.title,
            content: row.content,
            read_at: row.read_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }};
}

/// # Errors
/// [`Error::NotFound`] when the tenant has no such user, [`Error::Full`] when they have the maximum number of feed
/// items.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    tenant: TenantId,
    item: &NewFeedItem<'_>,
    limits: &KnowledgeLimits,
) -> Result<()> {
    let done = sqlx::query!(
        r#"-- store::feed_item::insert
        with owner as (select id, tenant_id from houston.users where tenant_id = $2 and id = $3),
        made as (
            insert into houston.feed_items (id, tenant_id, user_id, agentable_id, run_id, title, content, created_at,
                                            updated_at)
            select $1, tenant_id, id, $4, $5, $6, $7, coalesce($8, clock_timestamp()),
                   coalesce($8, clock_timestamp())
              from owner where (select count(*) from houston.feed_items where user_id = $3) < $9
            returning id)
        select exists (select from owner) as "found!", exists (select from made) as "made!""#,
        item.id.0,
        tenant.0,
        item.user.0,
        item.author.map(|(agentable, _)| agentable.0),
        item.author.map(|(_, run)| run.0),
        item.title,
        item.content,
        item.created_at,
        i64::from(limits.max_feed_items)
    )
    .fetch_one(connection)
    .await?;
    Error::check_inserted("user", "feed items of a user", limits.max_feed_items, done.found, done.made)
}

/// Titles and beginnings, newest first: one row more than `listing` asks for, if there are more.
pub(crate) async fn excerpts(
    connection: &mut PgConnection,
    tenant: TenantId,
    user: UserId,
    listing: &ListQuery<FeedItemId>,
    chars: i32,
) -> Result<Vec<Excerpt>> {
    let rows = sqlx::query!(
        r#"-- store::feed_item::excerpts
        select id, title, left(content, $6) as "text!", char_length(content) as "chars!"
          from houston.feed_items
         where tenant_id = $1 and user_id = $2 and ($3::uuid is null or id < $3)
           and ($4::text is null or to_tsvector('simple', title) @@ houston.any_word($4)
                or houston.likeness($4, title) > 0)
         order by id desc limit $5"#,
        tenant.0,
        user.0,
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
            id: FeedItemId(row.id).to_string(),
            title: Some(row.title),
            text: row.text,
            chars: row.chars,
        })
        .collect())
}

/// A feed item of the tenant; with `within`, only if it belongs to that user.
pub(crate) async fn find(
    connection: &mut PgConnection,
    tenant: TenantId,
    within: Option<UserId>,
    id: FeedItemId,
) -> Result<Option<FeedItem>> {
    let row = sqlx::query!(
        "-- store::feed_item::find
        select id, user_id, run_id, title, content, read_at, created_at, updated_at from houston.feed_items
         where tenant_id = $1 and id = $2 and exists (
               select from houston.users o where o.id = user_id and o.tenant_id = $1) and ($3::uuid is null or user_id = $3)",
        tenant.0,
        id.0,
        within.map(|within| within.0)
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| feed_item!(row)))
}

impl KnowledgeItem for FeedItem {
    type Id = FeedItemId;
    type Owner = UserId;
    type New<'a> = NewFeedItem<'a>;
    type Change<'a> = FeedItemChange<'a>;

    const NAME: &'static str = "feed item";

    fn id(new: &Self::New<'_>) -> FeedItemId {
        new.id
    }

    fn owner(new: &Self::New<'_>) -> Uuid {
        new.user.0
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
        owner: UserId,
        before: Option<FeedItemId>,
        limit: i64,
    ) -> Result<Vec<Self>> {
        let rows = sqlx::query!(
            "-- store::feed_item::list
            select id, user_id, run_id, title, content, read_at, created_at, updated_at from houston.feed_items
             where tenant_id = $1 and user_id = $2 and ($3::uuid is null or id < $3)
             order by id desc limit $4",
            tenant.0,
            owner.0,
            before.map(|before| before.0),
            limit
        )
        .fetch_all(connection)
        .await?;
        Ok(rows.into_iter().map(|row| feed_item!(row)).collect())
    }

    async fn find(connection: &mut PgConnection, tenant: TenantId, id: FeedItemId) -> Result<Option<Self>> {
        find(connection, tenant, None, id).await
    }

    async fn change(
        connection: &mut PgConnection,
        tenant: TenantId,
        id: FeedItemId,
        change: Self::Change<'_>,
    ) -> Result<Option<Self>> {
        let row = sqlx::query!(
            "-- store::feed_item::change
            with t as materialized (select clock_timestamp() as at)
            update houston.feed_items
               set title = coalesce($3, title), content = coalesce($4, content),
                   read_at = case $5::boolean when true then coalesce(read_at, t.at)
                                              when false then null else read_at end,
                   updated_at = case when $3 is null and $4 is null then updated_at else t.at end
              from t
             where tenant_id = $1 and id = $2 and exists (
               select from houston.users o where o.id = user_id and o.tenant_id = $1)
            returning id, user_id, run_id, title, content, read_at, created_at, updated_at",
            tenant.0,
            id.0,
            change.title,
            change.content,
            change.read
        )
        .fetch_optional(connection)
        .await?;
        Ok(row.map(|row| feed_item!(row)))
    }

    async fn delete(connection: &mut PgConnection, tenant: TenantId, id: FeedItemId) -> Result<bool> {
        let done = sqlx::query!(
            "-- store::feed_item::delete
            delete from houston.feed_items where tenant_id = $1 and id = $2 and exists (
               select from houston.users o where o.id = user_id and o.tenant_id = $1)",
            tenant.0,
            id.0
        )
        .execute(connection)
        .await?;
        Ok(done.rows_affected() > 0)
    }
}
