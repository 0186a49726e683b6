//! `houston workers`: lists the workers of the installation, or asks one to drain.

use std::process::ExitCode;

use anyhow::anyhow;
use chrono::SecondsFormat;
use clap::{Args, Subcommand};
use houston_domain::cell::Cells;
use houston_domain::id::WorkerId;
use houston_store::worker_list::RegisteredWorker;
use houston_store::{Error, Store};
use serde_json::{Value, json};

use super::agentable::{Database, table};
use super::{Context, Failure, audit};
use crate::output::{print, print_json, print_stderr};

/// List the workers with what each does, or ask one to drain.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Workers {
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
    /// Ask a worker to drain, as SIGTERM does: it claims nothing new, hands over its runs or waits for them, and ends
    Drain {
        /// `worker_…`
        id: WorkerId,
    },
}

impl Workers {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let Self { action, json, database } = self;
        database.with(context, async |_, stores| {
            match action {
                Some(Action::Drain { id }) => {
                    drain(&stores, id).await?;
                    match json {
                        true => print_json(&json!({"id": id, "drain_requested": true})),
                        false => print(&format!("{id}: asked to drain")),
                    }
                }
                None => list(&stores, json).await?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

async fn drain(stores: &Cells<Store>, id: WorkerId) -> Result<(), Failure> {
    for store in stores.iter() {
        match store.operator().drain_worker(id).await {
            Err(Error::NotFound { .. }) => {}
            asked => {
                asked?;
                audit::record(store, None, "drain_worker", id.to_string()).await;
                return Ok(());
            }
        }
    }
    Err(Failure::Other(anyhow!("there is no worker {id}; `houston workers` lists them")))
}

async fn list(stores: &Cells<Store>, is_json: bool) -> Result<(), Failure> {
    let mut workers = Vec::new();
    for store in stores.iter() {
        workers.extend(store.operator().list_workers().await?);
    }
    if is_json {
        let data: Vec<Value> = workers.iter().map(as_json).collect();
        print_json(&json!({"data": data}));
        return Ok(());
    }
    let rows: Vec<[String; 6]> = workers.iter().map(row).collect();
    table(&["ID", "NAME", "STATUS", "BUSY", "VERSION", "STARTED"], &rows).iter().for_each(|line| print(line));
    if workers.is_empty() {
        print_stderr("no worker is registered: start one with `houston work`");
    }
    Ok(())
}

fn status(worker: &RegisteredWorker) -> &'static str {
    match (worker.is_alive, worker.claims()) {
        (false, _) => "dead",
        (true, false) => "draining",
        (true, true) => "alive",
    }
}

fn row(worker: &RegisteredWorker) -> [String; 6] {
    let slots = worker.slots.map_or_else(|| "?".to_owned(), |slots| slots.to_string());
    [
        worker.id.to_string(),
        worker.name.clone(),
        status(worker).to_owned(),
        format!("{}/{slots}", worker.busy),
        worker.version.clone().unwrap_or_else(|| "-".to_owned()),
        worker.started_at.format("%Y-%m-%d %H:%M").to_string(),
    ]
}

fn as_json(worker: &RegisteredWorker) -> Value {
    let at = |time: chrono::DateTime<chrono::Utc>| time.to_rfc3339_opts(SecondsFormat::Millis, true);
    json!({
        "id": worker.id, "name": worker.name, "host": worker.host, "pid": worker.pid, "version": worker.version,
        "status": status(worker), "busy": worker.busy, "slots": worker.slots, "background_slots": worker.background_slots,
        "started_at": at(worker.started_at), "lease_until": at(worker.lease_until),
        "draining_since": worker.draining_since.map(at),
    })
}
