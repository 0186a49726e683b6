//! Many clients at once, and what their work costs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use houston_testkit::console::Progress;
use houston_testkit::model_server::{Journal, JournalDetail};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::database::Counters;
use super::report::Row;
use super::setup::{Cpu, Setup};
use super::workload::{self, Timing};
use crate::http::Connection;

/// A client takes the number of the next piece of work, with its own connection, until there is none. `at`: the address of
/// the server, and the key with which it is asked.
pub(crate) async fn clients<T: Send + 'static>(
    (address, key): (SocketAddr, &str),
    count: usize,
    (label, work): (&str, usize),
    job: impl Job<T>,
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
                done.push(job.carry_out(&mut connection, nth).await?);
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
    let (message, answer) = (workload::message(), workload::answer());
    let mut connection = setup.connect().await?;
    let journal = setup.model.journal();
    journal.set_detail(JournalDetail::Times);
    let mut progress = Progress::new(label, goals.len() as u64);
    let mut all = Vec::with_capacity(goals.len());
    for goal in goals {
        tokio::time::sleep(GAP).await;
        journal.clear();
        let timing = workload::run(&mut connection, goal, &message, &answer).await?;
        all.push((timing, look(&timing, journal)?));
        progress.step();
    }
    journal.set_detail(JournalDetail::Counts);
    journal.clear();
    Ok(all.into_iter().skip(WARM_UP).unzip())
}

/// What a client does for one piece of work.
pub(crate) trait Job<T>: Clone + Send + 'static {
    fn carry_out(&self, connection: &mut Connection, nth: usize) -> impl Future<Output = Result<T>> + Send;
}

/// Sends a message to the goal with the number of the piece, and reads the answer.
#[derive(Debug, Clone)]
pub(crate) struct Messages {
    goals: Arc<Vec<String>>,
    texts: Arc<(String, String)>,
}

impl Messages {
    pub(crate) fn to(goals: &Arc<Vec<String>>) -> Self {
        let texts = Arc::new((workload::message(), workload::answer()));
        Self { goals: Arc::clone(goals), texts }
    }

    pub(crate) async fn send(&self, connection: &mut Connection, goal: &str) -> Result<Timing> {
        workload::run(connection, goal, &self.texts.0, &self.texts.1).await
    }

    /// Clients that send all messages at the same instant, once that is waited for, each over a connection of its own.
    pub(crate) async fn at_once(&self, setup: &Setup) -> Result<(JoinSet<Result<Timing>>, Arc<Barrier>)> {
        let start = Arc::new(Barrier::new(self.goals.len() + 1));
        let mut clients = JoinSet::new();
        for nth in 0..self.goals.len() {
            let mut connection = setup.connect().await?;
            let (messages, start) = (self.clone(), Arc::clone(&start));
            clients.spawn(async move {
                start.wait().await;
                messages.carry_out(&mut connection, nth).await
            });
        }
        Ok((clients, start))
    }
}

impl Job<Timing> for Messages {
    async fn carry_out(&self, connection: &mut Connection, nth: usize) -> Result<Timing> {
        self.send(connection, &self.goals[nth % self.goals.len()]).await
    }
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
        Ok(Spent { cpu, grown: setup.counters()?.since(self.counters), seconds })
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
