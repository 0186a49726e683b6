//! Feeds: for each user, when the next feed is due, and the period that the latest covered. A feed starts in one
//! transaction, which also sets the time of the next one, so it starts once, however many workers look or die.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, MessageId, RunId, TenantId, UserId};
use houston_domain::local_time::{next_after, parse_zone};
use houston_domain::mode::Mode;
use houston_domain::run::RunStatus;
use houston_domain::schedule::{Activity, FeedConfig, FeedLimits, feed_message};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::error::{Error, Result};
use crate::handle::{RunStore, TenantStore};
use crate::idempotency::{self, Created, IdempotencyKey, earlier};
use crate::settings::Fairness;
use crate::statement::Statement as _;
use crate::system_message::{NewSystemMessage, post_system_message};

/// The result of starting a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedOutcome {
    /// A system message with what happened was posted to the agent, which writes the feed.
    Started {
        /// The agentable that writes the feed.
        agentable: AgentableId,
        /// Its kind.
        kind: String,
    },
    /// Nothing happened since the latest feed: no agent was woken.
    NothingHappened,
    /// A run of the agentable that writes feeds is open.
    Busy {
        /// The agentable that writes feeds.
        agentable: AgentableId,
        /// Its kind.
        kind: String,
        /// The open run.
        run: RunId,
        /// Whether that run writes a feed.
        is_feed: bool,
    },
    /// The user has no agentable of a kind that writes feeds.
    NoAgent,
    /// The feed is not due, or another worker started it.
    NotDue,
}

/// The result of a request for a feed.
#[derive(Debug, Clone, PartialEq)]
pub enum FeedRequestOutcome {
    /// It was handled now.
    Now(FeedOutcome),
    /// The key was used before for the same request, which got this response.
    Replayed(Value),
    /// The key was used before for another request.
    KeyReused,
}

/// The ids a feed is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedIds {
    /// The id of the system message.
    pub message: MessageId,
    /// The id of the run that writes the feed.
    pub run: RunId,
}

/// A user's row in `feeds`, locked.
struct Feed {
    is_new: bool,
    time_zone: String,
    now: DateTime<Utc>,
    from_at: DateTime<Utc>,
}

/// The agentable that writes the feed, and its open run, if there is one.
struct Writer {
    id: uuid::Uuid,
    kind: String,
    run: Option<uuid::Uuid>,
    is_feed: bool,
}

impl RunStore {
    /// Users whose feed is due, the longest overdue first.
    pub async fn due_feeds(&self, limit: i64) -> Result<Vec<(TenantId, UserId)>> {
        let rows = sqlx::query!(
            "-- store::feed::due
            select tenant_id, user_id from houston.feeds where due_at <= now() order by due_at limit $1",
            limit
        )
        .map(|row| (TenantId(row.tenant_id), UserId(row.user_id)));
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Starts the feed of a user of the tenant, if it is due: posts to their agentable of one of `kinds` what
    /// happened since the latest feed that was written. When nothing happened, no agent is woken. If a run of the
    /// agentable is open, the feed is postponed; if several feeds were missed, one is started.
    pub async fn begin_feed(
        &self,
        whose: (TenantId, UserId),
        kinds: &[String],
        config: &FeedConfig,
        ids: FeedIds,
    ) -> Result<FeedOutcome> {
        let mut tx = self.pool.begin().await?;
        let begun = begin(&mut tx, whose, true, kinds, config, ids, self.fairness).await?;
        commit(tx.commit(), &begun).await?;
        Ok(begun)
    }
}

impl TenantStore<'_> {
    /// Starts the feed of a user of the tenant, whether or not it is due. `answer` builds the response that is
    /// stored under the idempotency key; if it returns `None`, nothing is stored and the key may be used again.
    pub async fn request_feed(
        self,
        user: UserId,
        kinds: &[String],
        config: &FeedConfig,
        ids: FeedIds,
        key: Option<IdempotencyKey<'_>>,
        answer: impl FnOnce(&FeedOutcome) -> Option<Value>,
    ) -> Result<FeedRequestOutcome> {
        let mut tx = self.pool.begin().await?;
        match earlier(&mut tx, self.tenant, key, ids.run.0, &Value::Null).await? {
            Some(Created::Replayed(answered) | Created::New(answered)) => {
                return Ok(FeedRequestOutcome::Replayed(answered));
            }
            Some(Created::KeyReused) => return Ok(FeedRequestOutcome::KeyReused),
            None => {}
        }
        let begun = begin(&mut tx, (self.tenant, user), false, kinds, config, ids, self.fairness).await?;
        if let Some(response) = answer(&begun) {
            idempotency::answer(&mut tx, self.tenant, key, &response).await?;
            commit(tx.commit(), &begun).await?;
        }
        Ok(FeedRequestOutcome::Now(begun))
    }
}

