//! Many clients at once, and what their work costs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_testkit::console::Progress;
use houston_testkit::model_server::{Journal, JournalDetail};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::database::Counters;
use super::report::Row;
use super::setup::{Cpu, Setup};
use super::workload::{self, Timing};
use crate::http::Connection;

/// A client does `job` with the number of the next piece of work, and its own connection, until there is none. `at`: the address
/// of the server, and the key with which it is asked.
pub(crate) async fn clients<T: Send + 'static>(
    (address, key): (SocketAddr, &str),
    count: usize,
    (label, work): (&str, usize),
    job: impl for<'c> Fn(&'c mut Connection, usize) -> BoxFuture<'c, Result<T>> + Clone + Send + 'static,
) -> Result<Vec<T>> {
    let mut progress = Progress::new(label, work as u64);
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..count {
        let mut connection = Connection::open(address, key).await?;
        let (job, next) = (job.clone(), Arc::clone(&next));
        clients.spawn(async move {
            let mut done = Vec::new();
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if nth >= work {
                    return anyhow::Ok(done);
                }
                done.push(job(&mut connection, nth).await?);
            }
        });
    }
    let mut all = Vec::with_capacity(work);
    let mut tick = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            ended = clients.join_next() => match ended {
                Some(ended) => all.extend(ended??),
                None => return Ok(all),
            },
            _ = tick.tick() => progress.reach(next.load(Ordering::Relaxed).min(work) as u64),
        }
    }
}

/// Pause before each of the runs that do not overlap.
const GAP: Duration = Duration::from_millis(10);
/// Of these, the first are not counted: connections are opened, statements are planned.
pub(crate) const WARM_UP: usize = 20;

/// A run for each goal, one after the other, and what `look` finds in the journal of the model after it.
pub(crate) async fn one_after_the_other<T>(
    setup: &Setup,
    label: &str,
    goals: &[String],
    look: impl Fn(&Timing, &Journal) -> Result<T>,
) -> Result<(Vec<Timing>, Vec<T>)> {
    let mut connection = setup.connect().await?;
    let journal = setup.model.journal();
    journal.set_detail(JournalDetail::Times);
    let mut progress = Progress::new(label, goals.len() as u64);
    let mut all = Vec::with_capacity(goals.len());
    for goal in goals {
        tokio::time::sleep(GAP).await;
        journal.clear();
        let timing = workload::run(&mut connection, goal).await?;
        all.push((timing, look(&timing, journal)?));
        progress.step();
    }
    journal.set_detail(JournalDetail::Counts);
    journal.clear();
    Ok(all.into_iter().skip(WARM_UP).unzip())
}

/// The job of a client that sends a message to the goal with the number of the piece, and reads the answer.
pub(crate) fn messages(
    goals: &Arc<Vec<String>>,
) -> impl for<'c> Fn(&'c mut Connection, usize) -> BoxFuture<'c, Result<Timing>> + Clone + Send + use<> {
    let goals = Arc::clone(goals);
    move |connection, nth| {
        let goals = Arc::clone(&goals);
        async move { workload::run(connection, &goals[nth % goals.len()]).await }.boxed()
    }
}

/// Clients that send a message to each goal at the same instant, once that is waited for, each over a connection of its own.
pub(crate) async fn at_once(
    setup: &Setup,
    goals: &Arc<Vec<String>>,
) -> Result<(JoinSet<Result<Timing>>, Arc<Barrier>)> {
    let start = Arc::new(Barrier::new(goals.len() + 1));
    let mut clients = JoinSet::new();
    for nth in 0..goals.len() {
        let mut connection = setup.connect().await?;
        let (goals, start) = (Arc::clone(goals), Arc::clone(&start));
        clients.spawn(async move {
            start.wait().await;
            workload::run(&mut connection, &goals[nth]).await
        });
    }
    Ok((clients, start))
}

/// What has been used when the load begins.
#[derive(Debug)]
pub(crate) struct Meter {
    cpu: Cpu,
    counters: Counters,
    began: Instant,
}

/// What a load has used.
#[derive(Debug)]
pub(crate) struct Spent {
    pub(crate) cpu: Cpu,
    pub(crate) grown: Counters,
    pub(crate) seconds: f64,
}

impl Meter {
    pub(crate) fn begin(setup: &Setup) -> Result<Self> {
        let (counters, cpu) = (setup.counters()?, setup.cpu()?);
        Ok(Self { cpu, counters, began: Instant::now() })
    }

    pub(crate) fn end(self, setup: &Setup) -> Result<Spent> {
        let (seconds, cpu) = (self.began.elapsed().as_secs_f64(), setup.cpu()?);
        let cpu = std::array::from_fn(|nth| cpu[nth].saturating_sub(self.cpu[nth]));
        Ok(Spent { cpu, grown: setup.counters()?.with(self.counters, u64::saturating_sub), seconds })
    }
}

impl Spent {
    /// Processor time of the service and its servers.
    pub(crate) fn of_service(&self) -> Duration {
        self.cpu[..3].iter().sum()
    }

    /// So many units a second, and the processor time of each. `unit` is what people read.
    pub(crate) fn rows(&self, unit: &str, units: usize) -> [Row; 3] {
        let each = |time: Duration| time.as_secs_f64() * 1000.0 / units as f64;
        [
            Row::of(format!("{unit}s/s"), units as f64 / self.seconds),
            Row::of(format!("CPU a {unit}, ms"), each(self.of_service())),
            Row::parts("  Houston / Postgres / Redis; load and model beside", self.cpu.map(each).to_vec()),
        ]
    }
}
