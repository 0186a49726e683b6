//! `houston cell`: the cells of the installation, adding one, and moving users between them.

mod adding;
mod moving;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use houston_domain::cell::{CellName, Cells, ShardRange};
use houston_store::Store;
use houston_store::moves::Moves;
use houston_store::pool::display_target;
use serde::Serialize;

use super::agentable::table;
use super::{Context, Failure, runtime};
use crate::connect::{self, CellAddresses};
use crate::output::{print, print_json};

/// Show the cells of the installation (`jobs/cells.toml`), add one, or move users between them.
#[derive(Debug, Args)]
pub(crate) struct Cell {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the cells with the shards that each has now, and whether it answers; exits 1 when one does not
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Prepare a cell that was added to cells.toml with a `name`: its schema, and copies of tenants, keys and agents. May be
    /// repeated
    Add(adding::Add),
    /// Move the users with these shards to another cell, while all others work. What is posted to them meanwhile waits, or is
    /// refused with 503 and repeated. May be ended and started again at any time
    Move(moving::Move),
}

/// A cell, as it is listed.
#[derive(Debug, Serialize)]
struct Listed {
    /// Its name: the shards with which it began, or that of cells.toml.
    cell: CellName,
    /// The shards that it has now.
    shards: Vec<ShardRange>,
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
            Action::Add(command) => return command.run(context),
            Action::Move(command) => return command.run(context),
        };
        let addresses = connect::database(&context.loaded.settings, &context.folder)?;
        let cells = runtime()?.block_on(async {
            let stores = connect::open_all(&context.loaded.settings, &addresses)?;
            let mut cells = Vec::with_capacity(stores.count());
            for ((name, addresses), store) in addresses.cells.named().zip(stores.iter()) {
                cells.push(look(name, addresses, store).await);
            }
            // What a cell that is away knows, the others know, too.
            let _ = Moves::new(&stores.map(Store::api)).follow_once().await;
            for (cell, shards) in cells.iter_mut().zip(stores.shards()) {
                cell.shards = shards;
            }
            close(&stores).await;
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

async fn close(stores: &Cells<Store>) {
    for store in stores.iter() {
        store.close().await;
    }
}

async fn look(name: &CellName, addresses: &CellAddresses, store: &Store) -> Listed {
    let away = |state: String| Listed {
        cell: name.clone(),
        shards: Vec::new(),
        postgres: display_target(&addresses.database_url),
        state,
        is_up: false,
        users: None,
        workers: None,
    };
    if let Err(error) = connect::probe(&addresses.database_url).await {
        return away(format!("unreachable: {error}"));
    }
    let read = async {
        store.find_primary().await?;
        store.check_schema().await?;
        Ok::<_, houston_store::Error>((store.count_users().await?, store.operator().list_workers().await?))
    };
    match read.await {
        Err(error) => away(error.to_string()),
        Ok((users, workers)) => Listed {
            is_up: true,
            users: Some(users),
            workers: Some(workers.iter().filter(|worker| worker.claims()).count()),
            ..away("up".to_owned())
        },
    }
}

fn show(cells: &[Listed]) {
    let number = |number: Option<String>| number.unwrap_or_else(|| "?".to_owned());
    let row = |cell: &Listed| {
        let shards: Vec<String> = cell.shards.iter().map(ToString::to_string).collect();
        [
            cell.cell.to_string(),
            if shards.is_empty() { "none".to_owned() } else { shards.join(", ") },
            cell.postgres.clone(),
            number(cell.users.map(|users| users.to_string())),
            number(cell.workers.map(|workers| workers.to_string())),
            cell.state.clone(),
        ]
    };
    let rows: Vec<[String; 6]> = cells.iter().map(row).collect();
    let heads = ["CELL", "SHARDS", "POSTGRES", "USERS", "WORKERS", "STATE"];
    table(&heads, &rows).iter().for_each(|line| print(line));
}
