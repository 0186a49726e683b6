//! The plan of faults: which, and when. The same seed and duration give the same plan.

use std::fmt;
use std::time::Duration;

use houston_testkit::fault_proxy::Fault;

use super::model::FAULTS;
use super::seed::Seed;

/// API processes; nodes `0..APIS`. The workers are the nodes after them.
pub(crate) const APIS: usize = 2;
pub(crate) const WORKERS: usize = 4;
pub(crate) const NODES: usize = APIS + WORKERS;

/// The network between a process and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Postgres,
    Redis,
    Model,
}

/// Connections that Postgres terminates, as conditions on `pg_stat_activity`: those that renew the leases of workers, and those
/// of Houston with an even process id.
pub(crate) const BACKENDS: [(&str, &str); 2] = [
    ("Leases", "application_name = 'houston lease'"),
    ("Half", "application_name like 'houston%' and pid % 2 = 0"),
];

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Of a process, by its number, as in what follows.
    Kill(usize),
    Pause(usize, Duration),
    FlushRedis,
    RestartRedis,
    StallRedis(Duration),
    /// Redis has no memory left, and refuses what is written.
    FillRedis(Duration),
    RestartPostgres,
    CrashPostgres,
    /// The server of the tested engine is lost for good, and replaced.
    LoseServer,
    /// The number of one of [`BACKENDS`].
    Terminate(usize),
    /// Deletes the row of a living worker: it is a zombie until it notices.
    DeleteWorkerRow(usize),
    /// A fault on the link of one process, or of all (`None`).
    Network {
        /// The name under which it is counted.
        kind: &'static str,
        link: Link,
        node: Option<usize>,
        fault: Fault,
        time: Duration,
    },
    /// The number of one of [`FAULTS`].
    Model(usize, Duration),
}

/// A fault and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedAction {
    pub(crate) at: Duration,
    pub(crate) action: Action,
}

impl Action {
    /// The name under which it is counted.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Kill(node) if *node < APIS => "kill -9 API",
            Self::Kill(_) => "kill -9 worker",
            Self::Pause(..) => "SIGSTOP",
            Self::FlushRedis => "Redis flushed",
            Self::RestartRedis => "Redis restarted",
            Self::StallRedis(_) => "Redis stalled",
            Self::FillRedis(_) => "Redis full",
            Self::RestartPostgres => "Postgres restarted",
            Self::CrashPostgres => "Postgres killed",
            Self::LoseServer => "server lost for good",
            Self::Terminate(_) => "backends terminated",
            Self::DeleteWorkerRow(_) => "worker row deleted",
            Self::Network { kind, .. } => kind,
            Self::Model(nth, _) => FAULTS[*nth].0,
        }
    }
}

/// The name of a process: `api 1`, `worker 3`.
pub(crate) fn name(node: usize) -> String {
    if node < APIS { format!("api {}", node + 1) } else { format!("worker {}", node - APIS + 1) }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Self::Kill(node) => write!(f, "kill -9 {}", name(*node)),
            Self::Pause(node, time) => write!(f, "SIGSTOP {} for {time:.1?}", name(*node)),
            Self::StallRedis(time) | Self::FillRedis(time) | Self::Model(_, time) => {
                write!(f, "{kind} for {time:.1?}")
            }
            Self::DeleteWorkerRow(node) => write!(f, "row of {} deleted while it runs", name(*node)),
            Self::Terminate(nth) => write!(f, "{kind}: {}", BACKENDS[*nth].0),
            Self::Network { link, node, fault, time, .. } => {
                let process = node.map_or_else(|| "all".to_owned(), name);
                write!(f, "{fault:?} between {process} and {link:?} for {time:.1?}")
            }
            _ => f.write_str(kind),
        }
    }
}

/// Draws a fault of one kind, given the time that is left.
type Draw = fn(&mut Seed, Duration) -> Action;

