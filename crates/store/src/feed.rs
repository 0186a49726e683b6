//! Feeds: for each user, when the next is due, and what the latest told of. A feed begins in one transaction, which
//! sets the next one's time, so it begins once, whoever looks and whoever dies.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, MessageId, RunId, TenantId, UserId};
use houston_domain::local_time::{next_after, zone};
use houston_domain::mode::Mode;
use houston_domain::run::RunStatus;
use houston_domain::schedule::{FeedConfig, FeedLimits, Happening, feed_message};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::error::{Error, Result};
use crate::fairness::Fairness;
use crate::idempotency::{self, Created, IdempotencyKey, earlier};
use crate::pool::Store;
use crate::system_message::{NewSystemMessage, post_system_message};

/// What became of a feed that was wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Its agent was told what happened, and writes it.
    Told {
        /// The agent.
        agentable: AgentableId,
        /// The kind of that agentable.
        kind: String,
    },
    /// Nothing happened since the latest one: nobody was asked to write anything.
    NothingHappened,
    /// Its agent is busy with this run.
    Busy {
        /// The agent.
        agentable: AgentableId,
        /// The kind of that agentable.
        kind: String,
        /// What it does.
        run: RunId,
        /// Whether that is a feed.
        is_feed: bool,
    },
    /// No kind of agent that the user has writes feeds.
    NoAgent,
    /// It is not due, or somebody else has it.
    NotDue,
}

/// What became of a feed that somebody asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// This, now.
    Now(Begun),
    /// It was asked for before, under the same key, and answered so.
    Before(Value),
    /// The key was used for another request.
    KeyReused,
}

/// The ids of what a feed begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedIds {
    /// What its agent is told.
    pub message: MessageId,
    /// The run that writes it.
    pub run: RunId,
}

/// A user's feed, locked.
struct Feed {
    is_new: bool,
    time_zone: String,
    now: DateTime<Utc>,
    from_at: DateTime<Utc>,
}

/// Who writes it, and whether a run is open.
struct Writer {
    id: uuid::Uuid,
    kind: String,
    run: Option<uuid::Uuid>,
    is_feed: bool,
}

impl Store {
    /// Users whose feed is due, the longest due first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn due_feeds(&self, limit: i64) -> Result<Vec<(TenantId, UserId)>> {
        let rows = sqlx::query!(
            "-- store::feed::due
            select tenant_id, user_id from houston.feeds where due_at <= now() order by due_at limit $1",
            limit
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|row| (TenantId(row.tenant_id), UserId(row.user_id))).collect())
    }

    /// Begins the feed of a user of the tenant, if it is due: their agent, of one of `kinds`, is told what happened
    /// since the latest feed that was written. When nothing did, nobody is told. One that finds its agent busy is put
    /// off; of several that were missed, one begins.
    ///
    /// # Errors
    /// What the database says.
    pub async fn begin_feed(
        &self,
        whose: (TenantId, UserId),
        kinds: &[String],
        config: &FeedConfig,
        ids: FeedIds,
    ) -> Result<Begun> {
        let mut tx = self.pool.begin().await?;
        let begun = begin(&mut tx, whose, true, kinds, config, ids, self.fairness).await?;
        commit(tx, &begun).await?;
        Ok(begun)
    }

    /// Begins the feed of a user of the tenant, whatever is due when. `answer` says what is kept under the key, for
    /// whoever asks once more; without an answer nothing is kept, and the key may be used again.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user.
    pub async fn ask_for_feed(
        &self,
        whose: (TenantId, UserId),
        kinds: &[String],
        config: &FeedConfig,
        ids: FeedIds,
        key: Option<IdempotencyKey<'_>>,
        answer: impl FnOnce(&Begun) -> Option<Value>,
    ) -> Result<Asked> {
        let mut tx = self.pool.begin().await?;
        match earlier(&mut tx, whose.0, key, ids.run.0, &Value::Null).await? {
            Some(Created::Replayed(answered) | Created::New(answered)) => return Ok(Asked::Before(answered)),
            Some(Created::KeyReused) => return Ok(Asked::KeyReused),
            None => {}
        }
        let begun = begin(&mut tx, whose, false, kinds, config, ids, self.fairness).await?;
        if let Some(response) = answer(&begun) {
            idempotency::answer(&mut tx, whose.0, key, &response).await?;
            commit(tx, &begun).await?;
        }
        Ok(Asked::Now(begun))
    }
}

