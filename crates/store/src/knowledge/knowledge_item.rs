//! Knowledge items: notes, learnings, memories, custom instructions and feed items, in one table. What differs between
//! the kinds is [`KnowledgeKind::rules`].

use chrono::{DateTime, Utc};
use houston_domain::id::RunId;
use houston_domain::knowledge::{KnowledgeKind, KnowledgeOwner, ListQuery};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Knowledge;
use crate::bound;
use crate::error::{Error, Result};
use crate::excerpt::Excerpt;
use crate::handle::TenantStore;
use crate::idempotency::{Created, Once};
use crate::row_security::with_connection;

/// One item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnowledgeItem {
    /// The item's id: a `NoteId`, a `LearningId`, …
    pub id: Uuid,
    /// What it is.
    pub kind: KnowledgeKind,
    /// The agentable or the user it belongs to.
    pub owner: Uuid,
    /// The kind of that agentable; `None`: a user.
    pub owner_kind: Option<String>,
    /// The run that wrote it; `None`: the API did.
    pub run: Option<RunId>,
    /// Its title, one line, if items of its kind have one.
    pub title: Option<String>,
    /// Its text: Markdown, or a sentence.
    pub content: String,
    /// Whether what strangers wrote was read before it was written.
    pub untrusted: bool,
    /// When the user read a feed item.
    pub read_at: Option<DateTime<Utc>>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed; reading it is not a change.
    pub updated_at: DateTime<Utc>,
}

/// A change of an item; `None` leaves the value as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnowledgeChange<'a> {
    /// The new title.
    pub title: Option<&'a str>,
    /// The new text.
    pub content: Option<&'a str>,
    /// Whether the user has read it.
    pub read: Option<bool>,
}

