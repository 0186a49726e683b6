//! `houston queues`: the work that waits in each lane, over all tenants.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use houston_api::{Local, LocalError};
use houston_protocol::queue::{QueueResponse, QueuesResponse};
use serde_json::json;

use super::agentable::print_table;
use super::{Context, Failure, Result};
use crate::output::{print_either, print_json, print_stderr};

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
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Workers claim nothing new of a lane; runs that they hold go on, and what is posted waits
    Pause {
        /// The lane
        #[arg(value_parser = LANES)]
        lane: String,
    },
    /// Pause a lane, and wait until none of its runs is at work; exits 1 if some are when the time is over
    Drain {
        /// The lane
        #[arg(value_parser = LANES)]
        lane: String,
        /// Seconds to wait at most, once workers know that the lane is paused; it stays paused
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u64>,
    },
    /// A paused or drained lane goes on
    Resume {
        /// The lane
        #[arg(value_parser = LANES)]
        lane: String,
    },
}

/// The names of the lanes in which agentables wait.
const LANES: [&str; 2] = ["interactive", "background"];

async fn read(api: &Local, lane: &str) -> Result<QueueResponse, LocalError> {
    api.get(&format!("/v1/queues/{lane}/stats")).await
}

async fn set_paused(api: &Local, lane: &str, is_paused: bool) -> Result<QueueResponse, LocalError> {
    let action = if is_paused { "pause" } else { "resume" };
    api.post(&format!("/v1/queues/{lane}/{action}")).await
}

async fn switch(api: &Local, lane: &str, is_paused: bool, json: bool) -> Result<ExitCode> {
    set_paused(api, lane, is_paused).await?;
    let text = format!("{lane}: {}", if is_paused { "paused" } else { "goes on" });
    print_either(json, &json!({"lane": lane, "paused": is_paused}), &text);
    Ok(ExitCode::SUCCESS)
}

/// How many runs of the lane living workers hold.
fn at_work(lane: &QueueResponse) -> i64 {
    lane.running - lane.orphaned
}

/// Waits until no run of a paused lane is at work.
async fn drained(api: &Local, lane: &str) -> Result<()> {
    let mut last = None;
    loop {
        let found = read(api, lane).await?;
        if !found.paused {
            return Err(Failure::Other(anyhow!("{}: was resumed before it was drained", found.lane)));
        }
        let running = at_work(&found);
        if running == 0 {
            return Ok(());
        }
        if last.replace(running) != Some(running) {
            print_stderr(&format!("{}: draining, {running} still at work", found.lane));
        }
        tokio::time::sleep(COUNT_EVERY).await;
    }
}

/// `look`: within this time, each worker looks whether the lane is paused.
async fn drain(api: &Local, lane: &str, look: Duration, limit: Option<u64>, json: bool) -> Result<ExitCode> {
    set_paused(api, lane, true).await?;
    // A worker that does not know yet that the lane is paused may claim one more run. It looks twice: once it may renew its lease instead.
    tokio::time::sleep(look * 2 + Duration::from_secs(1)).await;
    let most = limit.map_or(Duration::MAX, Duration::from_secs);
    let is_over = tokio::time::timeout(most, drained(api, lane)).await.ok().transpose()?.is_some();
    let found = read(api, lane).await?;
    let (lane, orphaned) = (&found.lane, found.orphaned);
    let running = if is_over { 0 } else { at_work(&found) };
    let is_drained = running == 0;
    let dead = match orphaned {
        0 => String::new(),
        count => format!("; of workers that died: {count}, which go on once the lane does"),
    };
    let text = match is_drained {
        true => format!("{lane}: paused (drained){dead}"),
        false => format!("{lane}: paused, not drained yet: {running} still at work{dead}"),
    };
    let found = json!({
        "lane": lane, "paused": true, "running": running, "orphaned": orphaned, "drained": is_drained,
    });
    print_either(json, &found, &text);
    Ok(if is_drained { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Queues {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode> {
        let Self { action, json: as_json } = self;
        let look = Duration::from_millis(context.loaded.settings.orchestrator.lease.look_ms);
        context.with_api(async |api| {
            let api = api.of_installation();
            match action {
                Some(Action::Pause { lane }) => switch(api, &lane, true, as_json).await,
                Some(Action::Resume { lane }) => switch(api, &lane, false, as_json).await,
                Some(Action::Drain { lane, timeout }) => drain(api, &lane, look, timeout, as_json).await,
                None => list(api, as_json).await,
            }
        })
    }
}

async fn list(api: &Local, as_json: bool) -> Result<ExitCode> {
    let QueuesResponse { data: lanes } = api.get("/v1/queues").await?;
    if as_json {
        let data = lanes.iter().map(|lane| {
            json!({
                "lane": lane.lane, "depth": lane.depth, "oldest_age_s": lane.oldest_age_s, "running": lane.running,
                "orphaned": lane.orphaned, "retrying": lane.retrying, "put_off": lane.put_off, "waiting": lane.waiting,
                "paused": lane.paused, "capped": lane.capped, "pending_slots": lane.scaling.pending_slots,
            })
        });
        print_json(&json!({"data": data.collect::<Vec<_>>()}));
        return Ok(ExitCode::SUCCESS);
    }
    let rows = lanes.iter().map(|lane| {
        let more = if lane.capped { "+" } else { "" };
        [
            match (lane.paused, at_work(lane)) {
                (false, _) => lane.lane.clone(),
                (true, 0) => format!("{} (drained)", lane.lane),
                (true, _) => format!("{} (draining)", lane.lane),
            },
            format!("{}{more}", lane.depth),
            format!("{} s", lane.oldest_age_s),
            lane.running.to_string(),
            lane.retrying.to_string(),
            lane.put_off.to_string(),
            lane.waiting.to_string(),
        ]
    });
    let heads = ["LANE", "DEPTH", "OLDEST", "RUNNING", "RETRYING", "PUT OFF", "FOR PEOPLE"];
    print_table(heads, rows);
    Ok(ExitCode::SUCCESS)
}
