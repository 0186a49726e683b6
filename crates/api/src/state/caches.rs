//! What this process remembers of Postgres, so as not to ask again with every request: facts of agentables that never change,
//! lists that may be some seconds old, and whether the disk is full. Keys are remembered in [`crate::state::keys`].

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::{AgentableId, TenantId, UserId};
use houston_store::cost::ModelSpeed;
use houston_store::ended::Ended;
use houston_store::{ApiStore, TenantStore};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum number of agentables of each cache. A cache is cleared when it is full.
const MAX_AGENTABLES: usize = 50_000;
/// Maximum number of tenants whose lists are kept. The cache is cleared when it is full.
const MAX_TENANTS: usize = 1_000;

/// Caches tenant and kind of agentables, which never change, to save a check per posted message. An entry may be stale
/// because the agentable was erased; the statement that posts the message checks that again.
#[derive(Debug, Default)]
pub(crate) struct AgentableCache(Mutex<HashMap<AgentableId, (TenantId, String)>>);

impl AgentableCache {
    /// Whether the agentable has this kind and belongs to this tenant, as an earlier post has found.
    pub(crate) fn is_confirmed(&self, tenant: TenantId, kind: &str, agentable: AgentableId) -> bool {
        // With another tenant or kind the statement finds nothing.
        let is_same = |(of, named): &(TenantId, String)| *of == tenant && named == kind;
        self.0.lock().get(&agentable).is_some_and(is_same)
    }

    /// Remembers that the agentable has this kind and belongs to this tenant.
    pub(crate) fn remember(&self, tenant: TenantId, kind: &str, agentable: AgentableId) {
        insert(&mut self.0.lock(), MAX_AGENTABLES, agentable, (tenant, kind.to_owned()));
    }

    /// Removes an agentable from the cache.
    pub(crate) fn forget(&self, agentable: AgentableId) {
        self.0.lock().remove(&agentable);
    }
}

/// Caches the users of agentables, which never change, to save keys of one user a query per request.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<HashMap<AgentableId, (TenantId, UserId)>>);

impl Owners {
    /// The user of an agentable of the tenant, whose `store` it is.
    ///
    /// # Errors
    /// Not found when the tenant has no such agentable; the store's errors.
    pub(crate) async fn user_of(
        &self,
        store: TenantStore<'_>,
        tenant: TenantId,
        agentable: AgentableId,
    ) -> houston_store::Result<UserId> {
        let cached = self.0.lock().get(&agentable).copied();
        if let Some((_, user)) = cached.filter(|(of, _)| *of == tenant) {
            return Ok(user);
        }
        let user = store.user_of_agentable(agentable).await?;
        insert(&mut self.0.lock(), MAX_AGENTABLES, agentable, (tenant, user));
        Ok(user)
    }
}

/// The measured speeds of models, of each tenant.
pub(crate) type Speeds = Recent<TenantId, ModelSpeed>;

/// How the runs of each tenant have ended, by cell; `None`: those of all tenants.
pub(crate) type EndedRuns = Recent<Option<TenantId>, Ended>;

/// Lists that are read again when they are old.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    fresh_for: Duration,
    kept: Mutex<HashMap<K, Kept<V>>>,
}

/// When a list was read, and what.
type Kept<V> = (Instant, Arc<[V]>);

impl<K: Eq + Hash, V> Recent<K, V> {
    pub(crate) fn new(fresh_for: Duration) -> Self {
        Self { fresh_for, kept: Mutex::default() }
    }

    /// What was read of `whose`, unless it is old.
    pub(crate) fn get(&self, whose: K) -> Option<Arc<[V]>> {
        let kept = self.kept.lock();
        let (at, list) = kept.get(&whose)?;
        (at.elapsed() < self.fresh_for).then(|| Arc::clone(list))
    }

    /// Keeps what was read of `whose` just now.
    pub(crate) fn keep(&self, whose: K, list: &Arc<[V]>) {
        insert(&mut self.kept.lock(), MAX_TENANTS, whose, (Instant::now(), Arc::clone(list)));
    }
}

/// Minimum time between two checks of the disk, for any number of probes.
const LOOKS_EVERY: Duration = Duration::from_secs(5);

/// Whether Postgres could write to its disk at the latest check.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<Look>);

#[derive(Debug, Default)]
struct Look {
    at: Option<Instant>,
    is_full: bool,
}

impl Disk {
    /// Whether Postgres had no space to write at the latest check. An unreachable Postgres leaves the result unchanged:
    /// another check reports that.
    pub(crate) async fn is_full(&self, store: &ApiStore) -> bool {
        let before = {
            let mut look = self.0.lock();
            let now = Instant::now();
            if look.at.is_some_and(|at| now < at + LOOKS_EVERY) {
                return look.is_full;
            }
            look.at = Some(now);
            look.is_full
        };
        // A check that is given up has found nothing: the next probe checks.
        let mut check = DiskCheck { disk: self, has_ended: false };
        let found = store.check_disk_space().await;
        check.has_ended = true;
        let is_full = match found {
            Ok(()) => false,
            Err(error) if error.is_out_of_resources() => {
                tracing::warn!(%error, "postgres has no space left to write");
                true
            }
            Err(_) => before,
        };
        self.0.lock().is_full = is_full;
        is_full
    }
}

struct DiskCheck<'d> {
    disk: &'d Disk,
    has_ended: bool,
}

impl Drop for DiskCheck<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.disk.0.lock().at = None;
        }
    }
}

pub(crate) fn insert<K: Eq + Hash, V>(cache: &mut HashMap<K, V>, max: usize, key: K, value: V) {
    if cache.len() >= max {
        cache.clear();
    }
    cache.insert(key, value);
}

/// Takes `amount` off the count of `whose`. A count of 0 is removed.
pub(crate) fn take_off<K: Eq + Hash>(counts: &mut HashMap<K, usize>, whose: K, amount: usize) {
    let left = counts.remove(&whose).unwrap_or(0).saturating_sub(amount);
    if left > 0 {
        counts.insert(whose, left);
    }
}
