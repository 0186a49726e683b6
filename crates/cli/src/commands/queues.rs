//! `houston queues`: the work that waits in each lane, over all tenants.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use houston_domain::agentable::Urgency;
use houston_domain::cell::Cells;
use houston_domain::lane_work::LaneWork;
use houston_queue::Lane;
use houston_store::Store;
use serde_json::json;

use super::agentable::{Database, table};
use super::{Context, Failure, audit};
use crate::output::{print, print_json};

/// Show the work that waits in each lane, runs that go on, and what waits for people; or pause a lane.
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
    /// A paused lane goes on
    Resume {
        /// The lane
        lane: LaneName,
    },
}

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

async fn set_paused(stores: &Cells<Store>, action: Action, json: bool) -> Result<(), Failure> {
    let (lane, is_paused) = match action {
        Action::Pause { lane } => (Lane::from(lane).as_str(), true),
        Action::Resume { lane } => (Lane::from(lane).as_str(), false),
    };
    for store in stores.iter() {
        store.operator().set_lane_paused(lane, is_paused).await?;
    }
    let operation = if is_paused { "pause_queue" } else { "resume_queue" };
    audit::record(stores.home(), None, operation, lane.to_owned()).await;
    match json {
        true => print_json(&json!({"lane": lane, "paused": is_paused})),
        false => print(&format!("{lane}: {}", if is_paused { "paused" } else { "goes on" })),
    }
    Ok(())
}

impl Queues {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let Self { action, json: as_json, database } = self;
        database.with(context, async |context, stores| {
            if let Some(action) = action {
                set_paused(&stores, action, as_json).await?;
                return Ok(ExitCode::SUCCESS);
            }
            let kinds = context.loaded.agent_types();
            let urgency_of = |kind: &str| kinds.get(kind).map(|kind| kind.urgency);
            let lanes = [Urgency::Interactive, Urgency::Background];
            let mut works = lanes.map(|_| LaneWork::default());
            let mut paused = Vec::new();
            for store in stores.iter() {
                paused.extend(store.operator().paused_lanes().await?);
                let work = store.operator().work().await?;
                for (sum, lane) in works.iter_mut().zip(lanes) {
                    *sum = sum.with(LaneWork::of(lane, &work.kinds, urgency_of, work.at));
                }
            }
            let named = || lanes.map(|lane| Lane::from(lane).as_str()).into_iter().zip(works);
            let is_paused = |lane: &str| paused.iter().any(|name| name == lane);
            if as_json {
                let data = named().map(|(lane, work)| {
                    json!({
                        "lane": lane, "depth": work.queued, "oldest_age_s": work.oldest_age_s, "running": work.running,
                        "retrying": work.retrying, "put_off": work.put_off, "waiting": work.asking,
                        "paused": is_paused(lane), "capped": work.is_capped, "pending_slots": work.claimable,
                    })
                });
                print_json(&json!({"data": data.collect::<Vec<_>>()}));
                return Ok(ExitCode::SUCCESS);
            }
            let rows = named().map(|(lane, work)| {
                let more = if work.is_capped { "+" } else { "" };
                [
                    if is_paused(lane) { format!("{lane} (paused)") } else { lane.to_owned() },
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
        })
    }
}
