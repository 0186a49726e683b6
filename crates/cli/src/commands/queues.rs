//! `houston queues`: the work that waits in each lane, over all tenants.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueEnum};
use houston_domain::agentable::Urgency;
use houston_domain::cell::Cells;
use houston_domain::lane_work::LaneWork;
use houston_queue::Lane;
use houston_store::Store;
use serde_json::json;

use super::agentable::{Database, table};
use super::{Context, Failure, audit};
use crate::config::Loaded;
use crate::output::{print, print_json, print_stderr};

/// How often the runs of a lane that drains are counted.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// Show the work that waits in each lane, runs that go on, and what waits for people; or pause or drain a lane.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Queues {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Workers claim nothing new of a lane; runs that they hold go on, and what is posted waits
    Pause {
        /// The lane
        lane: LaneName,
    },
    /// Pause a lane, and wait until none of its runs is at work; exits 1 if some are when the time is over
    Drain {
        /// The lane
        lane: LaneName,
        /// Seconds to wait at most, once workers know that the lane is paused; it stays paused
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u64>,
    },
    /// A paused or drained lane goes on
    Resume {
        /// The lane
        lane: LaneName,
    },
}

/// The lanes in which agentables wait, the most urgent first.
const LANES: [Urgency; 2] = [Urgency::Interactive, Urgency::Background];

/// A lane in which agentables wait.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum LaneName {
    Interactive,
    Background,
}

impl From<LaneName> for Lane {
    fn from(name: LaneName) -> Self {
        match name {
            LaneName::Interactive => Self::Interactive,
            LaneName::Background => Self::Background,
        }
    }
}

async fn set_paused(stores: &Cells<Store>, lane: &str, is_paused: bool) -> Result<(), Failure> {
    for store in stores.iter() {
        store.operator().set_lane_paused(lane, is_paused).await?;
    }
    let operation = if is_paused { "pause_queue" } else { "resume_queue" };
    audit::record(stores.home(), None, operation, lane.to_owned()).await;
    Ok(())
}

async fn switch(
    stores: &Cells<Store>,
    lane: LaneName,
    is_paused: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let lane = Lane::from(lane).as_str();
    set_paused(stores, lane, is_paused).await?;
    match json {
        true => print_json(&json!({"lane": lane, "paused": is_paused})),
        false => print(&format!("{lane}: {}", if is_paused { "paused" } else { "goes on" })),
    }
    Ok(ExitCode::SUCCESS)
}

/// The work of each lane, over all cells.
async fn works(loaded: &Loaded, stores: &Cells<Store>) -> Result<[LaneWork; 2], Failure> {
    let kinds = loaded.agent_types();
    let urgency_of = |kind: &str| kinds.get(kind).map(|kind| kind.urgency);
    let mut works = LANES.map(|_| LaneWork::default());
    for store in stores.iter() {
        let work = store.operator().work().await?;
        for (sum, lane) in works.iter_mut().zip(LANES) {
            *sum = sum.with(LaneWork::of(lane, &work.kinds, urgency_of, work.at));
        }
    }
    Ok(works)
}

/// How many runs of the lane living workers hold, and how many those that are dead. Those of kinds that this folder does not have
/// may be of any lane.
async fn at_work(loaded: &Loaded, stores: &Cells<Store>, lane: Lane) -> Result<(i64, i64), Failure> {
    let kinds = loaded.agent_types();
    let may_be_of = |kind: &str| kinds.get(kind).is_none_or(|kind| Lane::from(kind.urgency) == lane);
    let (mut running, mut orphaned) = (0, 0);
    for store in stores.iter() {
        let work = store.operator().work().await?;
        for of_kind in work.kinds.iter().filter(|work| may_be_of(&work.kind)) {
            running += of_kind.running - of_kind.orphaned;
            orphaned += of_kind.orphaned;
        }
    }
    Ok((running, orphaned))
}

/// What is said of runs whose worker is dead.
fn of_the_dead(orphaned: i64) -> String {
    match orphaned {
        0 => String::new(),
        count => format!("; of workers that died: {count}, which go on once the lane does"),
    }
}

