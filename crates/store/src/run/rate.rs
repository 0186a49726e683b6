//! Rate limits: asking them for a request, and counting tokens of runs.
//!
//! The table is not logged: a transaction that changes nothing else waits for no disk, and holds its rows for as long as it runs.
//! So neither a post nor a claim nor a step locks these rows, which many of one user share: each would hold them until it is
//! flushed. Requests are asked about before they write, all that have arrived together in one statement. What a run takes is
//! counted after the commit that admitted or ended it, by a statement of its own that nothing waits for; a process that dies in
//! between has counted too little, or what was expected in place of what was taken.

use std::time::Duration;

use houston_domain::id::{AgentableId, ApiKeyId, RunId, TenantId, UserId};
use houston_domain::rate::{Quota, RateLimits, TokenQuota, WhenExceeded};
use sqlx::postgres::types::PgInterval;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::batcher::Batch;
use crate::error::Result;
use crate::handle::{RunStore, Shared, TenantStore};

/// Whole seconds for Postgres.
pub(crate) fn seconds(seconds: u32) -> PgInterval {
    PgInterval { months: 0, days: 0, microseconds: i64::from(seconds) * 1_000_000 }
}

/// Tokens to count for a user.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tokens {
    /// Those with which a run of the user was admitted.
    Booked(UserId, i64),
    /// Those that a run of the agentable took, in place of what was booked.
    Taken(AgentableId, RunId),
}

/// How tokens are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenCounts(pub(crate) TokenQuota);

impl RunStore {
    /// Counts the tokens with which a run was admitted, in the background.
    pub async fn book_tokens(&self, user: UserId, tokens: i64) {
        self.batchers.tokens.send(Tokens::Booked(user, tokens)).await;
    }
}

impl Shared {
    /// Counts what a run took that has ended, in the background. Does nothing without a limit of tokens.
    pub(crate) async fn count_tokens(&self, agentable: AgentableId, run: RunId) {
        if self.rates.tokens.is_on() {
            self.batchers.tokens.send(Tokens::Taken(agentable, run)).await;
        }
    }
}

impl Batch for TokenCounts {
    type Item = Tokens;
    type Done = ();
    type Key = ();
    /// One, so that what is counted for a run is counted in order.
    const CONNECTIONS: usize = 1;

    async fn write(&self, connection: &mut PgConnection, items: &mut [Tokens]) -> Result<Vec<Option<()>>> {
        count(connection, self.0, items).await?;
        Ok(vec![Some(()); items.len()])
    }
}

/// Counts tokens of users' limits: those that were booked, and what runs took beyond them, which may be less than nothing. A limit
/// may be exceeded, by `longest_wait_s` at most: whatever is beyond that is not counted. Returns for each user in how many seconds
/// no token would have been used any more without these.
pub(crate) async fn count(
    connection: impl PgExecutor<'_>,
    limit: TokenQuota,
    tokens: &[Tokens],
) -> Result<Vec<f64>> {
    let (mut users, mut agentables, mut runs, mut booked) = (vec![], vec![], vec![], vec![]);
    for tokens in tokens {
        let (user, of_run, tokens) = match *tokens {
            Tokens::Booked(user, tokens) => (Some(user.0), None, Some(tokens)),
            Tokens::Taken(agentable, run) => (None, Some((agentable.0, run.0)), None),
        };
        users.push(user);
        agentables.push(of_run.map(|(agentable, _)| agentable));
        runs.push(of_run.map(|(_, run)| run));
        booked.push(tokens);
    }
    let ahead = sqlx::query_scalar!(
        r#"-- store::rate::count
        with i as materialized (
            -- What is read from a provider's cache costs little, and is most of what a long conversation sends.
            select coalesce(i.user_id, k.user_id) as user_id, r.used, coalesce(i.booked, r.used - r.booked) as more
              from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[]) as i (user_id, agentable_id, run_id, booked)
              left join lateral (select o.user_id from houston.run_locks o where o.agentable_id = i.agentable_id) k on true
              left join lateral (
                   select greatest(0, o.input_tokens - o.cache_read_tokens + o.output_tokens) as used,
                          coalesce(o.booked_tokens, 0) as booked
                     from houston.runs o where o.id = i.run_id) r on true),
        t as materialized (
            select u.*, n.at, n.at + $6 + $7::interval as last
              from (select i.user_id, $6::interval * (sum(i.more)::double precision / $5::bigint) as takes,
                           bool_or(i.more > 0) as takes_some, avg(nullif(i.used, 0))::double precision as used,
                           power(0.7, count(nullif(i.used, 0)))::double precision as old_share
                      from i where i.user_id is not null and i.more is not null group by i.user_id) u
             cross join (select clock_timestamp() as at) n)
        insert into houston.rates as r (owner_id, name, free_at, per_run)
        -- In the order of users, so that two processes do not wait for each other.
        select t.user_id, 'tokens', least(t.at + t.takes, t.last), t.used from t order by t.user_id
            on conflict (owner_id, name) do update
               -- What is given back was counted from a time that may have passed since.
               set free_at = (select least(case when t.takes_some then greatest(r.free_at, t.at) else r.free_at end + t.takes,
                                           t.last)
                                from t where t.user_id = r.owner_id),
                   per_run = (select coalesce(r.per_run * t.old_share + t.used * (1 - t.old_share), t.used, r.per_run)
                                from t where t.user_id = r.owner_id)
        returning (select extract(epoch from r.free_at - (t.at + t.takes)) from t
                    where t.user_id = r.owner_id)::double precision as "ahead!""#,
        &users as &[Option<Uuid>],
        &agentables as &[Option<Uuid>],
        &runs as &[Option<Uuid>],
        &booked as &[Option<i64>],
        i64::from(limit.quota),
        seconds(limit.window_s),
        seconds(limit.longest_wait_s)
    );
    Ok(ahead.fetch_all(connection).await?)
}

