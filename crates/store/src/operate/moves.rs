//! Moves of shards between cells, as the cells know them: [`Moves`] lets a process follow.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use houston_domain::cell::{Cells, MovedShards, ShardRange, has};
use houston_domain::id::Shard;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use crate::cell_move::settle;
use crate::error::Result;
use crate::event::EventPosition;
use crate::handle::ApiStore;

/// How often all cells are asked.
const EVERY: Duration = Duration::from_secs(1);
/// How often a cell is asked at most for the sake of requests.
const PAUSE: Duration = Duration::from_millis(100);
/// After so many rounds, moves that were killed are settled.
const SETTLE_EVERY: usize = 5;
/// A move has prepared its commit for less; what was prepared for longer was left.
const LEFT_AFTER: Duration = Duration::from_secs(10);

impl ApiStore {
    /// The moves that the cell knows: those to it and from it.
    pub async fn moves(&self) -> Result<Vec<MovedShards>> {
        let rows: Vec<(i32, i32, i64, String)> = sqlx::query_as(
            "-- store::moves::all
            select first, last, version, cell from houston.moved_shards order by version, first",
        )
        .fetch_all(&self.pool)
        .await?;
        let shard = |number: i32| u16::try_from(number).ok().map(Shard);
        let read = |(first, last, version, cell): (i32, i32, i64, String)| {
            let shards = ShardRange { first: shard(first)?, last: shard(last)? };
            Some(MovedShards { shards, version, cell: cell.parse().ok()? })
        };
        Ok(rows.into_iter().filter_map(read).collect())
    }

    /// The position before the last move that brought this shard to the cell: where readers go on who have read the events of its
    /// users in another cell. Without a shard, before the first move to the cell. `None` when there was no such move, or none that wrote it down.
    pub async fn arrival(&self, shard: Option<Shard>) -> Result<Option<EventPosition>> {
        let rows: Vec<(i32, i32, Option<i64>)> = sqlx::query_as(
            "-- store::moves::arrivals
            select first, last, xid from houston.moved_shards where is_here order by version, first",
        )
        .fetch_all(&self.pool)
        .await?;
        let xid = match shard.map(|shard| i32::from(shard.0)) {
            Some(shard) => {
                rows.iter().rfind(|row| row.0 <= shard && shard <= row.1).and_then(|(_, _, xid)| *xid)
            }
            None => rows.iter().filter_map(|(_, _, xid)| *xid).min(),
        };
        Ok(xid.map(|xid| EventPosition::before(xid.unsigned_abs())))
    }
}

/// What a cell knows; `None`: it did not answer.
type Answer = Option<Arc<[MovedShards]>>;

/// The last question to a cell: when it began, and its answer. Many who ask at once share one.
#[derive(Debug, Default)]
struct Question(Mutex<Option<(Instant, Answer)>>);

impl Question {
    /// The answer to a question that began after this call. `read` asks: one at a time, ten in a second.
    async fn ask(&self, read: impl AsyncFnOnce() -> Answer) -> Answer {
        let since = Instant::now();
        let mut last = self.0.lock().await;
        if let Some((began, answer)) = &*last {
            if *began >= since {
                return answer.clone();
            }
            sleep_until(*began + PAUSE).await;
        }
        let began = Instant::now();
        let answer = read().await;
        *last = Some((began, answer.clone()));
        answer
    }
}

/// Lets the cells of a process, and all that was made of them, follow the moves.
#[derive(Debug)]
pub struct Moves {
    stores: Cells<ApiStore>,
    questions: Cells<Question>,
}

impl Moves {
    /// Follows with these cells, which share their layout with others.
    pub fn new(stores: &Cells<ApiStore>) -> Self {
        Self { stores: stores.clone(), questions: stores.map(|_| Question::default()) }
    }

    /// Whether the cell with this number has the shard, as it says itself after this call has begun. If not, the users are in
    /// another cell, which may be found by now, or on their way there. Also false when the cell does not answer.
    ///
    /// However many callers there are, a cell is asked one question at a time, ten in a second.
    pub async fn has(&self, cell: usize, shard: Shard) -> bool {
        let (Some((name, store)), Some(question)) = (self.stores.named().nth(cell), self.questions.get(cell))
        else {
            return false;
        };
        let read = async || {
            let knows = store.moves().await;
            let knows =
                knows.inspect_err(|error| tracing::warn!(%error, cell = %name, "its moves were not read"));
            let knows: Arc<[MovedShards]> = knows.ok()?.into();
            self.learn(&knows);
            Some(knows)
        };
        question.ask(read).await.is_some_and(|knows| has(name, &knows, shard))
    }

    /// Follows what a cell knows.
    fn learn(&self, knows: &[MovedShards]) {
        let new = self.stores.follow(knows);
        if new.is_empty() {
            return;
        }
        tracing::info!(moves = new.len(), "users were moved between cells: requests follow");
        let unknown = new.iter().find(|moved| self.stores.number_named(&moved.cell).is_none());
        if let Some(MovedShards { shards, cell, .. }) = unknown {
            tracing::error!(
                %shards, %cell,
                "users were moved to a cell that the settings of this process do not have: restart it with the others' \
                 cells.toml; until then these users get 503"
            );
        }
    }

    /// Asks all cells once, and follows. A cell that is away is left out: the other cell of each move knows it, too.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when a cell cannot be reached or refuses the statement; what the others know
    /// is followed.
    pub async fn follow_once(&self) -> Result<()> {
        let answers = join_all(self.stores.iter().map(ApiStore::moves)).await;
        let mut failed = None;
        for answer in answers {
            match answer {
                Ok(knows) => self.learn(&knows),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Follows for ever, and settles moves that were killed. With one cell it does nothing.
    pub async fn follow(&self) {
        if self.stores.count() == 1 {
            return std::future::pending().await;
        }
        for round in 1_usize.. {
            if let Err(error) = self.follow_once().await {
                tracing::debug!(%error, "a cell was not asked for moves");
            }
            if round.is_multiple_of(SETTLE_EVERY) {
                match settle(&self.stores, LEFT_AFTER).await {
                    Ok(0) => {}
                    Ok(moves) => tracing::warn!(moves, "moves of users that were killed are settled"),
                    Err(error) => tracing::debug!(%error, "moves that were killed are not settled yet"),
                }
            }
            sleep(EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_at_once_share_a_question() {
        let (question, read) = (Question::default(), AtomicUsize::new(0));
        let ask = || {
            question.ask(async || {
                sleep(Duration::from_millis(3)).await;
                read.fetch_add(1, Ordering::SeqCst);
                Some(Arc::from([]))
            })
        };
        assert!(ask().await.is_some());
        let began = Instant::now();
        join_all((0..1000).map(|_| ask())).await;
        // One for those who came before it began: all of them.
        assert_eq!(read.load(Ordering::SeqCst), 2);
        assert_eq!(began.elapsed(), Duration::from_millis(100));
        for _ in 0..9 {
            ask().await;
        }
        assert_eq!(read.load(Ordering::SeqCst), 11, "each who comes later asks again");
        assert_eq!(began.elapsed(), Duration::from_millis(1000), "and waits for the next tenth of a second");
    }
}
