//! `houston cell`: the cells of the installation, adding one, and moving users between them.

use std::collections::{HashSet, VecDeque};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use houston_domain::cell::{CellName, Cells, ShardRange};
use houston_domain::id::{Shard, TenantId, shard};
use houston_store::Store;
use houston_store::cell_move::{Contents, Moved, Names, settle};
use houston_store::copies::Copies;
use houston_store::moves::Moves;
use houston_store::pool::display_target;
use houston_store::worker_list::RegisteredWorker;
use serde::Serialize;
use tokio::time::Instant;

use super::agentable::print_table;
use super::{Context, Failure, Result, audit, runtime};
use crate::connect::{self, CellAddresses};
use crate::output::{print, print_either, print_json, print_stderr};

/// About so many users are moved at once, so that nothing that is posted to them waits long.
const USERS: usize = 32;
/// The pause before a shard that could not be moved is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// Show the cells of the installation (`jobs/cells.toml`), add one, or move users between them.
#[derive(Debug, Subcommand)]
pub(crate) enum Cell {
    /// List the cells with the shards that each has now, and whether it answers; exits 1 when one does not
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Prepare a cell that was added to cells.toml with a `name`: its schema, and copies of tenants, keys and agents. May be
    /// repeated
    Add(Add),
    /// Move the users with these shards to another cell, while all others work. What is posted to them meanwhile waits, or is
    /// refused with 503 and repeated. May be ended and started again at any time
    Move(Move),
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
    pub(crate) fn run(self, context: Context) -> Result<ExitCode> {
        let json = match self {
            Self::List { json } => json,
            Self::Add(command) => return command.run(&context),
            Self::Move(command) => return command.run(&context),
        };
        let addresses = connect::existing(&context.loaded.settings, &context.folder, false)?;
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
            connect::close(&stores).await;
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
        Ok::<_, houston_store::Error>((store.count_users().await?, store.api().list_workers().await?))
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
    print_table(["CELL", "SHARDS", "POSTGRES", "USERS", "WORKERS", "STATE"], cells.iter().map(row));
}

/// Prepare a cell that was added to cells.toml.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Its name in cells.toml
    name: CellName,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Add {
    fn run(self, context: &Context) -> Result<ExitCode> {
        let settings = &context.loaded.settings;
        let Some(number) = settings.cells().number_named(&self.name) else {
            return Err(Failure::Usage(missing(&self.name, settings.has_cells())));
        };
        context.with_databases(async |stores, addresses| {
            for (nth, store) in stores.iter().enumerate() {
                if nth != number {
                    store.check_schema().await?;
                }
            }
            if let (Some(store), Some(address)) = (stores.get(number), addresses.cells.get(number)) {
                self.check_owner(stores, (number, store), address).await?;
                self.prepare(store).await?;
            }
            let apis = stores.map(Store::api);
            Copies::new(&apis).copy_all().await?;
            Moves::new(&apis).follow_once().await?;
            audit::record(stores.home(), None, "add_cell", self.name.to_string()).await;
            self.report(stores, number);
            Ok(ExitCode::SUCCESS)
        })
    }

    /// Refuses a database of others, before anything is written to it.
    async fn check_owner(
        &self,
        stores: &Cells<Store>,
        (number, store): (usize, &Store),
        address: &CellAddresses,
    ) -> Result<()> {
        let refusal = |found: &str| {
            Failure::Usage(anyhow!(
                "the database of the cell {} at {} {found}. Nothing was written to it. Give the cell an empty database in \
                 cells.toml, and run this command again",
                self.name,
                display_target(&address.database_url)
            ))
        };
        let identity = store.identity().await?;
        for (nth, (name, other)) in stores.named().enumerate() {
            if nth != number && other.identity().await? == identity {
                return Err(refusal(&format!("is that of the cell {name}, under another address")));
            }
        }
        // The home has what the others get copies of.
        if number == 0 {
            return Ok(());
        }
        let (contents, home) = (store.contents().await?, stores.home().contents().await?);
        owner(&self.name, &contents, &home.tenants).map_or(Ok(()), |found| Err(refusal(&found)))
    }

    async fn prepare(&self, store: &Store) -> Result<()> {
        store.migrate().await?;
        let found = store.row_security().await?;
        if let Some(todo) = found.todo() {
            print_stderr(&format!("row-level security is {found}: {todo}"));
        }
        if store.can_get_users().await? {
            return Ok(());
        }
        Err(Failure::Usage(anyhow!(
            "the Postgres of the cell {} cannot get users: set max_prepared_transactions = 4 in its postgresql.conf (0 is the \
             default), restart it, and run this command again",
            self.name
        )))
    }

    fn report(&self, stores: &Cells<Store>, number: usize) {
        let Self { name, json } = self;
        let shards = stores.shards().into_iter().nth(number).unwrap_or_default();
        if *json {
            print_json(&serde_json::json!({"cell": name, "shards": shards}));
            return;
        }
        print(&format!(
            "the cell {name} is ready: its schema is up to date, and tenants, keys and agents are copied"
        ));
        if shards.is_empty() {
            print(&format!(
                "it has no users yet. Next:\n\
                 1. give all machines this cells.toml, and restart `houston serve` and `houston work` one after the other\n\
                 2. move users: houston cell move f000-ffff --to {name}"
            ));
        }
    }
}

/// Of whom else the database is that the cell with this name was given. `None`: it has nothing of others; an earlier attempt to add
/// the cell may have filled it. `ours`: the tenants of the installation.
fn owner(name: &CellName, there: &Contents, ours: &[TenantId]) -> Option<String> {
    let all = there.tenants.len();
    let strange = there.tenants.iter().filter(|tenant| !ours.contains(tenant)).count();
    if strange > 0 {
        return Some(format!(
            "belongs to another installation: {strange} of its {all} tenants are unknown to this one"
        ));
    }
    if let Some(other) = there.names.iter().find(|other| *other != name) {
        return Some(format!("is that of the cell {other} of this installation, which keeps its name"));
    }
    let began_with_users = there.has_users && there.names.is_empty() && name.shards().is_none();
    began_with_users.then(|| {
        "has users of this installation, and none was moved to it: it is that of a cell with shards, or a copy of one".to_owned()
    })
}

/// What to write into cells.toml.
fn missing(name: &CellName, has_cells: bool) -> anyhow::Error {
    let first = if has_cells {
        ""
    } else {
        "[[cells]]                       # what this installation has now; DATABASE_URL and HOUSTON_REDIS_URL are not set any more\n\
         shards = \"0000-ffff\"\ndatabase_url = \"postgres://…\"\nredis_url = \"redis://…\"\n\n"
    };
    anyhow!(
        "there is no cell {name} in cells.toml (folder of --jobs). Add it, and run this command again:\n\n{first}\
         [[cells]]\nname = \"{name}\"\ndatabase_url = \"postgres://…\"\nredis_url = \"redis://…\""
    )
}

/// Move users to another cell.
#[derive(Debug, Args)]
pub(crate) struct Move {
    /// Their shards: `9000-9fff`
    shards: ShardRange,
    /// The cell that gets them, by its name or its shards in cells.toml
    #[arg(long, value_name = "CELL")]
    to: CellName,
    /// How many seconds to wait for runs that go on, and for events that triggers and webhooks have not read; users with longer ones stay, and the exit code is 1
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(..=604_800))]
    wait: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Move {
    fn run(self, context: &Context) -> Result<ExitCode> {
        context.with_databases(async |stores, _| {
            let Some(to) = stores.number_named(&self.to) else {
                let names: Vec<String> = stores.named().map(|(name, _)| name.to_string()).collect();
                let names = names.join(", ");
                return Err(Failure::Usage(anyhow!("there is no cell {}; there are: {names}", self.to)));
            };
            connect::check_schemas(stores).await?;
            let apis = stores.map(Store::api);
            let settled = settle(&apis, Duration::ZERO).await?;
            Moves::new(&apis).follow_once().await?;
            check_workers(stores, to).await?;
            // What users refer to must be there before them.
            Copies::new(&apis).copy_all().await?;
            let target = self.target(stores, to);
            let begun = if settled == 0 { "begin_move_shards" } else { "resume_move_shards" };
            audit::record(stores.home(), None, begun, target.clone()).await;
            let moved = self.move_all(stores, to).await;
            record_end(stores.home(), target, &moved).await;
            for store in stores.iter() {
                if let Err(error) = store.end_moves().await {
                    print_stderr(&format!("the index of the move stays until the next one: {error}"));
                }
            }
            let (rows, left) = moved?;
            self.report(rows, &left);
            Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
    }

    /// What is moved, for the audit log: `9000-9fff from 8000-ffff to second`. Of several cells that have some of it, all are named.
    fn target(&self, stores: &Cells<Store>, to: usize) -> String {
        let Self { shards: ShardRange { first, last }, .. } = self;
        let cells = stores.named().zip(stores.shards()).enumerate();
        let from = cells.filter(|(nth, (_, has))| {
            *nth != to && has.iter().any(|range| range.first <= *last && *first <= range.last)
        });
        let from: Vec<String> = from.map(|(_, ((name, _), _))| name.to_string()).collect();
        let from = if from.is_empty() { "none".to_owned() } else { from.join(", ") };
        format!("{} from {from} to {}", self.shards, self.to)
    }

    /// Returns how many rows were moved, and the shards that were not.
    async fn move_all(&self, stores: &Cells<Store>, to: usize) -> Result<(u64, Vec<ShardRange>)> {
        let until = Instant::now() + Duration::from_secs(self.wait);
        let mut users = Vec::new();
        for (nth, store) in stores.iter().enumerate() {
            let found = if nth == to { Vec::new() } else { store.users_of(self.shards).await? };
            if !found.is_empty()
                && let Err(error) = store.begin_moves().await
            {
                print_stderr(&format!("without an index, idempotency keys are read more slowly: {error}"));
            }
            users.extend(found.into_iter().map(shard));
        }
        users.sort_unstable();
        let mut waiting: VecDeque<ShardRange> = pieces(self.shards, &users).into();
        let (mut rows, mut left) = (0, Vec::new());
        while let Some(piece) = waiting.pop_front() {
            let from = stores.number_of(piece.first);
            let is_one = (piece.first.0..=piece.last.0).all(|shard| stores.number_of(Shard(shard)) == from);
            if is_one && from == to {
                continue;
            }
            let (source, target) = (stores.named().nth(from), stores.named().nth(to));
            let (Some((from, source)), Some((to, target))) = (source, target) else { continue };
            let between = Names { from, to };
            if is_one && let Moved::Done(moved) = source.move_shards(target, between, piece).await? {
                rows += moved;
                continue;
            }
            match halves(piece) {
                Some(halves) => waiting.extend(halves),
                None if Instant::now() >= until => left.push(piece),
                None => {
                    waiting.push_back(piece);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Ok((rows, left))
    }

    fn report(&self, rows: u64, left: &[ShardRange]) {
        let names: Vec<String> = left.iter().map(ToString::to_string).collect();
        let done = serde_json::json!({"rows": rows, "to": self.to, "left": names});
        let text = format!("{}: {rows} rows moved to the cell {}", self.shards, self.to);
        print_either(self.json, &done, &text);
        if !left.is_empty() {
            let names = names.join(", ");
            print_stderr(&format!(
                "runs went on for too long, or no worker has read their events for triggers and webhooks, so these stay: {names}; run the \
                 same command again"
            ));
        }
    }
}

/// Records how a move ended. One whose beginning is in the log, and no end, was killed.
async fn record_end(home: &Store, target: String, moved: &Result<(u64, Vec<ShardRange>)>) {
    match moved {
        Ok((_, left)) if left.is_empty() => audit::record(home, None, "move_shards", target).await,
        Ok(_) => audit::record_failed(home, "move_shards", target, "incomplete").await,
        Err(_) => audit::record_failed(home, "move_shards", target, "failed").await,
    }
}

/// Checks that someone will drive the runs of those who are moved: a process that was started without the cell does not.
async fn check_workers(stores: &Cells<Store>, to: usize) -> Result<()> {
    let mut claiming = Vec::with_capacity(stores.count());
    for store in stores.iter() {
        let workers = store.api().list_workers().await?;
        let processes =
            workers.into_iter().filter(RegisteredWorker::claims).map(|worker| (worker.host, worker.pid));
        claiming.push(processes.collect::<HashSet<_>>());
    }
    let there = std::mem::take(&mut claiming[to]);
    let others: HashSet<_> = claiming.into_iter().flatten().collect();
    let (all, missing) = (others.len(), others.difference(&there).count());
    if there.is_empty() && missing > 0 {
        return Err(Failure::Usage(anyhow!(
            "no worker claims runs of that cell, so those who are moved there would wait: restart `houston work` with this \
             cells.toml first"
        )));
    }
    if missing > 0 {
        print_stderr(&format!(
            "{missing} of {all} workers do not know that cell: restart them with this cells.toml"
        ));
    }
    Ok(())
}

/// Parts of the shards with few users each, in order. `users`: all of theirs, in the order of their shards.
fn pieces(ShardRange { first, last }: ShardRange, users: &[Shard]) -> Vec<ShardRange> {
    let mut pieces = Vec::new();
    let (mut start, mut count) = (first, 0);
    for (nth, shard) in users.iter().enumerate() {
        count += 1;
        let is_last_of_shard = users.get(nth + 1) != Some(shard);
        if count >= USERS && is_last_of_shard && *shard < last {
            pieces.push(ShardRange { first: start, last: *shard });
            (start, count) = (Shard(shard.0 + 1), 0);
        }
    }
    pieces.push(ShardRange { first: start, last });
    pieces
}

/// The two halves of a piece; `None`: it is one shard.
fn halves(ShardRange { first, last }: ShardRange) -> Option<[ShardRange; 2]> {
    let middle = first.0 + (last.0 - first.0) / 2;
    (first < last)
        .then(|| [ShardRange { first, last: Shard(middle) }, ShardRange { first: Shard(middle + 1), last }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_of_others_is_no_new_cell() {
        let (ours, others) = (TenantId(uuid::Uuid::from_u128(1)), TenantId(uuid::Uuid::from_u128(2)));
        let second: CellName = "second".parse().unwrap();
        let third: CellName = "third".parse().unwrap();
        let of = |tenants: &[TenantId], has_users: bool, names: &[&CellName]| {
            let names = names.iter().map(|name| (*name).clone()).collect();
            owner(&second, &Contents { tenants: tenants.to_vec(), has_users, names }, &[ours])
        };
        assert_eq!(of(&[], false, &[]), None, "empty");
        assert_eq!(of(&[ours], false, &[]), None, "left half done");
        assert_eq!(of(&[ours], true, &[&second]), None, "this cell, with its users");
        assert!(of(&[ours, others], false, &[]).unwrap().contains("1 of its 2 tenants"));
        assert!(of(&[ours], true, &[&third]).unwrap().contains("the cell third"));
        assert!(of(&[ours], true, &[]).unwrap().contains("has users"));
    }

    #[test]
    fn pieces_and_halves_have_each_shard_once() {
        let texts = |ranges: Vec<ShardRange>| ranges.iter().map(ToString::to_string).collect::<Vec<_>>();
        let of = |shards: &str, users: &[Shard]| texts(pieces(shards.parse().unwrap(), users));
        assert_eq!(of("0000-ffff", &[]), ["0000-ffff"]);
        let users: Vec<Shard> = (0x10..0x70).flat_map(|shard| [Shard(shard); 2]).collect();
        assert_eq!(
            of("0000-006f", &users),
            ["0000-001f", "0020-002f", "0030-003f", "0040-004f", "0050-005f", "0060-006f"]
        );
        assert_eq!(of("0001-ffff", &[Shard(7); 100]), ["0001-0007", "0008-ffff"]);
        assert_eq!(of("0007-0007", &[Shard(7); 100]), ["0007-0007"]);
        assert_eq!(texts(halves("0000-0002".parse().unwrap()).unwrap().to_vec()), ["0000-0001", "0002-0002"]);
        assert_eq!(halves("0002-0002".parse().unwrap()), None);
    }
}
