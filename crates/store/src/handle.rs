//! The handles of the store: each has the methods that one kind of caller may use, and no others. The
//! [front page](crate) says which is for whom.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use houston_domain::custom_table::TablePresets;
use houston_domain::id::{AgentableId, ProcessId, TenantId, TriggerId};
use houston_domain::knowledge::KnowledgeLimits;
use houston_domain::rate::RateLimits;
use houston_domain::team::TeamLimits;
use houston_objects::Objects;
use sqlx::PgPool;
use uuid::Uuid;

use crate::api_key::Principal;
use crate::batcher::{Batcher, Writers};
use crate::claim::batch::Claims;
use crate::connections::{Connections, Pools, Purpose};
use crate::creation::Creations;
use crate::direct_start::DirectWorker;
use crate::event::batch::StreamReads;
use crate::message::Posts;
use crate::outbox::Settlements;
use crate::plan::NewPlans;
use crate::primary::Addresses;
use crate::rate::{Asks, TokenCounts};
use crate::reach::Reach;
use crate::row_security::{Known, TenantPool};
use crate::run_context::Contexts;
use crate::settings::{Archiving, Fairness};
use crate::step::batch::Steps;
use crate::workspace_file::folder::Folders;

/// What the operator has set for a store, and what it uses beside Postgres.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The limits per user.
    pub fairness: Fairness,
    /// Which sessions are closed, and when; by default none is.
    pub archiving: Arc<Archiving>,
    /// Which kinds reach which; by default none reaches another.
    pub reach: Arc<Reach>,
    /// The rate limits; by default there are none.
    pub rates: RateLimits,
    /// How many notes, learnings, memories and so on may be stored.
    pub knowledge_limits: KnowledgeLimits,
    /// Tables that are created by name.
    pub table_presets: Arc<TablePresets>,
    /// How many agents and teams a tenant may have, and how large a team may be.
    pub team_limits: TeamLimits,
    /// The object store of attachments; `None`: their bytes are rows.
    pub objects: Option<Objects>,
    /// Whether each write is a statement of its own, for tests that compare this with batches.
    pub is_unbatched: bool,
}

/// What all handles share. Its fields are visible in this crate only.
#[doc(hidden)]
#[derive(Clone)]
pub struct Shared {
    /// Those of the purpose that the handle is for.
    pub(crate) pool: Connections,
    /// Those of each purpose.
    pub(crate) pools: Arc<Pools>,
    /// The pool of connections with session state, for notifications and migrations, and whose options batches use. They
    /// never go through a pooler.
    pub(crate) sessions: PgPool,
    /// The hosts of both; none if the store was made from a pool.
    pub(crate) addresses: Arc<Addresses>,
    /// Whether requests of tenants are under [`row_security`](crate::row_security), once that was read.
    pub(crate) row_security: Known,
    /// The other cells, to find out which run kills its workers.
    pub(crate) other_cells: Arc<[Connections]>,
    pub(crate) settings: Arc<Settings>,
    /// The folder of workspaces; `None`: files are rows.
    pub(crate) folders: Option<Folders>,
    pub(crate) batchers: Arc<Batchers>,
    /// The process, if it has workers.
    pub(crate) process: Option<ProcessId>,
    /// Triggers that this process has marked as being evaluated.
    pub(crate) marked_triggers: Arc<Mutex<BTreeSet<TriggerId>>>,
    /// The worker of this process that starts runs when their messages are posted.
    pub(crate) direct_worker: Arc<RwLock<Option<Weak<dyn DirectWorker>>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("fairness", &self.fairness).finish_non_exhaustive()
    }
}

impl Shared {
    /// The same with the connections of a purpose.
    pub(crate) fn with_connections_of(&self, purpose: Purpose) -> Arc<Self> {
        let pool = self.pools.of(purpose).clone();
        // An erasure settles files while its transaction is open, so background work does that with connections of runs: these
        // wait for none of its own.
        let settling = if purpose == Purpose::Background { Purpose::Runs } else { purpose };
        let folders = self.folders.as_ref().map(|folders| folders.with_connections(self.pools.of(settling)));
        Arc::new(Self { pool, folders, ..self.clone() })
    }

    pub(crate) fn direct_worker(&self) -> Option<Arc<dyn DirectWorker>> {
        let worker = self.direct_worker.read().unwrap_or_else(PoisonError::into_inner);
        worker.as_ref()?.upgrade()
    }

    /// The handle for requests of a tenant.
    pub(crate) fn tenant(&self, tenant: TenantId) -> TenantStore<'_> {
        TenantStore { shared: self, tenant, pool: self.pool_of(Some(tenant)) }
    }

    /// The connections for what is done for a tenant; `None`: for an operator, over all of them.
    pub(crate) fn pool_of(&self, tenant: Option<TenantId>) -> TenantPool<'_> {
        TenantPool { pool: &self.pool, row_security: &self.row_security, tenant, whose: tenant }
    }
}

