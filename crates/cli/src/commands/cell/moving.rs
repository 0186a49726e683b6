//! `houston cell move`: some shards at a time. A piece with a run that a worker holds is halved and tried again later.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use houston_domain::cell::{Cells, MovedShards, ShardRange};
use houston_domain::id::Shard;
use houston_store::Store;
use houston_store::cell_move::{Moved, Names};
use houston_store::copies::Copies;
use tokio::time::Instant;

use crate::commands::{Context, Failure, runtime};
use crate::connect;
use crate::output::{print, print_json, print_stderr};

/// So many shards are moved at once, so that nothing that is posted to their users waits long.
const PIECE: u16 = 16;
/// The pause before a shard with a held run is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// Move users to another cell.
#[derive(Debug, Args)]
pub(super) struct Move {
    /// Their shards: `9000-9fff`
    shards: ShardRange,
    /// The cell that gets them, by its shards in cells.toml
    #[arg(long, value_name = "SHARDS")]
    to: ShardRange,
    /// How many seconds to wait for runs that go on; users with longer ones stay, and the exit code is 1
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
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
            let names: Vec<ShardRange> = stores.ranges().map(|(range, _)| range).collect();
            let Some(to) = names.iter().position(|name| *name == self.to) else {
                let known: Vec<String> = names.iter().map(ToString::to_string).collect();
                let known = known.join(", ");
                return Err(Failure::Usage(anyhow!("there is no cell {}; there are: {known}", self.to)));
            };
            for store in stores.iter() {
                store.check_schema().await?;
            }
            // What users refer to must be there before them.
            Copies::new(&stores.map(Store::api)).copy_all().await?;
            follow(&stores, &names).await?;
            let (rows, left) = self.move_all(&stores, &names, to).await?;
            for store in stores.iter() {
                store.close().await;
            }
            self.report(rows, &left);
            Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
    }

    /// Returns how many rows were moved, and the shards that were not.
    async fn move_all(
        &self,
        stores: &Cells<Store>,
        names: &[ShardRange],
        to: usize,
    ) -> Result<(u64, Vec<ShardRange>), Failure> {
        let until = Instant::now() + Duration::from_secs(self.wait);
        let mut waiting: VecDeque<ShardRange> = pieces(self.shards).collect();
        let (mut rows, mut left) = (0, Vec::new());
        while let Some(piece) = waiting.pop_front() {
            let from = stores.number_of(piece.first);
            let is_one = (piece.first.0..=piece.last.0).all(|shard| stores.number_of(Shard(shard)) == from);
            if is_one && from == to {
                continue;
            }
            let (Some(source), Some(target)) = (stores.iter().nth(from), stores.iter().nth(to)) else {
                continue;
            };
            let between = Names { from: names[from], to: names[to] };
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
                "runs went on for too long, so these stay: {names}; run the same command again"
            ));
        }
    }
}

/// Where each shard is by now.
async fn follow(stores: &Cells<Store>, names: &[ShardRange]) -> Result<(), Failure> {
    let mut moved = Vec::new();
    for store in stores.iter() {
        moved.extend(store.api().moves().await?.into_iter().filter_map(|(shards, version, name)| {
            let cell = names.iter().position(|other| *other == name)?;
            Some(MovedShards { shards, version, cell })
        }));
    }
    stores.follow(&moved);
    Ok(())
}

fn pieces(ShardRange { first, last }: ShardRange) -> impl Iterator<Item = ShardRange> {
    (first.0..=last.0).step_by(usize::from(PIECE)).map(move |start| ShardRange {
        first: Shard(start),
        last: Shard(start.saturating_add(PIECE - 1).min(last.0)),
    })
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
        assert_eq!(texts(pieces("fff8-ffff".parse().unwrap()).collect()), ["fff8-ffff"]);
        assert_eq!(texts(pieces("0000-0011".parse().unwrap()).collect()), ["0000-000f", "0010-0011"]);
        assert_eq!(texts(halves("0000-0002".parse().unwrap()).unwrap().to_vec()), ["0000-0001", "0002-0002"]);
        assert_eq!(halves("0002-0002".parse().unwrap()), None);
    }
}
