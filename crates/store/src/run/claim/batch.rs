//! Many claims in one commit.
//!
//! One statement reads what the decisions need, without locks; [`houston_domain::claim`] decides; another statement
//! writes, for each agentable whose lock row has not changed meanwhile. The row's `xmin` says so: each change of a row,
//! whatever it changes, gives it another one. Neither statement waits for a lock.
//!
//! A claim may post the message that opens its run in the same commit ([`direct_start`](crate::direct_start)).
//!
//! A claim that changes more than its own agentable's rows is made by itself ([`alone`](super::alone)): one that closes
//! a session, takes messages of another run, or concerns a run that kills its workers.

use std::collections::HashMap;

use houston_domain::claim::{CrashLimit, Decision, Start, decide};
use houston_domain::death::Verdict;
use houston_domain::id::UserId;
use houston_domain::rate::TokenQuota;
use sqlx::PgConnection;
use uuid::Uuid;

use super::read::Candidate;
use super::write::ClaimRow;
use super::{ClaimRequest, ClaimedRun};
use crate::batcher::Batch;
use crate::direct_start::DirectPost;
use crate::error::Result;
use crate::handle::RunStore;
use crate::message::Posted;
use crate::settings::Archiving;
use crate::settings::Fairness;

/// A claim of a batch.
#[derive(Debug)]
pub(crate) struct ClaimItem {
    pub(crate) request: ClaimRequest,
    /// A message that is posted in the same commit; it opens the run.
    pub(crate) post: Option<Box<DirectPost>>,
}

impl From<ClaimRequest> for ClaimItem {
    fn from(request: ClaimRequest) -> Self {
        Self { request, post: None }
    }
}

/// The result of a request whose batch did not fail.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The run is claimed.
    Claimed(Box<ClaimedRun>),
    /// The message is posted, and a worker of this process drives its run.
    Started(Posted),
    /// There is nothing to claim.
    Refused,
    /// Nothing was written: the run is to be claimed by itself.
    Alone,
}

impl RunStore {
    /// Claims a run together with others; `None` if the outcome is unknown.
    pub(super) async fn claim_in_batch(&self, request: ClaimRequest) -> Option<Outcome> {
        if self.is_unbatched {
            return Some(Outcome::Alone);
        }
        self.batchers.claims.submit(request.into()).await
    }
}

/// How claims are written: see the module.
#[derive(Debug, Clone)]
pub(crate) struct Claims {
    pub(crate) fairness: Fairness,
    pub(crate) archiving: std::sync::Arc<Archiving>,
    pub(crate) reach: std::sync::Arc<crate::reach::Reach>,
    pub(crate) tokens: TokenQuota,
}

impl Batch for Claims {
    type Item = ClaimItem;
    type Done = Outcome;
    type Key = (Uuid, Option<String>);
    /// One, so that claims of one user do not meet in two batches of the same process.
    const CONNECTIONS: usize = 1;

    fn keys(item: &ClaimItem) -> impl Iterator<Item = Self::Key> {
        let request = item.post.as_ref().and_then(|post| post.row.request_key());
        [(item.request.agentable.0, None)].into_iter().chain(request)
    }

    fn bytes(item: &ClaimItem) -> usize {
        item.post.as_ref().map_or(0, |post| post.row.bytes())
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [ClaimItem],
    ) -> Result<Vec<Option<Outcome>>> {
        let mut candidates = self.read(connection, items).await?;
        let mut outcomes: Vec<Outcome> = items.iter().map(|_| Outcome::Refused).collect();
        // The runs of each user that this batch starts, and the requests that were refused because of them.
        let mut starts: HashMap<UserId, Vec<(usize, Start)>> = HashMap::new();
        let mut refused = Vec::new();
        for (n, (item, candidate)) in items.iter().zip(&candidates).enumerate() {
            let Some(candidate) = candidate else { continue };
            let starts = starts.entry(candidate.run.user).or_default();
            let in_batch = i32::try_from(starts.len()).unwrap_or(i32::MAX);
            match self.decide(candidate, in_batch, item.request.crashes.limit(), None) {
                Decision::Refused if in_batch > 0 => refused.push(n),
                Decision::Refused => {}
                Decision::Started(start) if start.is_plain() => {
                    // Whatever is not written is claimed alone.
                    outcomes[n] = Outcome::Alone;
                    starts.push((n, start));
                }
                // A message whose run must wait is posted without it.
                Decision::PutOff if item.post.is_some() => {}
                Decision::Started(_) | Decision::PutOff | Decision::Doubted | Decision::Accused => {
                    outcomes[n] = Outcome::Alone;
                }
            }
        }
        let rows = rows_of(&starts, items, &candidates);
        let starts: HashMap<usize, Start> = starts.into_values().flatten().collect();
        let mut written = Vec::new();
        if !rows.is_empty() {
            houston_faults::fault!("C23")?;
            written = self.claim(connection, &rows).await?;
            houston_faults::fault!("C24")?;
        }
        if written.len() < rows.len() {
            // A slot that was counted as taken is free.
            refused.into_iter().for_each(|n| outcomes[n] = Outcome::Alone);
        }
        let entries: HashMap<usize, _> = rows.into_iter().map(ClaimRow::into_entry).collect();
        for claimed in written {
            let candidate = candidates.get_mut(claimed.n).and_then(Option::take);
            if let Some((candidate, start)) = candidate.zip(starts.get(&claimed.n)) {
                let entry = entries.get(&claimed.n).and_then(Option::as_deref);
                let run = candidate.claimed(start, &claimed, entry);
                outcomes[claimed.n] = match items[claimed.n].post.take() {
                    Some(post) => Outcome::Started(post.start(run)),
                    None => Outcome::Claimed(Box::new(run)),
                };
            }
        }
        Ok(outcomes.into_iter().map(Some).collect())
    }

    fn failed(items: Vec<ClaimItem>) {
        for post in items.into_iter().filter_map(|item| item.post) {
            post.slot.abandon();
        }
    }
}

impl Claims {
    /// `in_batch`: how many runs of its user are claimed by the same batch. `verdict`: see [`decide`].
    pub(super) fn decide(
        &self,
        candidate: &Candidate,
        in_batch: i32,
        crashes: CrashLimit,
        verdict: Option<Verdict>,
    ) -> Decision {
        if candidate.target.is_some_and(|target| !target.starts_at_once()) {
            return Decision::Refused;
        }
        let free_slots = candidate.free_slots - in_batch;
        decide(&candidate.claimable, free_slots, self.fairness.read_limits(), crashes, verdict)
    }
}

/// The rows of the claims, each with slots of its own. One whose entry cannot be encoded is left out.
fn rows_of<'a>(
    starts: &HashMap<UserId, Vec<(usize, Start)>>,
    items: &'a [ClaimItem],
    candidates: &[Option<Candidate>],
) -> Vec<ClaimRow<'a>> {
    let mut claims = Vec::new();
    for starts in starts.values() {
        let first = starts.first().and_then(|(n, _)| candidates[*n].as_ref().zip(items.get(*n)));
        let choices = first.map(|(of, item)| of.choices(starts.len(), item.request.worker));
        claims.extend(starts.iter().zip(choices.into_iter().flatten()));
    }
    claims.sort_unstable_by_key(|((n, _), _)| *n);
    let row = |((n, start), slots): (&(usize, Start), _)| {
        ClaimRow::of(*n, &items[*n], candidates[*n].as_ref()?, start, slots).ok()
    };
    claims.into_iter().filter_map(row).collect()
}
