//! `houston cell`: the cells of the installation, and moving users between them.

mod moving;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use houston_domain::cell::ShardRange;
use houston_store::pool::display_target;
use serde::Serialize;

use super::agentable::table;
use super::{Context, Failure, runtime};
use crate::connect::{self, CellAddresses};
use crate::output::{print, print_json};

/// Show the cells of the installation (`jobs/cells.toml`), or move users between them.
#[derive(Debug, Args)]
pub(crate) struct Cell {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the cells with their shards, and whether each answers; exits 1 when one does not
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Move the users with these shards to another cell, while all others work. What is posted to them meanwhile waits, or is
    /// refused with 503 and repeated. May be ended and started again at any time
    Move(moving::Move),
}

/// A cell, as it is listed.
#[derive(Debug, Serialize)]
struct Listed {
    shards: ShardRange,
    /// Host, port and database.
    postgres: String,
    /// `up`, or why it cannot be used.
    state: String,
    is_up: bool,
    users: Option<i64>,
    /// Workers that claim there.
    workers: Option<usize>,
}

impl Cell {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let json = match self.action {
            Action::List { json } => json,
            Action::Move(command) => return command.run(context),
        };
        let addresses = connect::database(&context.loaded.settings, &context.folder)?;
        let cells = runtime()?.block_on(async {
            let mut cells = Vec::with_capacity(addresses.cells.count());
            for (shards, addresses) in addresses.cells.ranges() {
                cells.push(look(context, shards, addresses).await?);
            }
            Ok::<_, Failure>(cells)
        })?;
        if json {
            print_json(&serde_json::json!({"data": cells}));
        } else {
            show(&cells);
        }
        Ok(if cells.iter().all(|cell| cell.is_up) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

async fn look(context: &Context, shards: ShardRange, addresses: &CellAddresses) -> Result<Listed, Failure> {
    let postgres = display_target(&addresses.database_url);
    let away = |state: String| Listed {
        shards,
        postgres: postgres.clone(),
        state,
        is_up: false,
        users: None,
        workers: None,
    };
    if let Err(error) = connect::probe(&addresses.database_url).await {
        return Ok(away(format!("unreachable: {error}")));
    }
    let store = connect::open(&context.loaded.settings, &addresses.database_url)?;
    let read = async {
        store.check_schema().await?;
        Ok::<_, houston_store::Error>((store.count_users().await?, store.operator().list_workers().await?))
    };
    let listed = match read.await {
        Err(error) => away(error.to_string()),
        Ok((users, workers)) => Listed {
            state: "up".to_owned(),
            is_up: true,
            users: Some(users),
            workers: Some(workers.iter().filter(|worker| worker.claims()).count()),
            ..away(String::new())
        },
    };
    store.close().await;
    Ok(listed)
}

fn show(cells: &[Listed]) {
    let number = |number: Option<String>| number.unwrap_or_else(|| "?".to_owned());
    let row = |cell: &Listed| {
        [
            cell.shards.to_string(),
            cell.postgres.clone(),
            number(cell.users.map(|users| users.to_string())),
            number(cell.workers.map(|workers| workers.to_string())),
            cell.state.clone(),
        ]
    };
    let rows: Vec<[String; 5]> = cells.iter().map(row).collect();
    table(&["SHARDS", "POSTGRES", "USERS", "WORKERS", "STATE"], &rows).iter().for_each(|line| print(line));
}