/// Waits until no run of a paused lane is at work.
async fn drained(loaded: &Loaded, stores: &Cells<Store>, lane: Lane) -> Result<(), Failure> {
    let mut last = None;
    loop {
        for store in stores.iter() {
            if !store.operator().paused_lanes().await?.iter().any(|name| name == lane.as_str()) {
                return Err(Failure::Other(anyhow!("{}: was resumed before it was drained", lane.as_str())));
            }
        }
        let (running, _) = at_work(loaded, stores, lane).await?;
        if running == 0 {
            return Ok(());
        }
        if last.replace(running) != Some(running) {
            print_stderr(&format!("{}: draining, {running} still at work", lane.as_str()));
        }
        tokio::time::sleep(COUNT_EVERY).await;
    }
}

async fn drain(
    loaded: &Loaded,
    stores: &Cells<Store>,
    (lane, timeout): (Lane, Option<u64>),
    json: bool,
) -> Result<ExitCode, Failure> {
    set_paused(stores, lane.as_str(), true).await?;
    // A worker that does not know yet that the lane is paused may claim one more run. It looks twice: once it may renew its lease instead.
    let look = Duration::from_millis(loaded.settings.orchestrator.lease.look_ms);
    tokio::time::sleep(look * 2 + Duration::from_secs(1)).await;
    let waits = drained(loaded, stores, lane);
    let ended = match timeout {
        None => Some(waits.await),
        Some(seconds) => tokio::time::timeout(Duration::from_secs(seconds), waits).await.ok(),
    };
    let is_over = ended.transpose()?.is_some();
    let (found, orphaned) = at_work(loaded, stores, lane).await?;
    let running = if is_over { 0 } else { found };
    let is_drained = running == 0;
    let lane = lane.as_str();
    match json {
        true => print_json(&json!({
            "lane": lane, "paused": true, "running": running, "orphaned": orphaned, "drained": is_drained,
        })),
        false if is_drained => print(&format!("{lane}: paused (drained){}", of_the_dead(orphaned))),
        false => {
            let dead = of_the_dead(orphaned);
            print(&format!("{lane}: paused, not drained yet: {running} still at work{dead}"));
        }
    }
    Ok(if is_drained { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Queues {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let Self { action, json: as_json, database } = self;
        database.with(context, async |context, stores| match action {
            Some(Action::Pause { lane }) => switch(&stores, lane, true, as_json).await,
            Some(Action::Resume { lane }) => switch(&stores, lane, false, as_json).await,
            Some(Action::Drain { lane, timeout }) => {
                drain(&context.loaded, &stores, (lane.into(), timeout), as_json).await
            }
            None => list(&context.loaded, &stores, as_json).await,
        })
    }
}

async fn list(loaded: &Loaded, stores: &Cells<Store>, as_json: bool) -> Result<ExitCode, Failure> {
    let works = works(loaded, stores).await?;
    let mut paused = Vec::new();
    for store in stores.iter() {
        paused.extend(store.operator().paused_lanes().await?);
    }
    let named = || LANES.map(|lane| Lane::from(lane).as_str()).into_iter().zip(works);
    let is_paused = |lane: &str| paused.iter().any(|name| name == lane);
    if as_json {
        let data = named().map(|(lane, work)| {
            json!({
                "lane": lane, "depth": work.queued, "oldest_age_s": work.oldest_age_s, "running": work.running,
                "orphaned": work.orphaned, "retrying": work.retrying, "put_off": work.put_off, "waiting": work.asking,
                "paused": is_paused(lane), "capped": work.is_capped, "pending_slots": work.claimable,
            })
        });
        print_json(&json!({"data": data.collect::<Vec<_>>()}));
        return Ok(ExitCode::SUCCESS);
    }
    let rows = named().map(|(lane, work)| {
        let more = if work.is_capped { "+" } else { "" };
        [
            match (is_paused(lane), work.at_work()) {
                (false, _) => lane.to_owned(),
                (true, 0) => format!("{lane} (drained)"),
                (true, _) => format!("{lane} (draining)"),
            },
            format!("{}{more}", work.queued),
            format!("{} s", work.oldest_age_s),
            work.running.to_string(),
            work.retrying.to_string(),
            work.put_off.to_string(),
            work.asking.to_string(),
        ]
    });
    let heads = ["LANE", "DEPTH", "OLDEST", "RUNNING", "RETRYING", "PUT OFF", "FOR PEOPLE"];
    table(&heads, &rows.collect::<Vec<_>>()).iter().for_each(|line| print(line));
    Ok(ExitCode::SUCCESS)
}
