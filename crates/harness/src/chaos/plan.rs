//! What will go wrong, and when: the same for the same seed and time.

use std::fmt;
use std::time::Duration;

use houston_testkit::fault_proxy::Fault;

use super::model::Weather;
use super::seed::Seed;

/// Processes of the API, which come first, and of workers.
pub(crate) const APIS: usize = 2;
pub(crate) const WORKERS: usize = 4;
pub(crate) const NODES: usize = APIS + WORKERS;

/// The network between a process and something it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Postgres,
    Redis,
    Model,
}

/// Connections that are ended by Postgres.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backends {
    /// Those that keep the leases of workers.
    Leases,
    /// Half of all.
    Half,
}

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Kill {
        node: usize,
    },
    Pause {
        node: usize,
        time: Duration,
    },
    FlushRedis,
    RestartRedis,
    StallRedis {
        time: Duration,
    },
    RestartPostgres,
    CrashPostgres,
    Terminate(Backends),
    /// Its worker row is taken away while it lives and works: it is a zombie until it notices.
    Misjudge {
        node: usize,
    },
    /// Between one process, or all, and what is at the other end of the link.
    Network {
        link: Link,
        node: Option<usize>,
        fault: Fault,
        time: Duration,
    },
    Model {
        weather: Weather,
        time: Duration,
    },
}

/// It, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) act: Act,
}

impl Act {
    /// What it counts as.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Kill { node } if *node < APIS => "kill -9 API",
            Self::Kill { .. } => "kill -9 worker",
            Self::Pause { .. } => "SIGSTOP",
            Self::FlushRedis => "Redis flushed",
            Self::RestartRedis => "Redis restarted",
            Self::StallRedis { .. } => "Redis stalled",
            Self::RestartPostgres => "Postgres restarted",
            Self::CrashPostgres => "Postgres killed",
            Self::Terminate(_) => "backends terminated",
            Self::Misjudge { .. } => "living taken for dead",
            Self::Network { fault, .. } => match fault {
                Fault::Latency(_) => "network slow",
                Fault::Throttle(_) => "network throttled",
                Fault::Stall => "network stalled",
                Fault::Reset => "network reset",
                Fault::BlackHole => "network black hole",
                Fault::CutAfter(_) => "network cut",
                Fault::None => "network",
            },
            Self::Model { weather, .. } => match weather {
                Weather::Fair => "model",
                Weather::RateLimited => "model 429",
                Weather::Overloaded => "model 529",
                Weather::Hangs => "model hangs",
                Weather::Garbage => "model garbage",
                Weather::Truncates => "model truncates",
            },
        }
    }
}

/// The name of a process.
pub(crate) fn name(node: usize) -> String {
    if node < APIS { format!("api {}", node + 1) } else { format!("worker {}", node - APIS + 1) }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Self::Kill { node } => write!(f, "kill -9 {}", name(*node)),
            Self::Pause { node, time } => write!(f, "SIGSTOP {} for {time:.1?}", name(*node)),
            Self::StallRedis { time } | Self::Model { time, .. } => write!(f, "{kind} for {time:.1?}"),
            Self::Misjudge { node } => write!(f, "{} is taken for dead and lives", name(*node)),
            Self::Terminate(backends) => write!(f, "{kind}: {backends:?}"),
            Self::Network { link, node, fault, time } => {
                let who = node.map_or_else(|| "all".to_owned(), name);
                write!(f, "{fault:?} between {who} and {link:?} for {time:.1?}")
            }
            _ => f.write_str(kind),
        }
    }
}

/// Draws the act of a kind, given how much time is left.
type Draw = fn(&mut Seed, Duration) -> Act;

/// Each kind, with the least and the most seconds between two of it.
const KINDS: [(u64, u64, Draw); 9] = [
    (2, 15, kill),
    (15, 40, pause),
    (8, 25, |_, _| Act::FlushRedis),
    (15, 40, redis),
    (5, 40, postgres),
    (6, 20, |seed, _| Act::Terminate(seed.one_of(&[Backends::Leases, Backends::Half]))),
    (5, 15, network),
    (6, 18, model),
    (6, 20, |seed, _| Act::Misjudge { node: worker(seed) }),
];

