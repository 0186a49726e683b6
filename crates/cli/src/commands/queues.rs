//! `houston queues`: the work that waits in each lane, over all tenants.

use std::process::ExitCode;

use clap::Args;
use houston_domain::agentable::Urgency;
use houston_domain::lane_work::LaneWork;
use houston_queue::Lane;
use serde_json::json;

use super::agentable::{Database, table};
use super::{Context, Failure};
use crate::output::{print, print_json};

/// Show the work that waits in each lane, runs that go on, and what waits for people.
#[derive(Debug, Args)]
pub(crate) struct Queues {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

impl Queues {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        self.database.with(context, async |context, stores| {
            let kinds = context.loaded.agent_types();
            let urgency_of = |kind: &str| kinds.get(kind).map(|kind| kind.urgency);
            let lanes = [Urgency::Interactive, Urgency::Background];
            let mut works = lanes.map(|_| LaneWork::default());
            for store in stores.iter() {
                let work = store.operator().work().await?;
                for (sum, lane) in works.iter_mut().zip(lanes) {
                    *sum = sum.with(LaneWork::of(lane, &work.kinds, urgency_of, work.at));
                }
            }
            let named = || lanes.map(|lane| Lane::from(lane).as_str()).into_iter().zip(works);
            if self.json {
                let data = named().map(|(lane, work)| {
                    json!({
                        "lane": lane, "depth": work.queued, "oldest_age_s": work.oldest_age_s, "running": work.running,
                        "retrying": work.retrying, "put_off": work.put_off, "waiting": work.asking,
                        "capped": work.is_capped, "pending_slots": work.claimable,
                    })
                });
                print_json(&json!({"data": data.collect::<Vec<_>>()}));
                return Ok(ExitCode::SUCCESS);
            }
            let rows = named().map(|(lane, work)| {
                let more = if work.is_capped { "+" } else { "" };
                [
                    lane.to_owned(),
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