/// Each kind of fault, with the least and the most seconds between two of them.
const KINDS: [(u64, u64, Draw); 9] = [
    (2, 15, |seed, _| Action::Kill(process(seed, 250))),
    // Mostly longer than the 30 s of a lease: a process that resumes earlier is no zombie.
    (15, 40, |seed, left| Action::Pause(process(seed, 150), seed.millis(5_000, 60_000).min(left))),
    (8, 25, |_, _| Action::FlushRedis),
    (15, 40, redis),
    (5, 40, |seed, _| if seed.permille(700) { Action::RestartPostgres } else { Action::CrashPostgres }),
    (6, 20, |seed, _| Action::Terminate(seed.below(BACKENDS.len()))),
    (5, 15, network),
    (6, 18, |seed, left| Action::Model(seed.below(FAULTS.len()), seed.millis(1_000, 4_000).min(left))),
    (6, 20, |seed, _| Action::DeleteWorkerRow(worker(seed))),
];

/// All faults within `time`, in order. `fault_rate` multiplies their number.
pub(crate) fn plan(seed: u64, time: Duration, fault_rate: u64) -> Vec<PlannedAction> {
    let mut planned = Vec::new();
    for (number, (least, most, draw)) in (1..).zip(KINDS) {
        let mut seed = Seed::of(seed, number);
        let pause = |seed: &mut Seed| seed.millis(least * 1000 / fault_rate, most * 1000 / fault_rate);
        let mut at = pause(&mut seed);
        while at < time {
            planned.push(PlannedAction { at, action: draw(&mut seed, time.saturating_sub(at)) });
            at += pause(&mut seed);
        }
    }
    planned.sort_by_key(|planned| planned.at);
    planned
}

/// One server is lost, in the middle of the load.
pub(crate) fn loss(time: Duration) -> Vec<PlannedAction> {
    vec![PlannedAction { at: time / 2, action: Action::LoseServer }]
}

fn worker(seed: &mut Seed) -> usize {
    APIS + seed.below(WORKERS)
}

/// An API process with a probability of `apis` in a thousand, else a worker.
fn process(seed: &mut Seed, apis: u64) -> usize {
    if seed.permille(apis) { seed.below(APIS) } else { worker(seed) }
}

fn redis(seed: &mut Seed, _: Duration) -> Action {
    match seed.below(3) {
        0 => Action::RestartRedis,
        1 => Action::StallRedis(seed.millis(1_000, 5_000)),
        _ => Action::FillRedis(seed.millis(1_000, 8_000)),
    }
}

fn network(seed: &mut Seed, left: Duration) -> Action {
    let link = seed.one_of(&[Link::Postgres, Link::Postgres, Link::Redis, Link::Model]);
    let node = if seed.permille(700) { Some(seed.below(NODES)) } else { None };
    let (kind, fault, time) = match seed.below(6) {
        0 => ("network slow", Fault::Latency(seed.millis(50, 300)), seed.millis(2_000, 8_000)),
        1 => ("network stalled", Fault::Stall, seed.millis(1_000, 5_000)),
        2 => ("network reset", Fault::Reset, seed.millis(50, 2_000)),
        3 => ("network black hole", Fault::BlackHole, Duration::from_secs(10)),
        4 => {
            let bytes = usize::try_from(seed.between(1, 4_000)).unwrap_or(1);
            ("network cut", Fault::CutAfter(bytes), seed.millis(500, 3_000))
        }
        _ => ("network throttled", Fault::Throttle(20_000), seed.millis(2_000, 6_000)),
    };
    Action::Network { kind, link, node, fault, time: time.min(left) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn seed_determines_the_plan() {
        let time = Duration::from_secs(600);
        assert_eq!(plan(1, time, 1), plan(1, time, 1));
        assert_ne!(plan(1, time, 1), plan(2, time, 1));
        assert!(plan(1, time, 2).len() > plan(1, time, 1).len());
    }

    #[test]
    fn ten_minutes_have_more_than_230_faults_of_every_kind() {
        for seed in 0..20 {
            let plan = plan(seed, Duration::from_secs(600), 1);
            assert!(plan.len() > 230, "{}", plan.len());
            assert!(plan.is_sorted_by_key(|planned| planned.at));
            let kinds: BTreeSet<&str> = plan.iter().map(|planned| planned.action.kind()).collect();
            assert!(kinds.len() >= 18, "{kinds:?}");
        }
    }
}
