//! Group commit: what callers submit while a statement runs is written by the next statement, together.
//!
//! A batch takes what is queued and never waits for more, so that a lone item is written at once. Each connection
//! writes one batch at a time and belongs to its batcher, not to the pool: a pooled connection costs a round trip
//! whenever it is returned.
//!
//! An item that is not written, for whatever reason, is given back to its caller, who writes it by itself. So one
//! item that Postgres refuses fails no other: all items of its batch are written one by one.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{ConnectOptions, PgConnection};
use tokio::sync::{Mutex, OnceCell, mpsc, oneshot};
use tokio::task::JoinSet;

use crate::connections::connect_options_of;
use crate::error::{Error, Result};

/// Most items of one statement. Larger batches save little and delay their first item.
const MAX_ITEMS: usize = 32;
/// Most bytes of one statement, as the items state them: more would take long to send and to parse, and delay the items
/// behind it. An item that is larger by itself is a batch of its own.
const MAX_BYTES: usize = 8 << 20;
/// Longest time for a batch, over the network too; the server itself gives up after `statement_timeout`.
const TIMEOUT: Duration = Duration::from_secs(6);

/// A statement that writes many items.
pub(crate) trait Batch: Clone + Send + Sync + 'static {
    /// What is written.
    type Item: Send + 'static;
    /// The result of an item that was written.
    type Done: Send + 'static;
    /// What two items of one statement must not share, such as the row they change.
    type Key: Eq + Hash + Send;

    /// Connections, each of which writes one batch at a time. With two, one batch is prepared while another is flushed
    /// to disk.
    const CONNECTIONS: usize = 2;

    /// The keys of an item: none if any items may be together.
    fn keys(_: &Self::Item) -> impl Iterator<Item = Self::Key> {
        std::iter::empty()
    }

    /// About how many bytes of the statement the item takes: those of its texts, which may be large; 0 if it has none.
    fn bytes(_: &Self::Item) -> usize {
        0
    }

    /// Writes the items in one transaction. The result has `None` for each item that was not written.
    fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [Self::Item],
    ) -> impl Future<Output = Result<Vec<Option<Self::Done>>>> + Send;

    /// Makes Postgres read and plan the statements, which takes it longer than to execute them, without writing anything.
    fn prepare(&self, connection: &mut PgConnection) -> impl Future<Output = Result<()>> + Send {
        async { self.write(connection, &mut []).await.map(drop) }
    }

    /// Called with the items of a batch that may or may not have been written, before their callers learn of it.
    fn failed(_: Vec<Self::Item>) {}
}

