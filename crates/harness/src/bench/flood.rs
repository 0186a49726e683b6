//! One user posts far more messages than can be answered: how long another user's messages wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;
use tokio::task::JoinSet;

use super::report::Row;
use super::setup::Setup;
use super::spread::Spread;
use super::{Size, database, workload};
use crate::wait::wait_until;
use houston_testkit::console::{Progress, print_status};

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

impl Flood {
    /// How long a user's messages wait while another user floods.
    pub(crate) fn rows(&self) -> [Row; 2] {
        let (before, meanwhile) = (self.start_before_ms, self.start_meanwhile_ms);
        [
            Row::of("message to start, ms p50 / p99", before.to_string()),
            Row::of(format!("  while another floods ({} wait)", self.waiting), meanwhile.to_string())
                .target("p99 ≤ 1000", meanwhile.p99 <= 1000.0),
        ]
    }
}

/// Measures the other user alone, then again during the flood.
pub(crate) async fn measure(setup: &Setup<'_>, size: Size) -> Result<Flood> {
    let other = BenchUser::new(setup, "other", size.flood_runs / 4).await?;
    let start_before_ms = other.starts(setup, size.flood_runs).await?;

    let flooding = BenchUser::new(setup, "flooding", GOALS + 1).await?;
    print_status(&format!("flood: {} messages of one user", size.flood));
    insert_backlog(setup, &flooding, size.flood)?;
    let waiting = database::count(
        setup.servers,
        &format!("houston.run_locks l, generate_series(1, l.unread) where l.user_id = '{}'", flooding.id),
    )?;
    let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new([AtomicU64::new(0), AtomicU64::new(0)]));
    let mut clients = keep_posting(setup, &flooding, &stop, &counts).await?;
    let start_meanwhile_ms = other.starts(setup, size.flood_runs).await?;
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
    async fn new(setup: &Setup<'_>, name: &str, count: usize) -> Result<Self> {
        let mut connection = setup.connect().await?;
        let user = connection.user(name).await?;
        let mut goals = Vec::with_capacity(count);
        let mut progress = Progress::new(&format!("creating goals: {name}"), count as u64);
        for _ in 0..count {
            goals.push(connection.goal(&user, name).await?);
            progress.step();
        }
        Ok(Self { id: bare(&user).to_owned(), goals: Arc::new(goals) })
    }

    /// Posts `count` messages to the goals in turn; returns how long each waited until its run was claimed.
    async fn starts(&self, setup: &Setup<'_>, count: usize) -> Result<Spread> {
        let mut connection = setup.connect().await?;
        let message = workload::message();
        let mut progress = Progress::new("flood: messages of another user", count as u64);
        let before = database::count(setup.servers, &self.runs("true"))?;
        for goal in self.goals.iter().cycle().take(count) {
            tokio::time::sleep(GAP).await;
            connection.send_message(goal, &message).await?;
            progress.step();
        }
        let waiting = self.runs("started_at is null");
        let are_started = async || Ok(database::count(setup.servers, &waiting)? == 0);
        wait_until(PATIENCE, are_started, || "messages of the other user were not claimed".to_owned())
            .await?;
        let runs = database::count(setup.servers, &self.runs("true"))? - before;
        database::pick_up_times(setup.servers, &self.runs("true"), runs)
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
fn insert_backlog(setup: &Setup<'_>, flooding: &BenchUser, messages: usize) -> Result<()> {
    let mut progress = Progress::new("flood: inserting the backlog", messages as u64);
    let goals: Vec<String> = flooding.goals.iter().map(|goal| format!("'{}'", bare(goal))).collect();
    let goals = format!("array[{}]::uuid[]", goals.join(", "));
    for begin in (0..messages).step_by(AT_ONCE) {
        let end = messages.min(begin + AT_ONCE) - 1;
        let text = workload::content().replace('\'', "''");
        setup.servers.sql(&format!(
            "select count(p.seq) from generate_series({begin}, {end}) n
              cross join lateral (select ({goals})[case when n % 10 = 0 then 1 else 2 + n % {GOALS} end] as goal) g
              join houston.agentables a on a.id = g.goal
              cross join lateral houston.post_message(a.tenant_id, a.id, houston.id_beside(a.id), houston.id_beside(a.id),
                   '{text}', '{{}}', null, null, false, 'enqueue', 10, null) p"
        ))?;
        progress.reach(end as u64 + 1);
    }
    Ok(())
}

/// Starts clients of the flooding user that post as fast as they get responses, until `stop`.
async fn keep_posting(
    setup: &Setup<'_>,
    flooding: &BenchUser,
    stop: &Arc<AtomicBool>,
    counts: &Arc<[AtomicU64; 2]>,
) -> Result<JoinSet<Result<()>>> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let mut connection = setup.connect().await?;
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