macro_rules! item {
    ($kind:expr, $row:expr) => {{
        let row = $row;
        KnowledgeItem {
            id: row.id,
            kind: $kind,
            owner: row.owner_id,
            owner_kind: row.owner_kind,
            run: row.run_id.map(RunId),
            title: row.title,
            content: row.content,
            untrusted: row.untrusted,
            read_at: row.read_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }};
}

impl Knowledge<'_> {
    /// Creates an item of an owner. `created_at`: `None` is now, by the database's clock.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such owner, [`Error::Full`] when the owner has the maximum number of items.
    pub(crate) async fn create_item(
        &mut self,
        (kind, owner): (KnowledgeKind, Uuid),
        id: Uuid,
        (title, content): (Option<&str>, &str),
        created_at: Option<DateTime<Utc>>,
    ) -> Result<()> {
        let rules = kind.rules();
        let (max, is_of_user) = ((rules.max)(&self.limits), rules.owner == KnowledgeOwner::User);
        let done = sqlx::query!(
            r#"-- store::knowledge_item::insert
            with owner as (
                select tenant_id, id as agentable_id, null::uuid as user_id, null::uuid as author_id
                  from houston.agentables where tenant_id = $2 and id = $4 and not $11
                 union all
                select tenant_id, null, id, $5 from houston.users where tenant_id = $2 and id = $4 and $11),
            made as (
                insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, user_id, author_id, run_id, title,
                                                     content, created_at, updated_at, untrusted)
                select $1, tenant_id, $3, agentable_id, user_id, author_id, $6, $7, $8,
                       coalesce($9, clock_timestamp()), coalesce($9, clock_timestamp()), $12
                  from owner
                 where (select count(*) from houston.knowledge_items where owner_id = $4 and kind = $3) < $10
                returning id)
            select exists (select from owner) as "found!", exists (select from made) as "made!""#,
            id,
            self.tenant.0,
            kind.as_str(),
            owner,
            self.author.map(|(agentable, _)| agentable.0),
            self.author.map(|(_, run)| run.0),
            title,
            content,
            created_at,
            i64::from(max),
            is_of_user,
            self.untrusted
        )
        .fetch_one(&mut *self.connection)
        .await?;
        let owner = if is_of_user { "user" } else { "agentable" };
        Error::check_inserted(owner, rules.of_owner, max, done.found, done.made)
    }

    /// An item; `None`: there is none with this id.
    pub async fn item(&mut self, kind: KnowledgeKind, id: impl Into<Uuid>) -> Result<Option<KnowledgeItem>> {
        let row = sqlx::query!(
            r#"-- store::knowledge_item::find
            select k.id, k.owner_id as "owner_id!", a.kind as "owner_kind?", k.run_id, k.title, k.content, k.untrusted,
                   k.read_at, k.created_at, k.updated_at
              from houston.knowledge_items k
              left join houston.agentables a on a.id = k.agentable_id
              left join houston.users u on u.id = k.user_id
             where k.tenant_id = $1 and k.kind = $2 and k.id = $3 and ($4::uuid is null or k.owner_id = $4)
               -- An owner that is being erased has no tenant any more.
               and coalesce(a.tenant_id, u.tenant_id) = $1"#,
            self.tenant.0,
            kind.as_str(),
            id.into(),
            self.owner_of(kind)
        )
        .map(|row| item!(kind, row));
        Ok(row.fetch_optional(&mut *self.connection).await?)
    }

    /// Changes an item, and returns it as it is then; `None`: there is none with this id.
    pub async fn change_item(
        &mut self,
        kind: KnowledgeKind,
        id: impl Into<Uuid>,
        change: KnowledgeChange<'_>,
    ) -> Result<Option<KnowledgeItem>> {
        let row = sqlx::query!(
            r#"-- store::knowledge_item::change
            with t as materialized (select clock_timestamp() as at)
            update houston.knowledge_items k
               set title = coalesce($5, k.title), content = coalesce($6, k.content),
                   untrusted = case when $6::text is null or $5::text is null and k.title is not null
                                    then k.untrusted or $8 and coalesce($5, $6) is not null else $8 end,
                   read_at = case $7::boolean when true then coalesce(k.read_at, t.at)
                                              when false then null else k.read_at end,
                   updated_at = case when $5::text is null and $6::text is null then k.updated_at else t.at end
              from t
             where k.tenant_id = $1 and k.kind = $2 and k.id = $3 and ($4::uuid is null or k.owner_id = $4)
               and (exists (select from houston.agentables o where o.id = k.agentable_id and o.tenant_id = $1)
                    or exists (select from houston.users o where o.id = k.user_id and o.tenant_id = $1))
            returning k.id, k.owner_id as "owner_id!",
                      (select a.kind from houston.agentables a where a.id = k.agentable_id) as owner_kind, k.run_id,
                      k.title, k.content, k.untrusted, k.read_at, k.created_at, k.updated_at"#,
            self.tenant.0,
            kind.as_str(),
            id.into(),
            self.owner_of(kind),
            change.title,
            change.content,
            change.read,
            self.untrusted
        )
        .map(|row| item!(kind, row));
        Ok(row.fetch_optional(&mut *self.connection).await?)
    }

    /// Deletes an item. Returns whether it existed.
    pub async fn delete_item(&mut self, kind: KnowledgeKind, id: impl Into<Uuid>) -> Result<bool> {
        let done = sqlx::query!(
            "-- store::knowledge_item::delete
            delete from houston.knowledge_items k
             where k.tenant_id = $1 and k.kind = $2 and k.id = $3 and ($4::uuid is null or k.owner_id = $4)
               and (exists (select from houston.agentables o where o.id = k.agentable_id and o.tenant_id = $1)
                    or exists (select from houston.users o where o.id = k.user_id and o.tenant_id = $1))",
            self.tenant.0,
            kind.as_str(),
            id.into(),
            self.owner_of(kind)
        );
        Ok(done.execute(&mut *self.connection).await?.rows_affected() > 0)
    }

    /// The first `chars` characters of items, newest first: one more than `listing` asks for, if there are more.
    pub async fn excerpts<Id: Copy + Into<Uuid>>(
        &mut self,
        kind: KnowledgeKind,
        listing: &ListQuery<Id>,
        chars: i32,
    ) -> Result<Vec<Excerpt>> {
        let rows = sqlx::query_as!(
            Excerpt,
            r#"-- store::knowledge_item::excerpts
            select id, title, left(content, $7) as "text!", char_length(content) as "chars!", untrusted
              from houston.knowledge_items
             where tenant_id = $1 and owner_id = $2 and kind = $3 and ($4::uuid is null or id < $4)
               and ($5::text is null or search @@ houston.any_word($5)
                    or houston.likeness($5, coalesce(title, content)) > 0)
             order by id desc limit $6"#,
            self.tenant.0,
            self.owner_of(kind),
            kind.as_str(),
            listing.before.map(Into::into),
            listing.query,
            i64::from(listing.limit) + 1,
            chars
        );
        Ok(rows.fetch_all(&mut *self.connection).await?)
    }

    /// The first `chars` characters of the items that match `query` best: those with some of its words, or similar ones.
    pub async fn best_matches(
        &mut self,
        kind: KnowledgeKind,
        query: &str,
        limit: u32,
        chars: i32,
    ) -> Result<Vec<Excerpt>> {
        let rows = sqlx::query_as!(
            Excerpt,
            r#"-- store::knowledge_item::best_matches
            select id, title, left(content, $6) as "text!", char_length(content) as "chars!", untrusted
              from houston.knowledge_items
             where tenant_id = $1 and owner_id = $2 and kind = $3
               and (search @@ houston.any_word($4) or houston.likeness($4, coalesce(title, content)) > 0)
             order by ts_rank(search, houston.any_word($4)) + houston.likeness($4, coalesce(title, content)) desc, id desc
             limit $5"#,
            self.tenant.0,
            self.owner_of(kind),
            kind.as_str(),
            query,
            i64::from(limit),
            chars
        );
        Ok(rows.fetch_all(&mut *self.connection).await?)
    }

    /// The texts of all items, oldest first.
    pub async fn texts(&mut self, kind: KnowledgeKind) -> Result<Vec<String>> {
        let texts = sqlx::query_scalar!(
            "-- store::knowledge_item::texts
            select content from houston.knowledge_items
             where tenant_id = $1 and owner_id = $2 and kind = $3 order by id limit $4",
            self.tenant.0,
            self.owner_of(kind),
            kind.as_str(),
            i64::from((kind.rules().max)(&self.limits))
        );
        Ok(texts.fetch_all(&mut *self.connection).await?)
    }
}

