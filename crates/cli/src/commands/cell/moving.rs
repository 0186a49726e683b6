//! `houston cell move`: some shards at a time. A piece with a run that a worker holds, or with an event that triggers or webhooks
//! have not read, is halved and tried again later.

use std::collections::{HashSet, VecDeque};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use houston_domain::cell::{CellName, Cells, ShardRange};
use houston_domain::id::{Shard, shard};
use houston_store::Store;
use houston_store::cell_move::{Moved, Names, settle};
use houston_store::copies::Copies;
use houston_store::moves::Moves;
use houston_store::worker_list::RegisteredWorker;
use tokio::time::Instant;

use crate::commands::{Context, Failure, audit, runtime};
use crate::connect;
use crate::output::{print, print_json, print_stderr};

/// About so many users are moved at once, so that nothing that is posted to them waits long.
const USERS: usize = 32;
/// The pause before a shard that could not be moved is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// Move users to another cell.
#[derive(Debug, Args)]
pub(super) struct Move {
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
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let settings = &context.loaded.settings;
        let addresses = connect::database(settings, &context.folder)?;
        runtime()?.block_on(async {
            let stores = connect::open_all(settings, &addresses)?;
            connect::probe_all(&addresses).await?;
            connect::find_primaries(&stores).await?;
            let Some(to) = stores.number_named(&self.to) else {
                let names: Vec<String> = stores.named().map(|(name, _)| name.to_string()).collect();
                let names = names.join(", ");
                return Err(Failure::Usage(anyhow!("there is no cell {}; there are: {names}", self.to)));
            };
            for store in stores.iter() {
                store.check_schema().await?;
            }
            let apis = stores.map(Store::api);
            let settled = settle(&apis, Duration::ZERO).await?;
            Moves::new(&apis).follow_once().await?;
            check_workers(&stores, to).await?;
            // What users refer to must be there before them.
            Copies::new(&apis).copy_all().await?;
            let target = self.target(&stores, to);
            let begun = if settled == 0 { "begin_move_shards" } else { "resume_move_shards" };
            audit::record(stores.home(), None, begun, target.clone()).await;
            let moved = self.move_all(&stores, to).await;
            record_end(stores.home(), target, &moved).await;
            for store in stores.iter() {
                if let Err(error) = store.end_moves().await {
                    print_stderr(&format!("the index of the move stays until the next one: {error}"));
                }
            }
            let (rows, left) = moved?;
            super::close(&stores).await;
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
    async fn move_all(&self, stores: &Cells<Store>, to: usize) -> Result<(u64, Vec<ShardRange>), Failure> {
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
        if self.json {
            print_json(&serde_json::json!({"rows": rows, "to": self.to, "left": names}));
        } else {
            print(&format!("{}: {rows} rows moved to the cell {}", self.shards, self.to));
        }
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
async fn record_end(home: &Store, target: String, moved: &Result<(u64, Vec<ShardRange>), Failure>) {
    match moved {
        Ok((_, left)) if left.is_empty() => audit::record(home, None, "move_shards", target).await,
        Ok(_) => audit::record_failed(home, "move_shards", target, "incomplete").await,
        Err(_) => audit::record_failed(home, "move_shards", target, "failed").await,
    }
}

/// Checks that someone will drive the runs of those who are moved: a process that was started without the cell does not.
async fn check_workers(stores: &Cells<Store>, to: usize) -> Result<(), Failure> {
    let mut claiming = Vec::with_capacity(stores.count());
    for store in stores.iter() {
        let workers = store.operator().list_workers().await?;
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