/// Everything that goes wrong within `time`, in order. `haste` is 1, or how many times as often.
pub(crate) fn plan(seed: u64, time: Duration, haste: u64) -> Vec<Planned> {
    let mut planned = Vec::new();
    for (number, (least, most, draw)) in (1..).zip(KINDS) {
        let mut seed = Seed::of(seed, number);
        let pause = |seed: &mut Seed| seed.millis(least * 1000 / haste, most * 1000 / haste);
        let mut at = pause(&mut seed);
        while at < time {
            planned.push(Planned { at, act: draw(&mut seed, time.saturating_sub(at)) });
            at += pause(&mut seed);
        }
    }
    planned.sort_by_key(|planned| planned.at);
    planned
}

fn worker(seed: &mut Seed) -> usize {
    APIS + seed.below(WORKERS)
}

fn kill(seed: &mut Seed, _: Duration) -> Act {
    let node = if seed.permille(250) { seed.below(APIS) } else { worker(seed) };
    Act::Kill { node }
}

/// Mostly beyond the 30 s of a lease: a sleeper that comes back within them is no zombie.
fn pause(seed: &mut Seed, left: Duration) -> Act {
    let node = if seed.permille(150) { seed.below(APIS) } else { worker(seed) };
    Act::Pause { node, time: seed.millis(5_000, 60_000).min(left) }
}

fn redis(seed: &mut Seed, _: Duration) -> Act {
    if seed.permille(500) { Act::RestartRedis } else { Act::StallRedis { time: seed.millis(1_000, 5_000) } }
}

fn postgres(seed: &mut Seed, _: Duration) -> Act {
    if seed.permille(700) { Act::RestartPostgres } else { Act::CrashPostgres }
}

fn network(seed: &mut Seed, left: Duration) -> Act {
    let link = seed.one_of(&[Link::Postgres, Link::Postgres, Link::Redis, Link::Model]);
    let node = if seed.permille(700) { Some(seed.below(NODES)) } else { None };
    let (fault, time) = match seed.below(6) {
        0 => (Fault::Latency(seed.millis(50, 300)), seed.millis(2_000, 8_000)),
        1 => (Fault::Stall, seed.millis(1_000, 5_000)),
        2 => (Fault::Reset, seed.millis(50, 2_000)),
        3 => (Fault::BlackHole, Duration::from_secs(10)),
        4 => (Fault::CutAfter(usize::try_from(seed.between(1, 4_000)).unwrap_or(1)), seed.millis(500, 3_000)),
        _ => (Fault::Throttle(20_000), seed.millis(2_000, 6_000)),
    };
    Act::Network { link, node, fault, time: time.min(left) }
}

fn model(seed: &mut Seed, left: Duration) -> Act {
    let weather = seed.one_of(&[
        Weather::RateLimited,
        Weather::Overloaded,
        Weather::Hangs,
        Weather::Garbage,
        Weather::Truncates,
    ]);
    Act::Model { weather, time: seed.millis(1_000, 4_000).min(left) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_plan_follows_from_the_seed() {
        let time = Duration::from_secs(600);
        assert_eq!(plan(1, time, 1), plan(1, time, 1));
        assert_ne!(plan(1, time, 1), plan(2, time, 1));
        assert!(plan(1, time, 2).len() > plan(1, time, 1).len());
    }

    #[test]
    fn ten_minutes_have_more_than_two_hundred_faults_of_every_kind() {
        for seed in 0..20 {
            let plan = plan(seed, Duration::from_secs(600), 1);
            assert!(plan.len() > 230, "{}", plan.len());
            assert!(plan.is_sorted_by_key(|planned| planned.at));
            let kinds: BTreeSet<&str> = plan.iter().map(|planned| planned.act.kind()).collect();
            assert!(kinds.len() >= 18, "{kinds:?}");
        }
    }
}
