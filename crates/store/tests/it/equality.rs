//! Posts, claims and steps write the same rows, whether many are written at once or each by itself.
//!
//! A sequence of random acts happens to the goals of one user twice: in one database in batches, with the acts of the
//! sequences that happen at the same time, and in another one by a store without batches, one act at a time: there
//! half of the messages are posted by `houston.post_message`, as applications post them. What callers learn is compared
//! after each act, and all rows of the user after the last one.
//!
//! What both have in common is checked against rules that stand here only: what a claim says of its run
//! ([`Counted`](counted::Counted)), and what is true of all rows ([`laws`]).
//!
//! Two variables choose what happens:
//! - `HOUSTON_SEQUENCES`: how many sequences, 500 if it is not set;
//! - `HOUSTON_SEED`: the seed of the first one, random if it is not set. The others follow it.
//!
//! So `HOUSTON_SEQUENCES=1 HOUSTON_SEED=…` repeats one sequence alone. A sequence that fails names its seed, and is repeated
//! alone at once.

use std::collections::HashMap;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use houston_domain::id::Ids;
use houston_store::{Archiving, Fairness, Store};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};
use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinSet};

use self::counts::Counts;
use self::direct::Slots;
use self::sequence::{Sequence, sequence};
use crate::test_store::TestStore;

#[cfg(test)]
mod claim;
#[cfg(test)]
mod compare;
#[cfg(test)]
mod counted;
#[cfg(test)]
mod counts;
#[cfg(test)]
mod direct;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod post;
#[cfg(test)]
mod record;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod sequence;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod twin;

/// Sequences in a usual run.
const SEQUENCES: u64 = 500;
/// Sequences that happen at once, so that batches contain items of several users.
const AT_ONCE: u64 = 16;
/// Sequences after which all rows are removed: some statements read the runs of all users.
const ROUND: u64 = 1000;
/// Goals of each user; each may have a task.
const GOALS: usize = 4;
/// How often the number of sequences so far is printed.
const PROGRESS: Duration = Duration::from_secs(10);

/// How a database is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// Many items by one statement.
    Batches,
    /// Each item by itself.
    Alone,
}

/// One of the two databases.
struct Side {
    writer: Writer,
    test: TestStore,
    pool: PgPool,
    /// By the settings of a sequence.
    stores: HashMap<(u16, bool), Store>,
    slots: Arc<Slots>,
    /// Columns.
    not_compared: Vec<String>,
}

/// Where an act happens.
#[derive(Clone, Copy)]
struct Scene<'a> {
    side: &'a Side,
    /// With the settings of the sequence.
    store: &'a Store,
}

impl Scene<'_> {
    fn ids(&self) -> &Ids {
        &self.side.test.ids
    }

    fn pool(&self) -> &PgPool {
        &self.side.pool
    }
}

impl Side {
    async fn start(writer: Writer) -> Self {
        let test = TestStore::start().await;
        let at_once = u32::try_from(AT_ONCE).unwrap();
        // Nothing has to outlive the test; and connections plan their statements once, when the tables are empty.
        let settings = [
            "synchronous_commit = off",
            "jit = off",
            "plan_cache_mode = force_generic_plan",
            "enable_seqscan = off",
            "enable_hashjoin = off",
            "enable_mergejoin = off",
        ];
        let name = test.sql("select current_database()");
        test.sql(&settings.map(|setting| format!("alter database {name} set {setting};")).concat());
        let pool = PgPoolOptions::new().max_connections(at_once).test_before_acquire(false);
        let pool = pool.connect(test.database.url()).await.unwrap();
        let slots = Arc::new(Slots::default());
        if writer == Writer::Batches {
            slots.clone().serve(test.store.runs());
        }
        let settings = [2, 10].into_iter().flat_map(|max| [(max, false), (max, true)]);
        let stores =
            settings.map(|(max, closes)| ((max, closes), store(&test, writer, max, closes))).collect();
        let not_compared = rows::not_compared(&pool).await;
        Self { writer, test, pool, stores, slots, not_compared }
    }

    /// Removes the rows of all sequences.
    async fn clear(&self) {
        let all = "select string_agg(format('houston.%I', tablename), ', ') from pg_tables
                    where schemaname = 'houston' and tablename not in ('tenants', 'workers', 'settings', 'installation', 'functions')
                      and tablename not like '%migrations%'";
        let all: String = sqlx::query_scalar(all).fetch_one(&self.pool).await.unwrap();
        sqlx::query(AssertSqlSafe(format!("truncate {all}"))).execute(&self.pool).await.unwrap();
    }
}

