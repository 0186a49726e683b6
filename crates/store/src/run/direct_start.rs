//! Direct starts: a message is posted and its run is claimed in one commit, if a worker of the same process has a free slot
//! and nothing else of the user waits. It saves the hint, a commit, and the statements of a claim.
//!
//! Whatever prevents it (an open run, a full worker, a locked row) leaves nothing behind: the message is posted as usual, and a
//! hint is sent. The claim counts like any other, so a worker that dies after the commit is found by its lease.

use houston_domain::id::AgentableId;

use crate::claim::batch::{ClaimItem, Outcome};
use crate::claim::{ClaimRequest, ClaimedRun};
use crate::handle::{Shared, TenantStore};
use crate::idempotency::IdempotencyKey;
use crate::message::{NewPost, Posted};

/// A worker of this process, as the store sees it.
pub trait DirectWorker: Send + Sync {
    /// Takes a free slot for an interactive run of `agentable`; `None` if there is none, or if the worker takes no more runs.
    fn slot(&self, agentable: AgentableId) -> Option<Box<dyn DirectSlot>>;
}

/// A slot of a worker. It is free again when it is dropped.
pub trait DirectSlot: Send + Sync {
    /// The claim that the worker would make.
    fn request(&self) -> ClaimRequest;

    /// Drives the run that was claimed with this request, in a task of its own.
    fn start(self: Box<Self>, run: ClaimedRun);

    /// Claims the open run of the agentable, if there is one, and drives it, in a task of its own.
    fn claim(self: Box<Self>);

    /// It is unknown whether a run was claimed with this request: releases the run, in a task of its own.
    fn abandon(self: Box<Self>);
}

/// A message whose post claims the run that it opens.
pub(crate) struct DirectPost {
    pub(crate) row: NewPost,
    pub(crate) slot: Box<dyn DirectSlot>,
}

impl DirectPost {
    /// Starts the run, which was committed together with the message.
    pub(crate) fn start(self, mut run: ClaimedRun) -> Posted {
        let posted = self.row.opened(run.event.seq - 1, run.event.at);
        let posted = Posted { needs_hint: false, is_started: true, ..posted };
        run.posted = self.row.events(&posted);
        self.slot.start(run);
        posted
    }
}

impl TenantStore<'_> {
    /// Posts a message and starts its run; `None` if it was not posted, or if that is unknown.
    pub(crate) async fn post_and_start(
        self,
        agentable: AgentableId,
        post: &NewPost,
        key: Option<IdempotencyKey<'_>>,
    ) -> Option<Posted> {
        if self.is_unbatched || !post.starts || self.fairness.max_pending == 0 {
            return None;
        }
        let slot = self.direct_worker()?.slot(agentable)?;
        let row = post.of(self.tenant, agentable, key);
        let item = ClaimItem { request: slot.request(), post: Some(Box::new(DirectPost { row, slot })) };
        match self.batchers.claims.submit(item).await? {
            Outcome::Started(posted) => Some(posted),
            Outcome::Claimed(_) | Outcome::Refused | Outcome::Alone => None,
        }
    }
}

impl Shared {
    /// Claims a run that is waiting, if a worker of this process has a free slot for it; otherwise a hint is to be sent.
    pub fn claim_directly(&self, agentable: AgentableId) -> bool {
        let slot = self.direct_worker().and_then(|worker| worker.slot(agentable));
        slot.map(DirectSlot::claim).is_some()
    }
}