impl RunStore {
    /// Deletes rows of users and keys that have used nothing for an hour, at most `batch`. Returns how many.
    pub async fn forget_rates(&self, batch: i64) -> Result<u64> {
        let gone = sqlx::query!(
            "-- store::rate::forget
            delete from houston.rates
             where ctid = any (array(
                   select ctid from houston.rates where free_at < statement_timestamp() - interval '1 hour' limit $1
                      for update skip locked))",
            batch
        );
        Ok(gone.execute(&self.pool).await?.rows_affected())
    }
}

/// A request that starts work.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Whose agent works.
    pub whose: Whose,
    /// The key of the request.
    pub key: ApiKeyId,
    /// Its idempotency key: one that was used is not counted, since nothing new is started.
    pub idempotency_key: Option<String>,
}

/// For whom a request starts work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The user of this agentable.
    Agentable(AgentableId),
    /// This user.
    User(UserId),
    /// This user, whom the request creates.
    NewUser(UserId),
}

/// What a request was answered: whether it may go on, and what is left.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The limits that there are, in the order `requests`, `key`, `tokens`.
    pub left: Vec<Left>,
    /// The name of the limit that is exceeded, and how long until the request would be accepted.
    pub exceeded: Option<(&'static str, Duration)>,
}

/// What is left of a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Left {
    /// Its name.
    pub name: &'static str,
    /// The limit.
    pub quota: Quota,
    /// The units that are left.
    pub remaining: u32,
    /// How long until nothing is used any more.
    pub reset: Duration,
}

/// What was counted for a request.
#[derive(Debug)]
pub(crate) struct Counted {
    /// Its number in its batch, from 1.
    n: i64,
    user_allows: bool,
    /// In how many seconds no request of the user is counted any more; `None`: there is no such limit.
    of_user: Option<f64>,
    key_allows: bool,
    /// The same of the key.
    of_key: Option<f64>,
    /// In how many seconds no token is used any more.
    tokens: f64,
    /// Whether its idempotency key was not used yet.
    is_new: bool,
}

/// How limits are asked: all that have arrived, in one statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asks(pub(crate) RateLimits);

impl TenantStore<'_> {
    /// Asks the limits for a request, and counts it if it may go on. `None`: there is no such user or agentable of the tenant, or
    /// Postgres does not answer; the request itself finds out.
    pub async fn ask_rates(self, ask: Ask) -> Option<Standing> {
        let counted = self.shared.batchers.asks.submit((self.tenant, ask)).await?;
        Some(counted.standing(&self.shared.rates))
    }
}