/// The options of a batcher's connections.
fn options(pool: &PgPool) -> PgConnectOptions {
    connect_options_of(pool).options([
        // The lengths of a batch vary, its plan does not; planning the statement costs more than running it.
        ("plan_cache_mode", "force_generic_plan"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("enable_seqscan", "off"),
        ("enable_bitmapscan", "off"),
        ("enable_material", "off"),
        // Forbidden plans count as very expensive, which would start the compiler for each execution.
        ("jit", "off"),
    ])
}

type Queued<B> = (<B as Batch>::Item, oneshot::Sender<<B as Batch>::Done>);

/// What the batchers of a store share.
#[derive(Debug)]
pub(crate) struct Writers {
    /// Its options are those of the present primary.
    pool: PgPool,
    /// Those that write, aborted when they are dropped; `None`: closed.
    tasks: Mutex<Option<JoinSet<()>>>,
}

impl Writers {
    /// `pool`: one whose connections keep their settings.
    pub(crate) fn new(pool: &PgPool) -> Self {
        Self { pool: pool.clone(), tasks: Mutex::new(Some(JoinSet::new())) }
    }

    /// Closes the connections. From then on nothing is written; what is being written may or may not be.
    pub(crate) async fn close(&self) {
        let tasks = self.tasks.lock().await.take();
        if let Some(mut tasks) = tasks {
            tasks.shutdown().await;
        }
    }
}

/// Collects items and writes them in batches.
pub(crate) struct Batcher<B: Batch> {
    pub(crate) batch: B,
    writers: Arc<Writers>,
    /// Its writers are started at the first item, since only then a runtime is there for sure.
    queue: OnceCell<mpsc::UnboundedSender<Queued<B>>>,
}

impl<B: Batch> Batcher<B> {
    pub(crate) fn new(batch: B, writers: &Arc<Writers>) -> Self {
        Self { batch, writers: Arc::clone(writers), queue: OnceCell::new() }
    }

    /// Writes an item; `None` if it was not written, or if the outcome is unknown.
    pub(crate) async fn submit(&self, item: B::Item) -> Option<B::Done> {
        let queue = self.queue.get_or_init(|| self.start(None)).await;
        let (done, written) = oneshot::channel();
        queue.send((item, done)).ok()?;
        written.await.ok()
    }

    /// Queues an item whose result is not waited for. It is lost if its batch fails.
    pub(crate) async fn send(&self, item: B::Item) {
        let queue = self.queue.get_or_init(|| self.start(None)).await;
        let _ = queue.send((item, oneshot::channel().0));
    }

    /// Opens the connections and prepares the statements, unless something was written before.
    pub(crate) async fn warm_up(&self) {
        let (warm, mut all_warm) = mpsc::channel::<()>(1);
        self.queue.get_or_init(|| self.start(Some(warm))).await;
        // Nothing is sent: each writer drops its sender.
        all_warm.recv().await;
    }

    async fn start(&self, warm: Option<mpsc::Sender<()>>) -> mpsc::UnboundedSender<Queued<B>> {
        let (queue, items) = mpsc::unbounded_channel();
        let items = Arc::new(Mutex::new(items));
        if let Some(tasks) = &mut *self.writers.tasks.lock().await {
            for _ in 0..B::CONNECTIONS {
                let writer = Writer {
                    batch: self.batch.clone(),
                    pool: self.writers.pool.clone(),
                    items: Arc::clone(&items),
                    connection: None,
                    behind: Vec::new(),
                };
                tasks.spawn(writer.run(warm.clone()));
            }
        }
        queue
    }
}

/// Queued items, divided into a batch and the items for the next one.
struct Split<B: Batch> {
    items: Vec<B::Item>,
    /// Who waits for each item of the batch.
    callers: Vec<oneshot::Sender<B::Done>>,
    behind: Vec<Queued<B>>,
}

/// Items that share a key with an earlier one stay behind, and so do all from the one with which the batch would have
/// more than `max_bytes`. The batch has at least one item.
fn split<B: Batch>(queued: Vec<Queued<B>>, max_bytes: usize) -> Split<B> {
    let (mut keys, mut bytes) = (HashSet::new(), 0_usize);
    let (mut items, mut callers, mut behind) = (Vec::new(), Vec::new(), Vec::new());
    for (item, caller) in queued {
        if B::keys(&item).any(|key| keys.contains(&key)) {
            behind.push((item, caller));
            continue;
        }
        bytes = bytes.saturating_add(B::bytes(&item));
        if bytes > max_bytes && !items.is_empty() {
            behind.push((item, caller));
            continue;
        }
        keys.extend(B::keys(&item));
        items.push(item);
        callers.push(caller);
    }
    Split { items, callers, behind }
}

struct Writer<B: Batch> {
    batch: B,
    pool: PgPool,
    items: Arc<Mutex<mpsc::UnboundedReceiver<Queued<B>>>>,
    /// With the options of the pool when it was opened.
    connection: Option<(Arc<PgConnectOptions>, PgConnection)>,
    /// Items for the next batch of this writer.
    behind: Vec<Queued<B>>,
}

impl<B: Batch> Writer<B> {
    /// `warm`: prepares its connection first, then drops this.
    async fn run(mut self, warm: Option<mpsc::Sender<()>>) {
        if let Some(warm) = warm {
            let prepared = tokio::time::timeout(TIMEOUT, self.prepare()).await;
            if !matches!(prepared, Ok(Ok(()))) {
                self.connection = None;
            }
            drop(warm);
        }
        loop {
            let Some(Split { mut items, callers, behind }) = self.next().await else { return };
            self.behind = behind;
            match tokio::time::timeout(TIMEOUT, self.write(&mut items)).await {
                Ok(Ok(written)) => {
                    for (caller, done) in callers.into_iter().zip(written) {
                        if let Some(done) = done {
                            // A caller that is gone needs no answer.
                            let _ = caller.send(done);
                        }
                    }
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, items = items.len(), "batch failed, its items are written one by one");
                    self.connection = None;
                    B::failed(items);
                }
                Err(_) => {
                    tracing::warn!(items = items.len(), "batch timed out, its items are written one by one");
                    self.connection = None;
                    B::failed(items);
                }
            }
        }
    }

    /// What is queued; `None` when the batcher is gone.
    async fn next(&mut self) -> Option<Split<B>> {
        let mut queued = std::mem::take(&mut self.behind);
        if queued.is_empty() {
            if self.items.lock().await.recv_many(&mut queued, MAX_ITEMS).await == 0 {
                return None;
            }
        } else if let Ok(mut items) = self.items.try_lock() {
            // So that items which share a key delay no others.
            while queued.len() < MAX_ITEMS
                && let Ok(item) = items.try_recv()
            {
                queued.push(item);
            }
        }
        Some(split::<B>(queued, MAX_BYTES))
    }

    async fn write(&mut self, items: &mut [B::Item]) -> Result<Vec<Option<B::Done>>> {
        let batch = self.batch.clone();
        batch.write(self.connection().await?, items).await
    }

    async fn prepare(&mut self) -> Result<()> {
        let batch = self.batch.clone();
        batch.prepare(self.connection().await?).await
    }

    async fn connection(&mut self) -> Result<&mut PgConnection> {
        let present = self.pool.connect_options();
        // Another host is the primary: this connection may be to the former one, and not have broken.
        self.connection.take_if(|(opened_with, _)| !Arc::ptr_eq(opened_with, &present));
        let (_, connection) = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert((present, options(&self.pool).connect().await.map_err(Error::from)?)),
        };
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone)]
    struct Rows;

    impl Batch for Rows {
        /// A key and a size.
        type Item = (char, usize);
        type Done = ();
        type Key = char;

        fn keys(item: &(char, usize)) -> impl Iterator<Item = char> {
            std::iter::once(item.0)
        }

        fn bytes(item: &(char, usize)) -> usize {
            item.1
        }

        async fn write(&self, _: &mut PgConnection, items: &mut [(char, usize)]) -> Result<Vec<Option<()>>> {
            Ok(vec![Some(()); items.len()])
        }
    }

    /// The keys of each batch until nothing is left, with at most 10 bytes each.
    fn batches(items: &[(char, usize)]) -> Vec<String> {
        let mut queued: Vec<Queued<Rows>> = items.iter().map(|item| (*item, oneshot::channel().0)).collect();
        let mut batches = Vec::new();
        while !queued.is_empty() {
            let split = split::<Rows>(queued, 10);
            assert_eq!(split.items.len(), split.callers.len());
            batches.push(split.items.iter().map(|item| item.0).collect());
            queued = split.behind;
        }
        batches
    }

    #[tokio::test]
    async fn items_that_share_a_key_delay_no_others() {
        let (queue, items) = mpsc::unbounded_channel();
        let pool = PgPool::connect_lazy("postgres://nowhere").unwrap();
        let items = Arc::new(Mutex::new(items));
        let mut writer = Writer { batch: Rows, pool, items, connection: None, behind: Vec::new() };
        let send = |key| queue.send(((key, 1), oneshot::channel().0)).unwrap();
        "aaa".chars().for_each(send);
        let mut batches = Vec::new();
        for later in ["bc", "d", ""] {
            let Split { items, behind, .. } = writer.next().await.unwrap();
            writer.behind = behind;
            batches.push(items.iter().map(|item| item.0).collect::<String>());
            later.chars().for_each(send);
        }
        assert_eq!(batches, ["a", "abc", "ad"]);
    }

    #[test]
    fn batch_ends_before_the_item_that_exceeds_its_bytes() {
        assert_eq!(batches(&[('a', 4), ('b', 6), ('c', 1)]), ["ab", "c"]);
        assert_eq!(batches(&[('a', 4), ('b', 7), ('c', 1)]), ["a", "bc"], "nothing overtakes a large item");
        assert_eq!(
            batches(&[('a', 1), ('b', 99), ('c', 99)]),
            ["a", "b", "c"],
            "alone if larger than a batch"
        );
        assert_eq!(
            batches(&[('a', 1), ('a', 9), ('b', 9)]),
            ["ab", "a"],
            "one that stays behind takes no room"
        );
        assert_eq!(batches(&[('a', usize::MAX), ('b', usize::MAX)]), ["a", "b"]);
    }
}
