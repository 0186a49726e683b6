//! How many requests of one tenant are handled at once, beside those of others.
//!
//! A request has a place from when its caller and its body are known to its answer. It gives the place back while it waits
//! for something that takes no work: a run, a person, another server. A tenant alone has no limit here.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use houston_domain::id::TenantId;
use houston_meter::{Turn, Turns};

use crate::deadline::Deadline;

/// Requests of a tenant for each processor.
const OF_PROCESSOR: usize = 1;

tokio::task_local! {
    /// The place of the request of this task.
    static PLACE: Place;
}

/// How long a request may wait for a computation, which yields the processor to all else. Its deadline is about the rest.
const COMPUTING: Duration = Duration::from_secs(60);

/// The place of a request.
struct Place {
    turns: Arc<Turns>,
    deadline: Deadline,
    tenant: Cell<Option<TenantId>>,
    turn: RefCell<Option<Turn>>,
}

/// The places of an API.
pub(crate) fn places() -> Arc<Turns> {
    let processors = available_parallelism().map_or(1, usize::from);
    Turns::new(usize::MAX, OF_PROCESSOR * processors, usize::MAX)
}

/// Handles a request, with a place from when [`admit`] is called.
pub(crate) async fn with_admission<R>(
    turns: Arc<Turns>,
    deadline: Deadline,
    request: impl Future<Output = R>,
) -> R {
    let place = Place { turns, deadline, tenant: Cell::default(), turn: RefCell::default() };
    PLACE.scope(place, request).await
}

/// Says who sends the request of this task, and admits it if it has no body.
pub(crate) async fn identified(tenant: TenantId, headers: &HeaderMap) {
    let _ = PLACE.try_with(|place| place.tenant.set(Some(tenant)));
    if !has_body(headers) {
        admit().await;
    }
}

/// Waits until its tenant may have one more request handled, unless this one has a place.
pub(crate) async fn admit() {
    let wanted = PLACE.try_with(|place| {
        let tenant = place.tenant.get().filter(|_| place.turn.borrow().is_none())?;
        Some((Arc::clone(&place.turns), tenant))
    });
    if let Ok(Some((turns, tenant))) = wanted {
        let turn = turns.take(tenant.0).await;
        let _ = PLACE.try_with(|place| place.turn.replace(Some(turn)));
    }
}

/// Waits for something without the place.
pub(crate) async fn without_place<R>(waiting: impl Future<Output = R>) -> R {
    give_back();
    let waited = waiting.await;
    admit().await;
    waited
}

/// Waits for a computation, without the place, and without its time counting as that of the request.
pub(crate) async fn computed<R>(computation: impl Future<Output = R>) -> R {
    untimed(without_place(computation)).await
}

/// Waits for something whose time does not count as that of the request.
pub(crate) async fn untimed<R>(waiting: impl Future<Output = R>) -> R {
    let restart = |pause| PLACE.try_with(|place| place.deadline.restart_after(pause)).ok();
    restart(COMPUTING);
    let waited = waiting.await;
    restart(Duration::ZERO);
    waited
}

/// The tenant that sends the request of this task, if it is known.
pub(crate) fn tenant() -> Option<TenantId> {
    PLACE.try_with(|place| place.tenant.get()).ok().flatten()
}

/// Gives the place back: what follows waits for something.
pub(crate) fn give_back() {
    let _ = PLACE.try_with(|place| place.turn.take());
}

/// Whether a request comes with a body: it is admitted when that is read, so that a slow client holds no place.
fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    headers.contains_key(header::TRANSFER_ENCODING) || length.is_some_and(|length| length != "0")
}
