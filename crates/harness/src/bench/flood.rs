//! One user posts far more messages than can be answered: how long another user's messages wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinSet;

use super::installation::BenchInstallation;
use super::spread::Spread;
use super::{Size, database, workload};
use crate::installation::goal;
use houston_xtask::console::{Progress, print_status};

/// Goals that get 90 % of the flood; one further goal gets a tenth of it alone.
const GOALS: usize = 1_000;
/// Messages per transaction when the backlog is inserted with SQL.
const AT_ONCE: usize = 1_000;
/// Clients that keep posting while the other user is measured.
const CLIENTS: usize = 4;
/// Pause between two messages of the other user.
const GAP: Duration = Duration::from_millis(20);
/// Timeout for the start of the other user's runs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The result.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Flood {
    /// Unread messages when the measurement began.
    pub(crate) waiting: u64,
    /// Messages posted over HTTP during the measurement and accepted with 202.
    pub(crate) accepted: u64,
    /// The same, rejected with 429.
    pub(crate) refused: u64,
    /// The other user's messages: stored → run claimed, by Postgres' clock, before the flood and during it.
    pub(crate) start_before_ms: Spread,
    pub(crate) start_meanwhile_ms: Spread,
}

/// Measures the other user alone, then again during the flood.
pub(crate) async fn measure(installation: &BenchInstallation<'_>, size: Size) -> Result<Flood> {
    let other = BenchUser::new(installation, "other", size.flood_runs / 4).await?;
    let start_before_ms = other.starts(installation, size.flood_runs).await?;

    let flooding = BenchUser::new(installation, "flooding", GOALS + 1).await?;
    print_status(&format!("flood: {} messages of one user", size.flood));
    insert_backlog(installation, &flooding, size.flood)?;
    let waiting = database::count(
        installation.servers,
        &format!("houston.run_locks l, generate_series(1, l.unread) where l.user_id = '{}'", flooding.id),
    )?;
    let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new([AtomicU64::new(0), AtomicU64::new(0)]));
    let mut clients = keep_posting(installation, &flooding, &stop, &counts).await?;
    let start_meanwhile_ms = other.starts(installation, size.flood_runs).await?;
    stop.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let [accepted, refused] = [0, 1].map(|nth| counts[nth].load(Ordering::Relaxed));
    Ok(Flood { waiting, accepted, refused, start_before_ms, start_meanwhile_ms })
}

/// A user with goals.
struct BenchUser {
    /// UUID without hyphens.
    id: String,
    goals: Arc<Vec<String>>,
}

impl BenchUser {
    async fn new(installation: &BenchInstallation<'_>, name: &str, count: usize) -> Result<Self> {
        let user = installation.houston.user(name).await?;
        let mut connection = installation.houston.connect().await?;
        let mut goals = Vec::with_capacity(count);
        let mut progress = Progress::new(&format!("creating goals: {name}"), count as u64);
        for _ in 0..count {
            goals.push(goal(&mut connection, &user, name).await?);
            progress.step();
        }
        Ok(Self { id: bare(&user).to_owned(), goals: Arc::new(goals) })
    }

    /// Posts `count` messages to the goals in turn; returns how long each waited until its run was claimed.
    async fn starts(&self, installation: &BenchInstallation<'_>, count: usize) -> Result<Spread> {
        let mut connection = installation.houston.connect().await?;
        let message = workload::message();
        let mut progress = Progress::new("flood: messages of another user", count as u64);
        let before = database::count(installation.servers, &self.runs("true"))?;
        for goal in self.goals.iter().cycle().take(count) {
            tokio::time::sleep(GAP).await;
            connection.post(&format!("/v1/goals/{goal}/messages"), &message).await?.json::<Value>()?;
            progress.step();
        }
        let end = Instant::now() + PATIENCE;
        while database::count(installation.servers, &self.runs("started_at is null"))? > 0 {
            ensure!(Instant::now() < end, "messages of the other user were not claimed");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let runs = database::count(installation.servers, &self.runs("true"))? - before;
        let times = database::query(
            installation.servers,
            &format!(
                "select extract(epoch from started_at - created_at) * 1000 from {} \
                  order by created_at desc limit {runs}",
                self.runs("true")
            ),
        )?;
        let times = times.lines().filter_map(|time| time.parse::<f64>().ok());
        Ok(Spread::of(times.map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1000.0))))
    }

    fn runs(&self, condition: &str) -> String {
        let goals = format!("select id from houston.agentables where user_id = '{}'", self.id);
        format!("houston.runs where agentable_id in ({goals}) and {condition}")
    }
}

/// The UUID of an API id: `user_agent_00aa` is `00aa`.
fn bare(id: &str) -> &str {
    id.rsplit('_').next().unwrap_or(id)
}

/// Posts messages with SQL, which bypasses the limit on waiting messages.
fn insert_backlog(installation: &BenchInstallation<'_>, flooding: &BenchUser, messages: usize) -> Result<()> {
    let mut progress = Progress::new("flood: inserting the backlog", messages as u64);
    let goals: Vec<String> = flooding.goals.iter().map(|goal| format!("'{}'", bare(goal))).collect();
    let goals = format!("array[{}]::uuid[]", goals.join(", "));
    for begin in (0..messages).step_by(AT_ONCE) {
        let end = messages.min(begin + AT_ONCE) - 1;
        let text = workload::content().replace('\'', "''");
        database::query(
            installation.servers,
            &format!(
                "select count(p.seq) from generate_series({begin}, {end}) n
                  cross join lateral (select ({goals})[case when n % 10 = 0 then 1 else 2 + n % {GOALS} end] as goal) g
                  join houston.agentables a on a.id = g.goal
                  cross join lateral houston.post_message(a.tenant_id, a.id, houston.id_beside(a.id), houston.id_beside(a.id),
                       '{text}', '{{}}', null, null, false, 'enqueue', 10, null) p"
            ),
        )?;
        progress.reach(end as u64 + 1);
    }
    Ok(())
}

/// Starts clients of the flooding user that post as fast as they get responses, until `stop`.
async fn keep_posting(
    installation: &BenchInstallation<'_>,
    flooding: &BenchUser,
    stop: &Arc<AtomicBool>,
    counts: &Arc<[AtomicU64; 2]>,
) -> Result<JoinSet<Result<()>>> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let mut connection = installation.houston.connect().await?;
        let (goals, stop, counts) = (Arc::clone(&flooding.goals), Arc::clone(stop), Arc::clone(counts));
        clients.spawn(async move {
            let message = workload::message();
            for goal in goals.iter().cycle().skip(client * GOALS / CLIENTS) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let answer = connection.post(&format!("/v1/goals/{goal}/messages"), &message).await?;
                ensure!([202, 429].contains(&answer.status), "{}", answer.status);
                counts[usize::from(answer.status == 429)].fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    Ok(clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_id_has_no_prefix() {
        assert_eq!(bare("user_agent_00aa"), "00aa");
    }
}
