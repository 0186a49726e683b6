//! [`Rooms`]: how many connections tenants may have, so that none of them takes those of the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use houston_domain::id::TenantId;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::error::StartError;

/// How long a new connection waits for the place of one that is closing.
const FREED: Duration = Duration::from_secs(2);

/// A connection that can make room for another one.
pub(crate) trait Leavable: Send + Sync {
    /// Whether it takes no place any more.
    fn has_ended(&self) -> bool;
    /// Ends it if it is not used; `false`: it is.
    fn leave(&self) -> bool;
}

/// The connections of all tenants.
pub(crate) struct Rooms {
    per_tenant: usize,
    of_all: usize,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Default)]
struct Taken {
    counts: HashMap<TenantId, usize>,
    /// Those that are open, the oldest first.
    open: Vec<(TenantId, Weak<dyn Leavable>)>,
}

/// The place of one connection, until it is dropped.
pub(crate) struct Place {
    rooms: Arc<Rooms>,
    tenant: TenantId,
}

impl Rooms {
    pub(crate) fn new(per_tenant: usize, of_all: usize) -> Arc<Self> {
        Arc::new(Self { per_tenant, of_all, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a place. If there is none, a connection that is not used is ended.
    ///
    /// # Errors
    /// [`StartError::Full`] when all are in use.
    pub(crate) async fn enter(self: &Arc<Self>, tenant: TenantId) -> Result<Place, StartError> {
        let deadline = Instant::now() + FREED;
        loop {
            let freed = self.freed.notified();
            let of_tenant = {
                let mut taken = self.taken();
                let of_tenant = taken.counts.get(&tenant).copied().unwrap_or(0) >= self.per_tenant;
                if !of_tenant && taken.counts.values().sum::<usize>() < self.of_all {
                    *taken.counts.entry(tenant).or_default() += 1;
                    return Ok(Place { rooms: Arc::clone(self), tenant });
                }
                taken.leave(of_tenant.then_some(tenant));
                of_tenant
            };
            let limit = if of_tenant { self.per_tenant } else { self.of_all };
            if timeout_at(deadline, freed).await.is_err() {
                return Err(StartError::Full { of_tenant, limit });
            }
        }
    }

    /// Remembers a connection, which may be ended while it is not used.
    pub(crate) fn opened(&self, tenant: TenantId, connection: Arc<dyn Leavable>) {
        let mut taken = self.taken();
        taken.open.retain(|(_, connection)| connection.upgrade().is_some_and(|it| !it.has_ended()));
        taken.open.push((tenant, Arc::downgrade(&connection)));
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Ends the oldest connection that is not used, of this tenant or of any.
    fn leave(&mut self, of: Option<TenantId>) {
        self.open.retain(|(_, connection)| connection.upgrade().is_some_and(|it| !it.has_ended()));
        let meant = self.open.iter().filter(|(tenant, _)| of.is_none_or(|of| of == *tenant));
        for (_, connection) in meant {
            if connection.upgrade().is_some_and(|connection| connection.leave()) {
                return;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.rooms.taken();
        if let Some(count) = taken.counts.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                taken.counts.remove(&self.tenant);
            }
        }
        drop(taken);
        self.rooms.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn tenant(nth: u128) -> TenantId {
        TenantId(Uuid::from_u128(nth))
    }

    #[tokio::test(start_paused = true)]
    async fn no_tenant_takes_the_counts_of_another() {
        let rooms = Rooms::new(2, 3);
        let first = [rooms.enter(tenant(1)).await.unwrap(), rooms.enter(tenant(1)).await.unwrap()];
        let refused = rooms.enter(tenant(1)).await.err().unwrap();
        assert!(matches!(refused, StartError::Full { of_tenant: true, limit: 2 }), "{refused}");
        let _second = rooms.enter(tenant(2)).await.unwrap();
        let refused = rooms.enter(tenant(3)).await.err().unwrap();
        assert!(matches!(refused, StartError::Full { of_tenant: false, limit: 3 }), "{refused}");
        drop(first);
        let _third = rooms.enter(tenant(3)).await.unwrap();
    }
}
