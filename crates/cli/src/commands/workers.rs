//! `houston workers`: lists the workers of the installation, or asks one to drain.

use anyhow::anyhow;
use clap::{Args, Subcommand};
use houston_domain::id::WorkerId;
use houston_protocol::worker::{WorkerResponse, WorkersResponse};
use serde_json::{Value, json};

use super::agentable::print_table;
use super::{Context, Failure, Result};
use crate::output::{print_either, print_json, print_stderr};

/// List the workers with what each does, or ask one to drain.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Workers {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Ask a worker to drain, as SIGTERM does: it claims nothing new, hands over its runs or waits for them, and ends
    Drain {
        /// `worker_…`
        id: WorkerId,
    },
}

impl Workers {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let Self { action, json } = self;
        context.with_api(async |api| {
            let api = api.of_installation();
            let Some(Action::Drain { id }) = action else {
                return list(&api.get::<WorkersResponse>("/v1/workers").await?.data, json);
            };
            let asked = api.post::<WorkerResponse>(&format!("/v1/workers/{id}/drain")).await;
            let missing = || anyhow!("there is no worker {id}; `houston workers` lists them");
            asked.map_err(|error| Failure::from(error).or_missing(missing))?;
            let done = json!({"id": id, "drain_requested": true});
            print_either(json, &done, &format!("{id}: asked to drain"));
            Ok(())
        })
    }
}

fn list(workers: &[WorkerResponse], is_json: bool) -> Result<()> {
    if is_json {
        print_json(&json!({"data": workers.iter().map(as_json).collect::<Value>()}));
        return Ok(());
    }
    print_table(["ID", "NAME", "STATUS", "BUSY", "VERSION", "STARTED"], workers.iter().map(row));
    if workers.is_empty() {
        print_stderr("no worker is registered: start one with `houston work`");
    }
    Ok(())
}

fn row(worker: &WorkerResponse) -> [String; 6] {
    let slots = worker.slots.total.map_or_else(|| "?".to_owned(), |slots| slots.to_string());
    [
        worker.id.to_string(),
        worker.name.clone(),
        worker.status.clone(),
        format!("{}/{slots}", worker.slots.busy),
        worker.version.clone().unwrap_or_else(|| "-".to_owned()),
        worker.started_at.0.format("%Y-%m-%d %H:%M").to_string(),
    ]
}

fn as_json(worker: &WorkerResponse) -> Value {
    json!({
        "id": worker.id, "name": worker.name, "host": worker.host, "pid": worker.pid, "version": worker.version,
        "status": worker.status, "busy": worker.slots.busy, "slots": worker.slots.total,
        "background_slots": worker.slots.background, "started_at": worker.started_at, "lease_until": worker.lease_until,
        "draining_since": worker.draining_since,
    })
}