impl TenantStore<'_> {
    /// Creates an item that no run writes. Of `new` its id, kind, owner, title, content and `created_at` are stored.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such owner, [`Error::Full`] when the owner has the maximum number of
    /// items.
    pub async fn create_item(self, new: &KnowledgeItem, once: Once<'_>) -> Result<Created<Value>> {
        let add = async |tx: &mut PgConnection| {
            bound::lock(tx, new.kind.rules().name, new.owner).await?;
            let (of, texts) = ((new.kind, new.owner), (new.title.as_deref(), new.content.as_str()));
            self.knowledge(tx).create_item(of, new.id, texts, Some(new.created_at)).await
        };
        self.create_once(new.id, once, add).await
    }

    /// Items of an owner of the tenant, newest first, older than `before` if given.
    pub async fn list_items(
        self,
        (kind, owner): (KnowledgeKind, Uuid),
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<KnowledgeItem>> {
        let rows = sqlx::query!(
            r#"-- store::knowledge_item::list
            select k.id, k.owner_id as "owner_id!", a.kind as "owner_kind?", k.run_id, k.title, k.content, k.untrusted,
                   k.read_at, k.created_at, k.updated_at
              from houston.knowledge_items k left join houston.agentables a on a.id = k.agentable_id
             where k.tenant_id = $1 and k.owner_id = $2 and k.kind = $3 and ($4::uuid is null or k.id < $4)
             order by k.id desc limit $5"#,
            self.tenant.0,
            owner,
            kind.as_str(),
            before,
            limit
        )
        .map(|row| item!(kind, row));
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// An item of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such item, [`Error::Database`] as for [`Self::list_items`].
    pub async fn item(self, (kind, id): (KnowledgeKind, Uuid)) -> Result<KnowledgeItem> {
        let found = with_connection!(self.pool, |c| self.knowledge(c).item(kind, id));
        found.ok_or(Error::NotFound { what: kind.rules().name })
    }

    /// Changes an item of the tenant, and returns the changed item.
    pub async fn change_item(
        self,
        (kind, id): (KnowledgeKind, Uuid),
        to: KnowledgeChange<'_>,
    ) -> Result<KnowledgeItem> {
        let changed = with_connection!(self.pool, |c| self.knowledge(c).change_item(kind, id, to));
        changed.ok_or(Error::NotFound { what: kind.rules().name })
    }

    /// Deletes an item of the tenant.
    pub async fn delete_item(self, (kind, id): (KnowledgeKind, Uuid)) -> Result<()> {
        let done = with_connection!(self.pool, |c| self.knowledge(c).delete_item(kind, id));
        if done { Ok(()) } else { Err(Error::NotFound { what: kind.rules().name }) }
    }
}
