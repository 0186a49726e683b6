//! The one door for computations whose input is foreign: expressions, patterns, schemas, documents. And [`Turns`], by which
//! tenants share what is scarce.
//!
//! # Invariants
//! - Nothing of it is computed on the runtime's threads, but what takes microseconds for every input: plain expressions.
//! - A tenant has at most [`AT_ONCE`] of them at once, so that the others' do not wait for a tenant with many.
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

use houston_domain::plan::{Problem, all_plain, tried};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use uuid::Uuid;

/// Computations of one tenant at once.
pub const AT_ONCE: usize = 2;
/// Computations of all tenants at once.
const ALL: usize = 8;
/// Groups of tenants and users that share [`AT_ONCE`] places: by the last bits of their ids, which are random.
const GROUPS: usize = 64;

static PLACES: Semaphore = Semaphore::const_new(ALL);
static OF_GROUPS: [Semaphore; GROUPS] = [const { Semaphore::const_new(AT_ONCE) }; GROUPS];

/// The runtime shuts down, and nothing was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// Computes on a blocking thread, when `who`, a tenant or a user, has a place. The computation goes on if the caller stops
/// waiting, and keeps its place.
///
/// # Errors
/// [`Stopped`]: the runtime shuts down.
///
/// # Panics
/// When the computation does.
pub async fn compute<T: Send + 'static>(
    who: Uuid,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stopped> {
    let group = usize::from(who.as_bytes()[15]) % GROUPS;
    // The tenant's first: who waits for it takes no place of others. The semaphores are never closed.
    let of_tenant = OF_GROUPS[group].acquire().await.map_err(|_| Stopped)?;
    let place = PLACES.acquire().await.map_err(|_| Stopped)?;
    let done = spawn_blocking(move || {
        let _held = (of_tenant, place);
        work()
    });
    done.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Stopped,
    })
}

/// Tries the expressions of a document of `who`, or of a value with templates, before it is stored.
///
/// # Errors
/// Which expression cannot be evaluated within its limits, and which limit it reached.
pub async fn try_expressions(who: Uuid, document: &Value) -> Result<(), Problem> {
    if all_plain(document) {
        return Ok(());
    }
    let document = document.clone();
    compute(who, move || tried(&document)).await.unwrap_or(Ok(()))
}
