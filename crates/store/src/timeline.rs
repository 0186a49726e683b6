//! The timelines of Postgres. Each promotion begins a new one: a primary with a lower one than was seen before is a
//! former primary, and what is written to it is lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

/// The newest timelines by the hosts of their URLs. The leases of a process open connections of their own, and must know
/// what the pool knows.
static NEWEST: Mutex<BTreeMap<Vec<String>, Newest>> = Mutex::new(BTreeMap::new());

/// The newest timeline that this process has seen at some hosts; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Newest(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    /// 0: none yet.
    timeline: u32,
    /// Since when.
    since: Option<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Newest {
    /// That of these hosts: the same for all connections of the process.
    pub(crate) fn of(hosts: &[PgConnectOptions]) -> Self {
        let address = |host: &PgConnectOptions| format!("{}:{}", host.get_host(), host.get_port());
        let mut key: Vec<String> = hosts.iter().map(address).collect();
        key.sort();
        lock(&NEWEST).entry(key).or_default().clone()
    }

    /// Accepts the timeline of a primary.
    ///
    /// # Errors
    /// When it is older than another one that was seen.
    pub(crate) fn accept(&self, timeline: u32) -> sqlx::Result<()> {
        let mut seen = lock(&self.0);
        if timeline < seen.timeline {
            let text = format!(
                "this is a former primary: its timeline is {timeline}, and timeline {} was seen before; if it was restored \
                 on purpose, restart Houston",
                seen.timeline
            );
            return Err(sqlx::Error::Io(std::io::Error::other(text)));
        }
        if timeline > seen.timeline {
            *seen = Seen { timeline, since: Some(Instant::now()) };
        }
        Ok(())
    }

    /// Whether a connection that was opened so long ago is to the newest timeline. Older ones may be to a former primary
    /// that was cut off for a while, and broke nothing.
    pub(crate) fn is_current(&self, age: Duration) -> bool {
        lock(&self.0).since.is_none_or(|since| age <= since.elapsed())
    }

    /// Lets a pool open connections to the newest timeline only. Older ones are for the caller to leave out.
    pub(crate) fn guard(self, pool: PgPoolOptions) -> PgPoolOptions {
        pool.after_connect(move |connection, _| {
            let newest = self.clone();
            Box::pin(async move {
                match of(connection).await? {
                    Some(timeline) => newest.accept(timeline),
                    None => Err(sqlx::Error::Io(std::io::Error::other("this is a standby"))),
                }
            })
        })
    }
}

/// The timeline of a primary; `None`: it is a standby.
pub(crate) async fn of(connection: &mut PgConnection) -> sqlx::Result<Option<u32>> {
    // Not `query!`: it would be one of few reasons to describe system functions in `.sqlx`. Any role may call these.
    let (timeline,): (Option<String>,) = sqlx::query_as(
        "-- store::timeline::of
        select case when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_lsn()), 8) end",
    )
    .fetch_one(connection)
    .await?;
    // In hex digits.
    timeline
        .map(|digits| u32::from_str_radix(&digits, 16).map_err(|e| sqlx::Error::Decode(e.into())))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_timelines_than_the_newest_are_refused() {
        let newest = Newest::default();
        assert!(newest.is_current(Duration::from_secs(60)), "none was seen");
        newest.accept(9).unwrap();
        newest.accept(10).unwrap();
        let refused = newest.clone().accept(9).unwrap_err().to_string();
        assert!(refused.contains("former primary: its timeline is 9, and timeline 10"), "{refused}");
        newest.accept(10).unwrap();
        assert!(!newest.is_current(Duration::from_secs(60)), "it was opened before");
        assert!(newest.is_current(Duration::ZERO));
    }

    #[test]
    fn hosts_in_another_order_have_the_same_timeline() {
        let host = |name: &str| PgConnectOptions::new_without_pgpass().host(name).port(1);
        Newest::of(&[host("newest-a"), host("newest-b")]).accept(2).unwrap();
        assert!(Newest::of(&[host("newest-b"), host("newest-a")]).accept(1).is_err());
        Newest::of(&[host("newest-a"), host("newest-c")]).accept(1).unwrap();
    }
}
