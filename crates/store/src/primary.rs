//! Several addresses of Postgres, of which one is the primary, and a pooler in front of it.
//!
//! sqlx connects to one host. A URL with several is divided here, and [`Addresses::follow_primary`] points the pool to the
//! primary: the host that is not in recovery, of several the one with the newest timeline, since a former primary that
//! comes back may not know yet that it is none. One with an older timeline than the newest that this process has seen is
//! refused, also if it is the only one. Connections that were open break with the former primary or are
//! closed; statements on them fail as in any outage, and callers try again.
//!
//! A pooler such as PgBouncer that shares connections between transactions keeps no session state. With `direct=host:port`
//! in the URL, what needs a session (the lease with its lock, notifications, batches with their planner settings,
//! migrations) goes there, and the pool alone to the pooler.

use std::str::FromStr;
use std::time::Duration;

use futures_util::future::join_all;
use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{ConnectOptions, Connection, PgConnection};

use crate::connections::{Connections, Pools};
use crate::error::Result;
use crate::timeline::{self, Newest};

/// How long a host may take to say whether it is the primary.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the primary is asked whether it still is one.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Pause between two searches for a primary.
const SEARCH_EVERY: Duration = Duration::from_millis(500);

/// The addresses of a URL.
#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses {
    /// For the pool.
    pub(crate) pool: Vec<PgConnectOptions>,
    /// For connections with session state; the same hosts unless there is a pooler.
    pub(crate) sessions: Vec<PgConnectOptions>,
    /// Whether the pool's connections go through a pooler.
    pub(crate) has_pooler: bool,
    /// The newest timeline of Postgres at these hosts.
    pub(crate) newest: Newest,
}

/// A URL in its parts.
struct Parts<'u> {
    /// Scheme, user and password, up to the hosts.
    start: String,
    hosts: &'u str,
    path: &'u str,
    /// The parameters that sqlx gets.
    query: String,
    direct: Option<&'u str>,
}

impl<'u> Parts<'u> {
    fn of(url: &'u str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (login, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let direct = query.split('&').find_map(|parameter| parameter.strip_prefix("direct="));
        let ours = |parameter: &&str| {
            !parameter.starts_with("direct=") && !parameter.starts_with("target_session_attrs=")
        };
        let query = query.split('&').filter(ours).collect::<Vec<_>>().join("&");
        Some(Self { start: format!("{scheme}://{login}"), hosts, path, query, direct })
    }

    fn options(&self, hosts: &str) -> Result<Vec<PgConnectOptions>> {
        let Self { start, path, query, .. } = self;
        let options = |host: &str| -> Result<PgConnectOptions> {
            Ok(PgConnectOptions::from_str(&format!("{start}{host}{path}?{query}"))?)
        };
        hosts.split(',').map(options).collect()
    }
}

/// The time-outs of a session are part of the fence: a worker that is paused inside a transaction must not block the
/// takeover of its runs for as long as it is paused.
fn with_settings(options: PgConnectOptions) -> PgConnectOptions {
    options.options([
        ("statement_timeout", "5s"),
        ("lock_timeout", "2s"),
        ("idle_in_transaction_session_timeout", "5s"),
        ("timezone", "UTC"),
    ])
}

/// Divides a URL: `postgres://user:password@a:5432,b:5432/houston`, perhaps with `?direct=c:5432,d:5432`. Connections of a
/// pooler get no settings at their start, since it would refuse them: the login must have them.
pub(crate) fn addresses(url: &str, name: &str) -> Result<Addresses> {
    let named = |options: PgConnectOptions| options.application_name(name);
    let Some(parts) = Parts::of(url) else {
        let options = with_settings(named(PgConnectOptions::from_str(url)?));
        let newest = Newest::default();
        return Ok(Addresses {
            pool: vec![options.clone()],
            sessions: vec![options],
            has_pooler: false,
            newest,
        });
    };
    let pool = parts.options(parts.hosts)?.into_iter().map(named);
    let Some(direct) = parts.direct else {
        let pool: Vec<_> = pool.map(with_settings).collect();
        let newest = Newest::of(&pool);
        return Ok(Addresses { sessions: pool.clone(), pool, has_pooler: false, newest });
    };
    let pool = pool.map(|options| options.extra_float_digits(None::<i8>)).collect();
    let sessions: Vec<_> = parts.options(direct)?.into_iter().map(named).map(with_settings).collect();
    let newest = Newest::of(&sessions);
    Ok(Addresses { pool, sessions, has_pooler: true, newest })
}

/// Connects to the only host, or to the primary of several. Fails if that has a lower timeline than the newest.
pub(crate) async fn connect(
    hosts: &[PgConnectOptions],
    newest: &Newest,
) -> Result<(PgConnectOptions, PgConnection)> {
    if let [host] = hosts {
        return Ok((host.clone(), host.connect().await?));
    }
    let mut refused = sqlx::Error::Configuration("no host of the URL is a primary".into());
    let mut best: Option<(u32, PgConnectOptions, PgConnection)> = None;
    for (host, asked) in hosts.iter().zip(join_all(hosts.iter().map(ask)).await) {
        match asked {
            Ok((Some(timeline), connection)) => {
                if best.as_ref().is_none_or(|(highest, ..)| *highest < timeline) {
                    best = Some((timeline, host.clone(), connection));
                }
            }
            Ok((None, _)) => {}
            Err(error) => refused = error,
        }
    }
    let (timeline, host, connection) = best.ok_or(refused)?;
    newest.accept(timeline)?;
    Ok((host, connection))
}