impl Counted {
    fn standing(&self, limits: &RateLimits) -> Standing {
        let (mut left, mut exceeded) = (Vec::new(), None);
        let of_requests = [
            ("requests", limits.requests, self.user_allows, self.of_user),
            ("key", limits.keys, self.key_allows, self.of_key),
        ];
        for (name, quota, is_allowed, used) in of_requests {
            let Some(used) = used else { continue };
            let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
            if !is_allowed && exceeded.is_none() {
                let window = f64::from(quota.window_s);
                exceeded = Some((name, time(used + window / f64::from(quota.quota) - window)));
            }
            left.push(Left { name, quota, remaining: quota.left(used), reset: time(used) });
        }
        let tokens = limits.tokens;
        if tokens.is_on() {
            let (remaining, wait) = tokens.standing(self.tokens);
            if self.is_new && !wait.is_zero() && tokens.when_exceeded == WhenExceeded::Reject {
                exceeded = Some(("tokens", wait));
            }
            let reset = Duration::try_from_secs_f64(self.tokens).unwrap_or_default();
            left.push(Left { name: "tokens", quota: tokens.quota(), remaining, reset });
        }
        Standing { left, exceeded }
    }
}

impl Batch for Asks {
    type Item = (TenantId, Ask);
    type Done = Counted;
    type Key = ();
    /// One: nothing is flushed, so another would only wait for the rows of the first.
    const CONNECTIONS: usize = 1;

    fn bytes((_, ask): &(TenantId, Ask)) -> usize {
        ask.idempotency_key.as_ref().map_or(0, String::len)
    }