/// What is written and read in batches.
pub(crate) struct Batchers {
    pub(crate) creations: Batcher<Creations>,
    pub(crate) posts: Batcher<Posts>,
    pub(crate) claims: Batcher<Claims>,
    pub(crate) steps: Batcher<Steps>,
    pub(crate) plans: Batcher<NewPlans>,
    pub(crate) contexts: Batcher<Contexts>,
    pub(crate) streams: Batcher<StreamReads>,
    pub(crate) asks: Batcher<Asks>,
    pub(crate) tokens: Batcher<TokenCounts>,
    pub(crate) settlements: Batcher<Settlements>,
    /// What all of them write with.
    writers: Arc<Writers>,
}

impl Batchers {
    /// `sessions`: the pool whose connections keep their settings.
    pub(crate) fn new(sessions: &PgPool, settings: &Settings) -> Arc<Self> {
        let Settings { fairness, archiving, reach, rates, .. } = settings.clone();
        let (max_running, max_pending) = (fairness.running(), fairness.pending());
        let contexts = Contexts { archive: archiving.settings, reach: Arc::clone(&reach) };
        let claims = Claims { fairness, archiving, reach, tokens: rates.tokens };
        let writers = Arc::new(Writers::new(sessions));
        Arc::new(Self {
            creations: Batcher::new(Creations { max_pending }, &writers),
            posts: Batcher::new(Posts { max_running, max_pending }, &writers),
            claims: Batcher::new(claims, &writers),
            steps: Batcher::new(Steps { max_running }, &writers),
            plans: Batcher::new(NewPlans, &writers),
            contexts: Batcher::new(contexts, &writers),
            streams: Batcher::new(StreamReads, &writers),
            asks: Batcher::new(Asks(rates), &writers),
            tokens: Batcher::new(TokenCounts(rates.tokens), &writers),
            settlements: Batcher::new(Settlements, &writers),
            writers,
        })
    }

    /// Prepares what a message needs from its post to its answer.
    pub(crate) async fn warm_up(&self) {
        tokio::join!(
            self.posts.warm_up(),
            self.claims.warm_up(),
            self.steps.warm_up(),
            self.streams.warm_up(),
        );
    }

    pub(crate) async fn close(&self) {
        self.writers.close().await;
    }
}

/// What runs and workers may do; cheap to clone.
#[derive(Debug, Clone)]
pub struct RunStore {
    pub(crate) shared: Arc<Shared>,
}

impl RunStore {
    /// The handle for what belongs to a tenant of a run. A run is not under
    /// [`row_security`](crate::row_security), which costs round trips.
    pub fn tenant(&self, tenant: TenantId) -> TenantStore<'_> {
        let shared = &*self.shared;
        let pool = TenantPool { tenant: None, ..shared.pool_of(Some(tenant)) };
        TenantStore { shared, tenant, pool }
    }

    /// Lets `worker` start runs when their messages are posted, for as long as it exists. It replaces the one before it.
    pub fn start_directly(&self, worker: Weak<dyn DirectWorker>) {
        let mut present = self.direct_worker.write().unwrap_or_else(PoisonError::into_inner);
        *present = Some(worker);
    }

    /// The same for a process whose workers have the end of its ids: what it has in hand is marked as its own.
    #[must_use]
    pub fn in_process(self, process: ProcessId) -> Self {
        Self { shared: Arc::new(Shared { process: Some(process), ..Shared::clone(&self.shared) }) }
    }
}

/// What a request of one tenant may do. Every query is restricted to that tenant.
#[derive(Debug, Clone, Copy)]
pub struct TenantStore<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) tenant: TenantId,
    /// In the place of [`Shared`]'s: its statements see the rows of the tenant only.
    pub(crate) pool: TenantPool<'s>,
}

/// What the API may do without a tenant; cheap to clone.
#[derive(Debug, Clone)]
pub struct ApiStore {
    pub(crate) shared: Arc<Shared>,
}

impl ApiStore {
    /// Opens connections and prepares the statements from a message's post to its answer, so that the first request after a
    /// start does not wait for that. What fails is left to the first request.
    pub async fn warm_up(&self) {
        if self.is_unbatched {
            return;
        }
        let nobody = self.shared.tenant(TenantId(Uuid::nil()));
        let of_runs = async { self.pools.of(Purpose::Runs).acquire().await.is_ok() };
        let of_requests = async { self.api_keys_with(&[String::new()]).await.is_ok() };
        let another = async { nobody.agentable("", AgentableId(Uuid::nil())).await.is_ok() };
        tokio::join!(self.batchers.warm_up(), of_runs, of_requests, another);
    }

    /// The handle for a request with a valid key.
    pub fn tenant(&self, principal: Principal) -> TenantStore<'_> {
        self.shared.tenant(principal.tenant())
    }
}

/// What commands of the operator may do, over all tenants.
#[derive(Debug, Clone, Copy)]
pub struct OperatorStore<'s> {
    pub(crate) shared: &'s Shared,
}

macro_rules! derefs {
    ($($handle:ty => $field:ident: $target:ty),* $(,)?) => {$(
        impl Deref for $handle {
            type Target = $target;

            fn deref(&self) -> &$target {
                &self.$field
            }
        }
    )*};
}
pub(crate) use derefs;

derefs!(
    RunStore => shared: Shared,
    TenantStore<'_> => shared: Shared,
    ApiStore => shared: Shared,
    OperatorStore<'_> => shared: Shared,
    Shared => settings: Settings,
);