/// Connects to a host and asks for its timeline; `None`: it is a standby.
async fn ask(host: &PgConnectOptions) -> sqlx::Result<(Option<u32>, PgConnection)> {
    let asked = async {
        let mut connection = host.connect().await?;
        let timeline = timeline::of(&mut connection).await?;
        Ok::<_, sqlx::Error>((timeline, connection))
    };
    tokio::time::timeout(ANSWER_TIMEOUT, asked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

/// Points `pool` to a host; true if it was another before.
fn point(pool: &PgPool, host: PgConnectOptions) -> bool {
    let before = pool.connect_options();
    let address = |options: &PgConnectOptions| {
        (options.get_host().to_owned(), options.get_port(), options.get_socket().cloned())
    };
    let is_other = address(&before) != address(&host);
    if is_other {
        pool.set_connect_options(host);
    }
    is_other
}

/// Returns when the connection breaks or its server is no primary any more.
async fn watch(connection: &mut PgConnection, newest: &Newest) {
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        match tokio::time::timeout(ANSWER_TIMEOUT, timeline::of(connection)).await {
            Ok(Ok(Some(timeline))) => {
                if let Err(error) = newest.accept(timeline) {
                    return tracing::warn!(%error, "looking for the primary");
                }
            }
            Ok(Ok(None)) => return tracing::warn!("postgres became a standby, looking for the primary"),
            Ok(Err(error)) => {
                return tracing::warn!(%error, "postgres is lost, looking for the primary");
            }
            Err(_) => return tracing::warn!("postgres does not answer, looking for the primary"),
        }
    }
}

async fn follow(pools: &[&PgPool], hosts: &[PgConnectOptions], newest: &Newest) {
    if hosts.len() < 2 {
        return;
    }
    let mut said = String::new();
    loop {
        match connect(hosts, newest).await {
            Ok((host, mut connection)) => {
                let (name, port) = (host.get_host().to_owned(), host.get_port());
                // All of them: `any` would stop at the first.
                if pools.iter().filter(|pool| point(pool, host.clone())).count() > 0 {
                    tracing::info!(host = name, port, "another postgres is the primary");
                }
                said.clear();
                watch(&mut connection, newest).await;
            }
            Err(error) => {
                let error = error.to_string();
                if error != said {
                    tracing::warn!(error, "no postgres of the URL is the primary");
                    said = error;
                }
            }
        }
        tokio::time::sleep(SEARCH_EVERY).await;
    }
}

impl Addresses {
    /// Points the pools to the primary, if there are several hosts.
    pub(crate) async fn find_primary(&self, pools: &Pools, sessions: &PgPool) -> Result<()> {
        let pools: Vec<&PgPool> = pools.0.iter().map(Connections::pool).collect();
        for (pools, hosts) in [(&pools[..], &self.pool), (&[sessions], &self.sessions)] {
            if hosts.len() > 1 {
                let (host, connection) = connect(hosts, &self.newest).await?;
                for pool in pools {
                    point(pool, host.clone());
                }
                connection.close().await?;
            }
        }
        Ok(())
    }

    /// Points new connections to the primary whenever it changes; returns at once if there is one host.
    pub(crate) async fn follow_primary(&self, pools: &Pools, sessions: &PgPool) {
        let mut pools: Vec<&PgPool> = pools.0.iter().map(Connections::pool).collect();
        if self.has_pooler {
            let alone = [sessions];
            tokio::join!(
                follow(&pools, &self.pool, &self.newest),
                follow(&alone, &self.sessions, &self.newest)
            );
        } else {
            pools.push(sessions);
            follow(&pools, &self.pool, &self.newest).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(options: &[PgConnectOptions]) -> Vec<String> {
        options.iter().map(|options| format!("{}:{}", options.get_host(), options.get_port())).collect()
    }

    #[test]
    fn urls_with_several_hosts_are_divided() {
        let url = "postgres://u:p@a:1,b,c:3/houston?target_session_attrs=read-write&sslmode=disable";
        let parsed = addresses(url, "houston").unwrap();
        assert_eq!(hosts(&parsed.pool), ["a:1", "b:5432", "c:3"]);
        assert_eq!(hosts(&parsed.sessions), hosts(&parsed.pool));
        assert!(parsed.pool.iter().all(|options| options.get_database() == Some("houston")));
        assert!(parsed.pool.iter().all(|options| options.get_options().is_some()));
    }

    #[test]
    fn sessions_go_past_a_pooler() {
        let url = "postgres://u:p@bouncer:6432/houston?direct=a:1,b:2&sslmode=disable";
        let parsed = addresses(url, "houston").unwrap();
        assert_eq!(hosts(&parsed.pool), ["bouncer:6432"]);
        assert_eq!(parsed.pool[0].get_options(), None, "the pooler would refuse settings");
        assert_eq!(hosts(&parsed.sessions), ["a:1", "b:2"]);
        assert!(parsed.sessions[0].get_options().is_some_and(|options| options.contains("lock_timeout")));
    }

    #[test]
    fn sockets_stay_as_they_are() {
        let parsed = addresses("postgres://u@localhost:5432/h?host=/run/pg&sslmode=disable", "h").unwrap();
        let socket = parsed.pool[0].get_socket().map(|path| path.display().to_string());
        assert_eq!((parsed.pool.len(), socket.as_deref()), (1, Some("/run/pg")));
    }
}