async fn commit(committed: impl Future<Output = sqlx::Result<()>>, begun: &FeedOutcome) -> Result<()> {
    if !matches!(begun, FeedOutcome::Started { .. }) {
        return Ok(committed.await?);
    }
    houston_faults::fault!("C17")?;
    committed.await?;
    Ok(houston_faults::fault!("C18")?)
}

async fn begin(
    connection: &mut PgConnection,
    whose: (TenantId, UserId),
    scheduled: bool,
    kinds: &[String],
    config: &FeedConfig,
    ids: FeedIds,
    fairness: Fairness,
) -> Result<FeedOutcome> {
    let Some(feed) = lock(&mut *connection, whose, scheduled).await? else {
        return if scheduled { Ok(FeedOutcome::NotDue) } else { Err(Error::NotFound { what: "user" }) };
    };
    let zone = parse_zone(&feed.time_zone);
    let next = next_after(zone, &config.times, feed.now).filter(|_| scheduled);
    if feed.is_new && scheduled {
        // A new row: only the time of the first feed is set.
        set_due(connection, whose, next).await?;
        return Ok(FeedOutcome::NotDue);
    }
    let Some(writer) = writer(&mut *connection, whose, kinds).await? else {
        set_due(connection, whose, next).await?;
        return Ok(FeedOutcome::NoAgent);
    };
    let (agentable, kind) = (AgentableId(writer.id), writer.kind);
    if let Some(run) = writer.run {
        let again = std::time::Duration::from_secs(config.poll.retry_after_s);
        set_due(connection, whose, Some(feed.now + again).filter(|_| scheduled)).await?;
        return Ok(FeedOutcome::Busy { agentable, kind, run: RunId(run), is_feed: writer.is_feed });
    }
    let (from, to) = (feed.from_at, feed.now);
    let happened = happenings(&mut *connection, whose, agentable, (from, to), &config.content).await?;
    if happened.is_empty() {
        set_due(connection, whose, next).await?;
        return Ok(FeedOutcome::NothingHappened);
    }
    let content = feed_message(&config.prompt, zone, from, to, &happened);
    let message = NewSystemMessage {
        agentable,
        message: ids.message,
        run: ids.run,
        mode: Some(Mode::FeedGeneration),
        content: &content,
        metadata: &json!({"type": Mode::FeedGeneration}),
        event: None,
        traceparent: None,
    };
    if !post_system_message(&mut *connection, &message, fairness).await? {
        // A run was opened this instant; the next look finds the agent busy.
        return Ok(FeedOutcome::NotDue);
    }
    sqlx::query!(
        "-- store::feed::told
        update houston.feeds set due_at = coalesce($2, due_at), run_id = $3, from_at = $4, to_at = $5
         where tenant_id = $6 and user_id = $1",
        whose.1.0,
        next,
        ids.run.0,
        from,
        to,
        whose.0.0
    )
    .execute(connection)
    .await?;
    Ok(FeedOutcome::Started { agentable, kind })
}

