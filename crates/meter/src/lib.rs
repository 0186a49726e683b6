//! The one door for computations whose input is foreign: expressions, patterns, schemas, documents. And [`Turns`], by which
//! tenants share what is scarce.
//!
//! # Invariants
//! - Nothing of it is computed on the runtime's threads, but what takes microseconds for every input: plain expressions.
//! - It yields the processor: beside requests and runs that use all of it, it gets a tenth ([`yielding`]).
//! - A tenant has at most two of them at once, so that the others' do not wait for a tenant with many.
//! - What can neither be stopped nor bounded beforehand is evaluated by child processes:
//!   [`houston_domain::plan::evaluate_elsewhere`], which `cli` connects with the sandbox.
//!
//! # Deliberately absent
//! The budgets: they belong to the engines, which count their work (`BoundedRegex` in `domain`, say), and to the child processes.
//!
//! # Recipe: an engine more
//! Bound its input, and its work if it can be counted; call it in [`compute`]. If it cannot be bounded, give it a form of
//! request in `houston_domain::plan::answer_evaluation`, or a task of its own in `sandbox`.

mod turns;

pub use turns::{Turn, Turns};

use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;

use houston_domain::plan::{Problem, all_plain, tried};
use serde_json::Value;
use tokio::task::spawn_blocking;
use uuid::Uuid;

/// Computations of all tenants at once: as many as there are processors, within these bounds.
const ALL: RangeInclusive<usize> = 2..=8;

/// One tenant has half of the processors at most, and never more than two: priority counts within a process and its children, but
/// where the kernel shares processors between services first, Postgres waits for them all the same.
static PLACES: LazyLock<Arc<Turns>> = LazyLock::new(|| {
    let all = available_parallelism().map_or(1, usize::from).clamp(*ALL.start(), *ALL.end());
    let of_tenant = (all / 2).min(2);
    Turns::new(all, of_tenant, of_tenant)
});

/// How much lower than that of requests and runs the priority of their threads is: a tenth of the time of a busy processor.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// The runtime shuts down, and nothing was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// Computes on a blocking thread, when the tenant has a place. The computation goes on if the caller stops
/// waiting, and keeps its place.
///
/// # Errors
/// [`Stopped`]: the runtime shuts down.
///
/// # Panics
/// When the computation does.
pub async fn compute<T: Send + 'static>(
    tenant: Uuid,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stopped> {
    let place = PLACES.take(tenant).await;
    let done = spawn_blocking(move || {
        let _held = place;
        yielding(work)
    });
    done.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Stopped,
    })
}

/// Does the work on a thread of lower priority, and waits for it. A thread cannot take its old priority again, and those that
/// block for the runtime are used for much else, so it is a thread of its own.
///
/// # Panics
/// When the work does.
pub fn yielding<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let lowered = || {
        #[cfg(target_os = "linux")]
        let _refused_or_lowered = rustix::process::nice(NICE);
        work()
    };
    std::thread::scope(|scope| {
        scope.spawn(lowered).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Tries the expressions of a document of a tenant, or of a value with templates, before it is stored.
///
/// # Errors
/// Which expression cannot be evaluated within its limits, and which limit it reached.
pub async fn try_expressions(tenant: Uuid, document: &Value) -> Result<(), Problem> {
    if all_plain(document) {
        return Ok(());
    }
    let document = document.clone();
    compute(tenant, move || tried(&document)).await.unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn nobody_waits_for_the_computations_of_another() {
        let (loud, quiet) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut ends = Vec::new();
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..2 * ALL.end() {
            let (end, wait) = channel::<()>();
            ends.push(end);
            running.spawn(compute(loud, move || {
                assert!(wait.recv().is_err(), "it waits for the sender to be dropped")
            }));
        }
        assert_eq!(compute(quiet, || 1).await, Ok(1));
        drop(ends);
        while let Some(done) = running.join_next().await {
            assert_eq!(done.unwrap(), Ok(()));
        }
    }
}
