//! The sweep: finds agentables with work to do in the tables, and so whatever a lost hint forgot.
//!
//! It goes from user to user, so that a user with ten thousand waiting agentables does not delay the others: each
//! user gets as many as they may still run, oldest first. It reads the index `run_locks_awake` and, for each user
//! it passes, `runs_held`; neither read grows with the number of a user's waiting agentables.

use houston_domain::id::{AgentableId, UserId};
use uuid::Uuid;

use crate::error::Result;
use crate::handle::RunStore;

/// An agentable that waits for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The agentable's id.
    pub agentable: AgentableId,
    /// Its kind, from which the lane of its hint follows.
    pub kind: String,
}

impl Due {
    /// Zips two columns of a query.
    pub(crate) fn all(agentables: Option<Vec<Uuid>>, kinds: Option<Vec<String>>) -> Vec<Self> {
        let kinds = kinds.unwrap_or_default();
        agentables
            .unwrap_or_default()
            .into_iter()
            .zip(kinds)
            .map(|(id, kind)| Self { agentable: AgentableId(id), kind })
            .collect()
    }
}

/// One page of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DuePage {
    /// Waiting agentables: first one of each user, then the second of each, and so on.
    pub due: Vec<Due>,
    /// The cursor for the next page: its users come after this one. `None`: this was the last page.
    pub next: Option<UserId>,
}

/// A row of the query; every user on the page has at least one.
struct Found {
    user: Uuid,
    turn: i64,
    due: Option<Due>,
}

impl RunStore {
    /// Agentables with unread messages or a due retry that no living worker holds, of users after `after`; of each
    /// user at most as many as may run now. A page has at most `limit` rows.
    pub async fn due(&self, after: Option<UserId>, limit: i64) -> Result<DuePage> {
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let found = sqlx::query!(
            r#"-- store::sweep::due
            with recursive users (id) as (
                (select l.user_id from houston.run_locks l
                  where l.wake and l.user_id > $1 order by l.user_id limit 1)
                union all
                select (select l.user_id from houston.run_locks l
                         where l.wake and l.user_id > u.id order by l.user_id limit 1)
                  from users u where u.id is not null)
            select u.id as "user!", coalesce(w.turn, 1) as "turn!", w.agentable_id as "agentable?",
                   a.kind as "kind?"
              from users u
              left join lateral (
                   select l.agentable_id, row_number() over (order by l.due_at) as turn
                     from houston.run_locks l
                    where l.user_id = u.id and l.wake and l.run_open and l.due_at <= now()
                      and (l.holder is null or not exists (
                              select from houston.workers w
                               where w.id = l.holder and w.alive_until > clock_timestamp()))
                    order by l.due_at
                    limit greatest(0, $3::bigint - (
                        select count(*) from houston.runs r
                          join houston.run_locks k on k.agentable_id = r.agentable_id
                         where r.held_for = u.id and k.holder is not null))) w on true
              left join houston.agentables a on a.id = w.agentable_id
             where u.id is not null
             limit $2::bigint + 1"#,
            after,
            limit,
            i64::from(self.fairness.max_running)
        )
        .map(|row| {
            let due = row.agentable.zip(row.kind);
            let due = due.map(|(agentable, kind)| Due { agentable: AgentableId(agentable), kind });
            Found { user: row.user, turn: row.turn, due }
        });
        Ok(page(found.fetch_all(&self.pool).await?, usize::try_from(limit).unwrap_or(0)))
    }

    /// Wakes runs that waited until a time that has passed, at most `limit`; [`Self::due`] finds them then. Returns how many
    /// it woke.
    pub async fn wake_waiting(&self, limit: i64) -> Result<u64> {
        let woken = sqlx::query!(
            "-- store::sweep::wake_waiting
            with due as (
                select agentable_id from houston.run_locks
                 where not wake and next_attempt_at <= statement_timestamp()
                 order by next_attempt_at limit $1 for no key update skip locked)
            update houston.run_locks l
               set wake = true, waiting_since = l.next_attempt_at, woken_at = statement_timestamp(), next_attempt_at = null
              from due where l.agentable_id = due.agentable_id",
            limit
        );
        Ok(woken.execute(&self.pool).await?.rows_affected())
    }

    /// Agentables whose lock is held by a dead worker, at most `limit`. Once the lock is released they are awake,
    /// and [`Self::due`] finds them.
    pub async fn orphans(&self, limit: i64) -> Result<Vec<Due>> {
        let rows = sqlx::query_as!(
            Due,
            "-- store::sweep::orphans
            select a.id as agentable, a.kind from houston.runs r
              join houston.run_locks l on l.agentable_id = r.agentable_id and l.holder is not null
              join houston.agentables a on a.id = r.agentable_id
             where r.status = 'running'
               and not exists (select from houston.workers w
                                where w.id = r.worker_id and w.alive_until > clock_timestamp())
             limit $1",
            limit
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

/// Ends the page between two users, so that the next page can start there, and interleaves the users.
fn page(mut found: Vec<Found>, limit: usize) -> DuePage {
    let mut next = None;
    if found.len() > limit
        && let Some(last) = found.last().map(|last| last.user)
    {
        let whole = found.iter().take_while(|one| one.user != last).count();
        // A single user fills the page: the remaining rows are left to a later sweep.
        found.truncate(if whole == 0 { limit } else { whole });
        next = found.last().map(|last| UserId(last.user));
    }
    found.sort_by_key(|one| one.turn);
    DuePage { due: found.into_iter().filter_map(|one| one.due).collect(), next }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(user: u128, turn: i64) -> Found {
        let agentable = AgentableId(Uuid::from_u128(100 * user + u128::try_from(turn).unwrap()));
        let due = Some(Due { agentable, kind: "goal".into() });
        Found { user: Uuid::from_u128(user), turn, due }
    }

    fn ids(page: &DuePage) -> Vec<u128> {
        page.due.iter().map(|due| due.agentable.0.as_u128()).collect()
    }

    #[test]
    fn page_interleaves_users_and_ends_between_two() {
        let rows = || vec![found(1, 1), found(1, 2), found(1, 3), found(2, 1), found(3, 1), found(3, 2)];
        let whole = page(rows(), 10);
        assert_eq!((ids(&whole), whole.next), (vec![101, 201, 301, 102, 302, 103], None));
        let cut = page(rows(), 5);
        assert_eq!(ids(&cut), [101, 201, 102, 103], "the third user moves to the next page as a whole");
        assert_eq!(cut.next, Some(UserId(Uuid::from_u128(2))));
        let alone = page(vec![found(1, 1), found(1, 2), found(1, 3)], 2);
        assert_eq!((ids(&alone), alone.next), (vec![101, 102], Some(UserId(Uuid::from_u128(1)))));
    }

    #[test]
    fn user_with_nothing_due_is_skipped() {
        let nothing = Found { due: None, ..found(1, 1) };
        let page = page(vec![nothing, found(2, 1)], 1);
        assert_eq!((ids(&page), page.next), (vec![], Some(UserId(Uuid::from_u128(1)))));
    }
}
