//! Rate limits: asking them for a request, and counting tokens of runs.
//!
//! The table is not logged: a transaction that changes nothing else waits for no disk, and holds its rows for as long as it runs.
//! So neither a post nor a claim nor a step locks these rows, which many of one user share: each would hold them until it is
//! flushed. Requests are asked about before they write, all that have arrived together in one statement. What a run takes is
//! counted after the commit that admitted or ended it, by a statement of its own that nothing waits for; a process that dies in
//! between has counted too little, or what was expected in place of what was taken.

use houston_domain::id::{AgentableId, ApiKeyId, RunId, UserId};
use houston_domain::rate::TokenQuota;
use sqlx::PgConnection;
use sqlx::postgres::types::PgInterval;
use uuid::Uuid;

use crate::batcher::Batch;
use crate::error::Result;
use crate::handle::{RunStore, Shared};

mod ask;

pub(crate) use ask::Asks;
pub use ask::{Ask, Left, Standing, Whose};

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

    fn keys(_: &Tokens) -> impl Iterator<Item = ()> {
        std::iter::empty()
    }

    fn bytes(_: &Tokens) -> usize {
        64
    }

    async fn write(&self, connection: &mut PgConnection, items: &mut [Tokens]) -> Result<Vec<Option<()>>> {
        let (mut users, mut agentables, mut runs, mut tokens) = (vec![], vec![], vec![], vec![]);
        for item in &*items {
            let (user, agentable, run, booked) = match item {
                Tokens::Booked(user, tokens) => (Some(user.0), None, None, Some(*tokens)),
                Tokens::Taken(agentable, run) => (None, Some(agentable.0), Some(run.0), None),
            };
            users.push(user);
            agentables.push(agentable);
            runs.push(run);
            tokens.push(booked);
        }
        sqlx::query!(
            "-- store::rate::count
            select houston.count_tokens(i.user_id, i.run_id, i.tokens, $5, $6, $7) as ahead
              -- In the order of users, so that two processes do not wait for each other.
              from (select coalesce(i.user_id, k.user_id) as user_id, i.run_id, i.tokens
                      from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[])
                           with ordinality as i (user_id, agentable_id, run_id, tokens, nth)
                      left join lateral (select o.user_id from houston.run_locks o
                                          where o.agentable_id = i.agentable_id) k on true
                     where coalesce(i.user_id, k.user_id) is not null
                     order by 1, i.nth offset 0) i",
            &users as &[Option<Uuid>],
            &agentables as &[Option<Uuid>],
            &runs as &[Option<Uuid>],
            &tokens as &[Option<i64>],
            i64::from(self.0.quota),
            seconds(self.0.window_s),
            seconds(self.0.longest_wait_s)
        )
        .fetch_all(connection)
        .await?;
        Ok(vec![Some(()); items.len()])
    }
}

impl RunStore {
    /// Deletes rows of users and keys that have used nothing for an hour, at most `batch`. Returns how many.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn forget_rates(&self, batch: i64) -> Result<u64> {
        let gone = sqlx::query!(
            "-- store::rate::forget
            delete from houston.rates
             where ctid = any (array(
                   select ctid from houston.rates where free_at < statement_timestamp() - interval '1 hour' limit $1))",
            batch
        )
        .execute(&self.pool)
        .await?;
        Ok(gone.rows_affected())
    }
}