fn store(test: &TestStore, writer: Writer, max_running: u16, closes_sessions: bool) -> Store {
    let fairness = Fairness { max_running, ..Fairness::default() };
    let kinds = if closes_sessions { vec!["goal".to_owned()] } else { Vec::new() };
    let archiving = Archiving { kinds, ..Archiving::default() };
    let limits = record::limits();
    let store = test.store.clone().with(|own| {
        own.fairness = fairness;
        own.archiving = archiving.into();
        own.knowledge_limits = limits;
    });
    if writer == Writer::Batches { store } else { store.with(|own| own.is_unbatched = true) }
}

/// The two databases.
struct Pair {
    batched: Side,
    single: Side,
}

impl Pair {
    async fn start() -> Self {
        Self { batched: Side::start(Writer::Batches).await, single: Side::start(Writer::Alone).await }
    }

    async fn clear(&self) {
        tokio::join!(self.batched.clear(), self.single.clear());
    }

    /// Lets the sequence of this seed happen in both, and compares them.
    async fn sequence(&self, seed: u64) -> Counts {
        let sequence = Printed(of_seed(seed));
        compare::same_rows(self, seed, &sequence.0).await
    }
}

/// Prints the sequence if it fails.
struct Printed(Sequence);

impl Drop for Printed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}", self.0);
        }
    }
}

fn of_seed(seed: u64) -> Sequence {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    sequence().new_tree(&mut TestRunner::new_with_rng(Config::default(), random)).unwrap().current()
}

/// What happened so far.
struct Progress {
    began: Instant,
    seeds: Range<u64>,
    next: AtomicU64,
    /// How many sequences have happened, what in them, and when this was last printed.
    done: Mutex<(u64, Counts, Instant)>,
}

impl Progress {
    /// The seed of the next sequence before `end`.
    fn next(&self, end: u64) -> Option<u64> {
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| (next < end).then_some(next + 1))
            .ok()
    }

    async fn add(&self, counts: Counts) {
        let (done, sum, printed) = &mut *self.done.lock().await;
        *done += 1;
        *sum += counts;
        if printed.elapsed() >= PROGRESS {
            *printed = Instant::now();
            let (all, seconds) = (self.seeds.end - self.seeds.start, self.began.elapsed().as_secs());
            // Not `eprintln`, which is shown when the test has ended.
            let _ = writeln!(std::io::stderr(), "{done} of {all} sequences, {seconds} s");
        }
    }
}

/// What becomes of a sequence that may panic.
async fn apart(sequence: impl Future<Output = Counts> + Send + 'static) -> Result<Counts, JoinError> {
    let mut one = JoinSet::new();
    one.spawn(sequence);
    one.join_next().await.unwrap()
}

/// Lets sequences happen, one after the other. The error is the seed of one that failed.
async fn sequences(pair: Arc<Pair>, progress: Arc<Progress>, end: u64) -> Result<(), u64> {
    while let Some(seed) = progress.next(end) {
        let of_pair = Arc::clone(&pair);
        let done = apart(async move { of_pair.sequence(seed).await }).await;
        progress.add(done.map_err(|_| seed)?).await;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "set by a command that runs many, or one again")]
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_write_the_rows_of_single_writes() {
    let count = variable("HOUSTON_SEQUENCES").unwrap_or(SEQUENCES);
    let mut random = [0; 4];
    Ids::new(Arc::new(houston_domain::clock::SystemClock)).fill(&mut random);
    let first = variable("HOUSTON_SEED").unwrap_or_else(|| u32::from_le_bytes(random).into());
    let (seeds, now) = (first..first + count, Instant::now());
    let done = Mutex::new((0, Counts::default(), now));
    let progress = Arc::new(Progress { began: now, seeds: seeds.clone(), next: first.into(), done });
    let pair = Arc::new(Pair::start().await);
    for start in seeds.step_by(usize::try_from(ROUND).unwrap()) {
        let end = (start + ROUND).min(first + count);
        let mut all = JoinSet::new();
        for _ in 0..AT_ONCE {
            all.spawn(sequences(Arc::clone(&pair), Arc::clone(&progress), end));
        }
        while let Some(done) = all.join_next().await {
            if let Err(seed) = done.unwrap() {
                all.shutdown().await;
                fail(seed).await;
            }
        }
        pair.clear().await;
    }
    let (counts, seconds) = (progress.done.lock().await.1, now.elapsed().as_secs());
    println!("{count} sequences from seed {first} in {seconds} s: {counts}, no difference");
    assert!(
        count < SEQUENCES || counts.is_complete(),
        "some acts never happen, or too few runs start at once: {counts}"
    );
}

/// Repeats a sequence that failed, alone.
async fn fail(seed: u64) {
    let alone = apart(async move { Pair::start().await.sequence(seed).await }).await;
    let then = if alone.is_err() { "also alone" } else { "but not alone" };
    panic!("seed {seed} fails, {then}: HOUSTON_SEQUENCES=1 HOUSTON_SEED={seed} repeats it");
}