async fn commit(tx: sqlx::Transaction<'_, sqlx::Postgres>, begun: &Begun) -> Result<()> {
    if !matches!(begun, Begun::Told { .. }) {
        return Ok(tx.commit().await?);
    }
    houston_faults::fault!("C17")?;
    tx.commit().await?;
    Ok(houston_faults::fault!("C18")?)
}

async fn begin(
    connection: &mut PgConnection,
    (tenant, user): (TenantId, UserId),
    scheduled: bool,
    kinds: &[String],
    config: &FeedConfig,
    ids: FeedIds,
    fairness: Fairness,
) -> Result<Begun> {
    let Some(feed) = lock(&mut *connection, tenant, user, scheduled).await? else {
        return if scheduled { Ok(Begun::NotDue) } else { Err(Error::NotFound { what: "user" }) };
    };
    let zone = zone(&feed.time_zone);
    let next = next_after(zone, &config.times, feed.now).filter(|_| scheduled);
    if feed.is_new && scheduled {
        // Its first time is worked out, no more.
        set_due(connection, user, next).await?;
        return Ok(Begun::NotDue);
    }
    let Some(writer) = writer(&mut *connection, user, kinds).await? else {
        set_due(connection, user, next).await?;
        return Ok(Begun::NoAgent);
    };
    let (agentable, kind) = (AgentableId(writer.id), writer.kind);
    if let Some(run) = writer.run {
        let again = std::time::Duration::from_secs(config.looking.again_s);
        set_due(connection, user, Some(feed.now + again).filter(|_| scheduled)).await?;
        return Ok(Begun::Busy { agentable, kind, run: RunId(run), is_feed: writer.is_feed });
    }
    let (from, to) = (feed.from_at, feed.now);
    let happened = happenings(&mut *connection, user, agentable, (from, to), &config.told).await?;
    if happened.is_empty() {
        set_due(connection, user, next).await?;
        return Ok(Begun::NothingHappened);
    }
    let content = feed_message(&config.prompt, zone, from, to, &happened);
    let message = NewSystemMessage {
        agentable,
        message: ids.message,
        run: ids.run,
        mode: Mode::FeedGeneration,
        content: &content,
        metadata: &json!({"type": Mode::FeedGeneration}),
    };
    if !post_system_message(&mut *connection, &message, fairness).await? {
        // It has begun something this instant: the next look finds it busy.
        return Ok(Begun::NotDue);
    }
    told(connection, user, next, ids.run, (from, to)).await?;
    Ok(Begun::Told { agentable, kind })
}

async fn lock(
    connection: &mut PgConnection,
    tenant: TenantId,
    user: UserId,
    if_due: bool,
) -> Result<Option<Feed>> {
    if !if_due {
        // Of a user whom nothing of this release has made.
        sqlx::query!(
            "-- store::feed::ensure
            insert into houston.feeds (user_id, tenant_id)
            select id, tenant_id from houston.users where tenant_id = $1 and id = $2 on conflict do nothing",
            tenant.0,
            user.0
        )
        .execute(&mut *connection)
        .await?;
    }
    let row = sqlx::query!(
        r#"-- store::feed::lock
        select f.due_at = '-infinity' as "is_new!", u.time_zone, clock_timestamp() as "now!: DateTime<Utc>",
               f.from_at, f.to_at, u.created_at, r.status as "run_status?"
          from houston.feeds f join houston.users u on u.id = f.user_id
          left join houston.runs r on r.id = f.run_id
         where f.user_id = $1 and f.tenant_id = $2 and (not $3 or f.due_at <= now()) for no key update of f"#,
        user.0,
        tenant.0,
        if_due
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| {
        let status = row.run_status.as_deref().and_then(RunStatus::from_name);
        // What a feed told of that was never written is told again.
        let failed = status.is_some_and(|status| status.is_terminal() && !status.answers());
        let since = if failed { row.from_at } else { row.to_at };
        Feed {
            is_new: row.is_new,
            time_zone: row.time_zone,
            now: row.now,
            from_at: since.unwrap_or(row.created_at),
        }
    }))
}

