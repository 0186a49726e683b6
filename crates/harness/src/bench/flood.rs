//! One user posts far more than can be answered: what another user notices of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinSet;

use super::spread::Spread;
use super::stage::Stage;
use super::{Size, database, workload};
use crate::installation::goal;
use houston_xtask::console::{Progress, tell};

/// Goals the flood is spread over; one more takes a tenth of it alone.
const GOALS: usize = 1_000;
/// Messages of one transaction, when the flood is laid out through SQL.
const AT_ONCE: usize = 1_000;
/// Clients that go on posting while the other user is measured.
const CLIENTS: usize = 4;
/// Between two messages of the other user.
const GAP: Duration = Duration::from_millis(20);
/// How long the other user's runs may take to start.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Flood {
    /// Messages that waited unread when the measuring began.
    pub(crate) waiting: u64,
    /// Posted over HTTP meanwhile: accepted, and refused with 429.
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    /// Message stored → run claimed, of the other user, by Postgres' clock: before, and meanwhile.
    pub(crate) start_before_ms: Spread,
    pub(crate) start_meanwhile_ms: Spread,
}

/// Measures the other user alone, then again while the flood waits and goes on.
pub(crate) async fn measure(stage: &Stage<'_>, size: Size) -> Result<Flood> {
    let other = Party::new(stage, "other", size.flood_runs / 4).await?;
    let start_before_ms = other.starts(stage, size.flood_runs).await?;

    let flooding = Party::new(stage, "flooding", GOALS + 1).await?;
    tell(&format!("flood: {} messages of one user", size.flood));
    lay_out(stage, &flooding, size.flood)?;
    let waiting = database::count(
        stage.servers,
        &format!("houston.run_locks l, generate_series(1, l.unread) where l.user_id = '{}'", flooding.id),
    )?;
    let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new([AtomicU64::new(0), AtomicU64::new(0)]));
    let mut clients = post_on(stage, &flooding, &stop, &counts).await?;
    let start_meanwhile_ms = other.starts(stage, size.flood_runs).await?;
    stop.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let [accepted, refused] = [0, 1].map(|nth| counts[nth].load(Ordering::Relaxed));
    Ok(Flood { waiting, accepted, refused, start_before_ms, start_meanwhile_ms })
}

/// A user with goals.
struct Party {
    /// As Postgres writes it, without hyphens.
    id: String,
    goals: Arc<Vec<String>>,
}

impl Party {
    async fn new(stage: &Stage<'_>, name: &str, count: usize) -> Result<Self> {
        let user = stage.houston.user(name).await?;
        let mut connection = stage.houston.connect().await?;
        let mut goals = Vec::with_capacity(count);
        let mut progress = Progress::new(&format!("making goals: {name}"), count as u64);
        for _ in 0..count {
            goals.push(goal(&mut connection, &user, name).await?);
            progress.step();
        }
        Ok(Self { id: bare(&user).to_owned(), goals: Arc::new(goals) })
    }

    /// Posts `count` messages, one after the other to each goal in turn, and says how long each waited for a run.
    async fn starts(&self, stage: &Stage<'_>, count: usize) -> Result<Spread> {
        let mut connection = stage.houston.connect().await?;
        let message = workload::message();
        let mut progress = Progress::new("flood: messages of another user", count as u64);
        let before = database::count(stage.servers, &self.runs("true"))?;
        for goal in self.goals.iter().cycle().take(count) {
            tokio::time::sleep(GAP).await;
            connection.post(&format!("/v1/goals/{goal}/messages"), &message).await?.json::<Value>()?;
            progress.step();
        }
        let end = Instant::now() + PATIENCE;
        while database::count(stage.servers, &self.runs("started_at is null"))? > 0 {
            ensure!(Instant::now() < end, "messages of the other user were not taken");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let runs = database::count(stage.servers, &self.runs("true"))? - before;
        let times = database::ask(
            stage.servers,
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

/// The UUID of an id as the API shows it.
fn bare(shown: &str) -> &str {
    shown.rsplit('_').next().unwrap_or(shown)
}

/// Posts through SQL, past the cap: what a user could pile up before there was one.
fn lay_out(stage: &Stage<'_>, flooding: &Party, messages: usize) -> Result<()> {
    let mut progress = Progress::new("flood: laying it out", messages as u64);
    let goals: Vec<String> = flooding.goals.iter().map(|goal| format!("'{}'", bare(goal))).collect();
    let goals = format!("array[{}]::uuid[]", goals.join(", "));
    for begin in (0..messages).step_by(AT_ONCE) {
        let end = messages.min(begin + AT_ONCE) - 1;
        let text = workload::content().replace('\'', "''");
        database::ask(
            stage.servers,
            &format!(
                "select count(p.seq) from generate_series({begin}, {end}) n
                  cross join lateral (select ({goals})[case when n % 10 = 0 then 1 else 2 + n % {GOALS} end] as goal) g
                  join houston.agentables a on a.id = g.goal
                  cross join lateral houston.post_message(a.tenant_id, a.id, gen_random_uuid(), gen_random_uuid(),
                       '{text}', '{{}}', null, null, false, 'enqueue', 10, null) p"
            ),
        )?;
        progress.reach(end as u64 + 1);
    }
    Ok(())
}

/// Clients of the flooding user that post as fast as they are answered, until `stop`.
async fn post_on(
    stage: &Stage<'_>,
    flooding: &Party,
    stop: &Arc<AtomicBool>,
    counts: &Arc<[AtomicU64; 2]>,
) -> Result<JoinSet<Result<()>>> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let mut connection = stage.houston.connect().await?;
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
    fn an_id_as_postgres_takes_it() {
        assert_eq!(bare("user_agent_00aa"), "00aa");
    }
}