    #[expect(clippy::too_many_lines, reason = "one statement: the limits it counts are its length")]
    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [(TenantId, Ask)],
    ) -> Result<Vec<Option<Counted>>> {
        let column = |of: fn(&(TenantId, Ask)) -> Option<Uuid>| items.iter().map(of).collect::<Vec<_>>();
        let tenants = column(|(tenant, _)| Some(tenant.0));
        let agentables = column(|(_, ask)| match ask.whose {
            Whose::Agentable(agentable) => Some(agentable.0),
            Whose::User(_) | Whose::NewUser(_) => None,
        });
        let users = column(|(_, ask)| match ask.whose {
            Whose::User(user) | Whose::NewUser(user) => Some(user.0),
            Whose::Agentable(_) => None,
        });
        let new_users: Vec<_> = items.iter().map(|(_, ask)| matches!(ask.whose, Whose::NewUser(_))).collect();
        let keys = column(|(_, ask)| Some(ask.key.0));
        let requests: Vec<_> = items.iter().map(|(_, ask)| ask.idempotency_key.clone()).collect();
        let RateLimits { requests: of_users, keys: of_keys, tokens } = self.0;
        // A request is refused without being counted when the tokens are used up.
        let rejects_after = match tokens.when_exceeded {
            WhenExceeded::Reject if tokens.is_on() => Some(f64::from(tokens.window_s)),
            _ => None,
        };
        let rows = sqlx::query_as!(
            Counted,
            r#"-- store::rate::ask::ask
            with n as materialized (select clock_timestamp() as at),
            i as materialized (
                select i.n, i.tenant_id, i.key_id, i.request,
                       case when i.is_new_user then i.user_id
                            when i.agentable_id is null
                            then (select u.id from houston.users u where u.id = i.user_id and u.tenant_id = i.tenant_id)
                            else (select k.user_id from houston.run_locks k
                                   where k.agentable_id = i.agentable_id and k.tenant_id = i.tenant_id) end as user_id
                  from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $11::boolean[])
                       with ordinality as i (tenant_id, agentable_id, user_id, key_id, request, is_new_user, n)),
            t as materialized (
                select i.*, coalesce((select extract(epoch from r.free_at - n.at)::double precision from houston.rates r
                                       where r.owner_id = i.user_id and r.name = 'tokens'), 0) as ahead,
                       (i.request is null or not exists (
                            select from houston.idempotency_keys e
                             where e.tenant_id = i.tenant_id and e.key = i.request)) as is_new
                  from i cross join n where i.user_id is not null),
            -- The limits: in how many seconds nothing is used any more, and how many requests fit. Their rows are locked in the
            -- order of their owners, those of users first, so that two processes do not wait for each other.
            l as materialized (
                select o.*, u.used, floor(greatest(0, (1 - u.used / o.seconds) * o.quota + 1e-6)) as fit,
                       o.seconds / o.quota as each
                  from (select w.name, w.owner_id, q.quota, q.seconds
                          from (select 'requests' as name, t.user_id as owner_id from t
                                union select 'key', t.key_id from t) w
                          join (values ('requests', $6::double precision, $7::double precision), ('key', $8, $9))
                               as q (name, quota, seconds) on q.name = w.name and q.quota > 0
                         order by w.name desc, w.owner_id offset 0) o
                  left join lateral (
                       select r.free_at from houston.rates r
                        where r.owner_id = o.owner_id and r.name = o.name for no key update) r on true
                 cross join lateral (
                       select coalesce(greatest(0, extract(epoch from r.free_at - n.at)), 0)::double precision as used
                         from n) u),
            -- Of the requests of one owner the first ones fit. What one limit refuses takes nothing of the other.
            r as materialized (
                select t.*, l.used + least(t.nth, l.fit) * l.each as of_user,
                       coalesce(not t.counts or t.nth <= l.fit, true) as user_allows
                  from (select t.*, c.counts, count(*) filter (where c.counts) over (partition by t.user_id order by t.n) as nth
                          from t cross join lateral (select t.is_new and t.ahead <= coalesce($10, t.ahead) as counts) c) t
                  left join l on l.name = 'requests' and l.owner_id = t.user_id),
            k as materialized (
                select r.*, l.used + least(r.mth, l.fit) * l.each as of_key,
                       coalesce(not (r.counts and r.user_allows) or r.mth <= l.fit, true) as key_allows
                  from (select r.*, count(*) filter (where r.counts and r.user_allows)
                                             over (partition by r.key_id order by r.n) as mth from r) r
                  left join l on l.name = 'key' and l.owner_id = r.key_id),
            w as (
                insert into houston.rates as r (owner_id, name, free_at)
                select l.owner_id, l.name, n.at + make_interval(secs => count(*) * l.each)
                  from l join k on l.owner_id = case l.name when 'key' then k.key_id else k.user_id end cross join n
                 where k.counts and k.user_allows and k.key_allows
                 group by l.owner_id, l.name, l.each, n.at order by l.name desc, l.owner_id
                    on conflict (owner_id, name) do update
                   set free_at = greatest(r.free_at, (select n.at from n)) + (excluded.free_at - (select n.at from n))
                 where greatest(r.free_at, (select n.at from n)) + (excluded.free_at - (select n.at from n))
                       <= (select n.at from n) + make_interval(secs => case r.name when 'key' then $9 else $7 end + 0.001)
                returning r.owner_id, r.name)
            -- A row that several processes insert at the same moment was not locked before: what does not fit is not written.
            select k.n as "n!", k.ahead as "tokens!", k.is_new as "is_new!",
                   case when o.user_full then $7 else k.of_user end as of_user, case when o.key_full then $9 else k.of_key end as of_key,
                   k.user_allows and not o.user_full as "user_allows!", k.key_allows and not o.key_full as "key_allows!"
              from k cross join lateral (
                   select f.takes and k.of_user is not null
                          and not exists (select from w where w.name = 'requests' and w.owner_id = k.user_id) as user_full,
                          f.takes and k.of_key is not null
                          and not exists (select from w where w.name = 'key' and w.owner_id = k.key_id) as key_full
                     from (select k.counts and k.user_allows and k.key_allows as takes) f) o"#,
            &tenants as &[Option<Uuid>],
            &agentables as &[Option<Uuid>],
            &users as &[Option<Uuid>],
            &keys as &[Option<Uuid>],
            &requests as &[Option<String>],
            f64::from(of_users.quota),
            f64::from(of_users.window_s),
            f64::from(of_keys.quota),
            f64::from(of_keys.window_s),
            rejects_after,
            &new_users
        )
        .fetch_all(connection)
        .await?;
        let mut counted: Vec<Option<Counted>> = items.iter().map(|_| None).collect();
        for row in rows {
            let nth = usize::try_from(row.n).ok().and_then(|n| n.checked_sub(1));
            if let Some(place) = nth.and_then(|nth| counted.get_mut(nth)) {
                *place = Some(row);
            }
        }
        Ok(counted)
    }
}