async fn lock(
    connection: &mut PgConnection,
    (tenant, user): (TenantId, UserId),
    if_due: bool,
) -> Result<Option<Feed>> {
    if !if_due {
        // Users created by an older release have no row yet.
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
    .map(|row| {
        let status = row.run_status.as_deref().and_then(RunStatus::from_name);
        // If the latest feed failed, the next one covers its period again.
        let failed = status.is_some_and(|status| status.is_terminal() && !status.answers());
        let since = if failed { row.from_at } else { row.to_at };
        Feed {
            is_new: row.is_new,
            time_zone: row.time_zone,
            now: row.now,
            from_at: since.unwrap_or(row.created_at),
        }
    });
    Ok(row.fetch_optional(connection).await?)
}

async fn writer(
    connection: &mut PgConnection,
    (tenant, user): (TenantId, UserId),
    kinds: &[String],
) -> Result<Option<Writer>> {
    let writer = sqlx::query_as!(
        Writer,
        r#"-- store::feed::writer
        select a.id, a.kind, case when l.run_open then l.run_id end as run,
               coalesce(r.mode = 'feed_generation', false) as "is_feed!"
          from houston.agentables a join houston.run_locks l on l.agentable_id = a.id
          left join houston.runs r on r.id = l.run_id
         where a.tenant_id = $3 and a.user_id = $1 and a.made_with_user and a.kind = any ($2) order by a.id limit 1"#,
        user.0,
        kinds,
        tenant.0
    );
    Ok(writer.fetch_optional(connection).await?)
}

/// Sets when the next feed is due; `None` leaves it unchanged.
async fn set_due(
    connection: &mut PgConnection,
    (tenant, user): (TenantId, UserId),
    next: Option<DateTime<Utc>>,
) -> Result<()> {
    sqlx::query!(
        "-- store::feed::set_due
        update houston.feeds set due_at = coalesce($2, due_at) where tenant_id = $3 and user_id = $1",
        user.0,
        next,
        tenant.0
    )
    .run(connection)
    .await
}

/// What happened in the user's conversations, except in the thread of the writing agentable itself: notes, messages
/// and ended tasks, grouped by agentable in order of time.
async fn happenings(
    connection: &mut PgConnection,
    (tenant, user): (TenantId, UserId),
    but: AgentableId,
    (from, to): (DateTime<Utc>, DateTime<Utc>),
    limits: &FeedLimits,
) -> Result<Vec<Activity>> {
    // Only the end of a thread is read: agentables whose latest run is older than the period are skipped.
    let rows = sqlx::query!(
        r#"-- store::feed::happenings
        with happened as (
            select a.id, a.kind, a.title, h.what, h.at, h.text
              from houston.agentables a join houston.run_locks l on l.agentable_id = a.id
              left join houston.runs r on r.id = l.run_id
             cross join lateral (
                   (select 'note' as what, n.created_at as at, n.title || ': ' || left(n.content, $6) as text
                      from (select * from houston.knowledge_items
                             where owner_id = a.id and kind = 'note' order by id desc limit $7) n
                     where n.created_at > $3 and n.created_at <= $4)
                    union all
                   (select m.source, m.created_at, left(m.content, $6)
                      from (select * from houston.messages
                             where agentable_id = a.id and (r.ended_at is null or r.ended_at > $3)
                             order by seq desc limit 200) m
                     where m.created_at > $3 and m.created_at <= $4 and m.message_type = 'text'
                       and (m.source in ('user', 'agent') or m.metadata ->> 'type' = 'task_ended')
                     order by m.seq desc limit $7)) as h
             where a.tenant_id = $8 and a.user_id = $1 and a.id <> $2 and a.parent_id is null),
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
        limits.per_agentable,
        tenant.0
    )
    .map(|row| Activity {
        agentable: AgentableId(row.id).public_id(&row.kind),
        title: row.title,
        what: row.what,
        at: row.at,
        text: row.text,
    });
    Ok(rows.fetch_all(connection).await?)
}
