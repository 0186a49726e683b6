//! What the endpoints work with: given from outside once, and what the crate keeps beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use houston_domain::agentable::{AgentType, Urgency};
use houston_domain::check_in::CheckInLimits;
use houston_domain::event::{Committed, Live, LiveItem};
use houston_domain::id::{AgentableId, Ids, RunId};
use houston_domain::schedule::FeedConfig;
use houston_domain::team::RuleLimits;
use houston_queue::{DeltaBus, Hint, HintSender, RedisHealth};
use houston_store::Store;
use tokio_util::sync::CancellationToken;

use crate::agents::sources::AgentSources;
use crate::auth::Caller;
use crate::config::Config;
use crate::documents::Documents;
use crate::error::ApiError;
use crate::events::streams::Streams;
use crate::explain::Explain;
use crate::health::disk::Disk;
use crate::keys::Keys;
use crate::offload::Offload;
use crate::peers::Peers;
use crate::agentable_path::{AgentableCache, AgentablePath};

/// What the server needs from its surroundings.
#[derive(Debug, Clone)]
pub struct State {
    /// `jobs/server.toml`.
    pub config: Config,
    /// Postgres.
    pub store: Store,
    /// Where live streams listen, and hear of what is posted here.
    pub bus: DeltaBus,
    /// Where workers are rung.
    pub hints: HintSender,
    /// What `/readyz` says about Redis: the health of the process' longest-lived connection.
    pub redis: RedisHealth,
    /// Makes ids, and holds the clock.
    pub ids: Arc<Ids>,
    /// The kinds of agentables, by name.
    pub agent_types: Arc<BTreeMap<String, AgentType>>,
    /// What agents may be made of.
    pub agents: Arc<AgentSources>,
    /// What the engine would do.
    pub explain: Explain,
    /// `jobs/feed_generation.toml`.
    pub feed: Arc<FeedConfig>,
    /// `[limits]` of `jobs/agent_check_in.toml`.
    pub check_ins: CheckInLimits,
    /// `[rules]` of `jobs/teams.toml`.
    pub team_rules: RuleLimits,
    /// Cancelled when the process is about to go: `/readyz` answers 503 and streams are aborted, so that their
    /// clients come back elsewhere; everything else is served on.
    pub draining: CancellationToken,
}

/// The state as endpoints see it.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) state: State,
    pub(crate) keys: Keys,
    pub(crate) peers: Peers,
    pub(crate) places: AgentableCache,
    pub(crate) streams: Streams,
    pub(crate) offload: Offload,
    pub(crate) documents: Arc<Documents>,
    pub(crate) disk: Disk,
}

impl App {
    pub(crate) fn new(state: State) -> Arc<Self> {
        let keys = Keys::new(state.config.key_cache());
        let peers = Peers::new(state.config.clients.clone());
        Arc::new(Self {
            state,
            keys,
            peers,
            places: AgentableCache::default(),
            streams: Streams::default(),
            offload: Offload::default(),
            documents: Arc::default(),
            disk: Disk::default(),
        })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.state.store
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.state.ids.clock().now()
    }

    /// Whether the caller has such an agentable, of that kind.
    pub(crate) async fn confirm(&self, caller: Caller, place: &AgentablePath) -> Result<(), ApiError> {
        self.state.store.agentable(caller.tenant, &place.kind, place.id).await?;
        Ok(())
    }

    /// The same for who asks Postgres in the next statement once more, which would find it gone.
    pub(crate) async fn confirm_for_post(&self, caller: Caller, place: &AgentablePath) -> Result<(), ApiError> {
        self.places.confirm(&self.state.store, caller, place).await
    }

    /// Ends what is open here of an agentable that is no more.
    pub(crate) fn forget(&self, agentable: AgentableId) {
        self.places.forget(agentable);
        self.streams.end(agentable);
    }

    /// Tells a worker to look at `agentable`. Never waits, never fails.
    pub(crate) fn ring(&self, agentable: AgentableId, urgency: Urgency) {
        self.state.hints.send(urgency.into(), Hint::run(agentable));
    }

    /// Tells the worker that drives `run` to stop, ahead of what Postgres tells it. Never waits, never fails.
    pub(crate) fn cancel(&self, agentable: AgentableId, run: RunId) {
        self.state.bus.publish_control(LiveItem { agentable, live: Live::CancelRequested(run) });
    }

    /// Tells live streams to look for what was committed here.
    pub(crate) fn nudge(&self, agentable: AgentableId) {
        self.state.bus.publish(agentable, Live::Nudge);
    }

    /// How urgent the runs of a kind are.
    pub(crate) fn urgency(&self, kind: &str) -> Urgency {
        self.state.agent_types.get(kind).map(|kind| kind.urgency).unwrap_or_default()
    }

    /// Tells live streams of what was committed here.
    pub(crate) fn announce(&self, agentable: AgentableId, events: Vec<Committed>) {
        self.state.bus.publish(agentable, Live::Committed(events));
    }
}