async fn writer(connection: &mut PgConnection, user: UserId, kinds: &[String]) -> Result<Option<Writer>> {
    let writer = sqlx::query_as!(
        Writer,
        r#"-- store::feed::writer
        select a.id, a.kind, case when l.run_open then l.run_id end as run,
               coalesce(r.mode = 'feed_generation', false) as "is_feed!"
          from houston.agentables a join houston.run_locks l on l.agentable_id = a.id
          left join houston.runs r on r.id = l.run_id
         where a.user_id = $1 and a.made_with_user and a.kind = any ($2) order by a.id limit 1"#,
        user.0,
        kinds
    )
    .fetch_optional(connection)
    .await?;
    Ok(writer)
}

/// Sets when the next is due; without a time, it stays.
async fn set_due(connection: &mut PgConnection, user: UserId, next: Option<DateTime<Utc>>) -> Result<()> {
    sqlx::query!(
        "-- store::feed::set_due
        update houston.feeds set due_at = coalesce($2, due_at) where user_id = $1",
        user.0,
        next
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn told(
    connection: &mut PgConnection,
    user: UserId,
    next: Option<DateTime<Utc>>,
    run: RunId,
    (from, to): (DateTime<Utc>, DateTime<Utc>),
) -> Result<()> {
    sqlx::query!(
        "-- store::feed::told
        update houston.feeds set due_at = coalesce($2, due_at), run_id = $3, from_at = $4, to_at = $5
         where user_id = $1",
        user.0,
        next,
        run.0,
        from,
        to
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// What happened in what people talk about, but in the thread of the one who is told: notes, what was said, and
/// tasks that ended; agentable by agentable, in order of time.
async fn happenings(
    connection: &mut PgConnection,
    user: UserId,
    but: AgentableId,
    (from, to): (DateTime<Utc>, DateTime<Utc>),
    limits: &FeedLimits,
) -> Result<Vec<Happening>> {
    // Of a thread only its end is read: an agentable whose latest run is older than that is not looked into.
    let rows = sqlx::query!(
        r#"-- store::feed::happenings
        with happened as (
            select a.id, a.kind, a.title, h.what, h.at, h.text
              from houston.agentables a join houston.run_locks l on l.agentable_id = a.id
              left join houston.runs r on r.id = l.run_id
             cross join lateral (
                   (select 'note' as what, n.created_at as at, n.title || ': ' || left(n.content, $6) as text
                      from (select * from houston.notes where agentable_id = a.id order by id desc limit $7) n
                     where n.created_at > $3 and n.created_at <= $4)
                    union all
                   (select m.source, m.created_at, left(m.content, $6)
                      from (select * from houston.messages
                             where agentable_id = a.id and (r.ended_at is null or r.ended_at > $3)
                             order by seq desc limit 200) m
                     where m.created_at > $3 and m.created_at <= $4 and m.message_type = 'text'
                       and (m.source in ('user', 'agent') or m.metadata ->> 'type' = 'task_ended')
                     order by m.seq desc limit $7)) as h
             where a.user_id = $1 and a.id <> $2 and a.parent_id is null),
        ranked as (select *, max(at) over (partition by id) as latest from happened),
        placed as (select *, dense_rank() over (order by latest desc, id) as place from ranked)
        select id as "id!", kind as "kind!", title as "title!", what as "what!", at as "at!: DateTime<Utc>", text as "text!"
          from placed where place <= $5 order by place, at"#,
        user.0,
        but.0,
        from,
        to,
        limits.agentables,
        limits.chars,
        limits.of_each
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Happening {
            agentable: AgentableId(row.id).shown(&row.kind),
            title: row.title,
            what: row.what,
            at: row.at,
            text: row.text,
        })
        .collect())
}
