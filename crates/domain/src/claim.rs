//! Deciding whether a worker may start a run, and what the run reads first.
//!
//! The decision is made from rows that were read without a lock. The transaction that writes it checks that the row of
//! the agentable's lock has not changed since, and writes nothing otherwise.
//!
//! Slots are how many runs of a user are held at once, as numbers. A held run has a number that no other held run of its
//! user has, and a claim chooses among as many free numbers as runs may start: the lowest ones ([`slot_choices`]). While all
//! held numbers are within the limit, claims that do not see each other therefore never exceed it. Numbers above the limit
//! are chosen only while runs of dead workers hold some.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::death::Verdict;
use crate::id::WorkerId;
use crate::unread::{ReadLimits, Unread};

/// What is stored about an agentable whose open run a worker wants to claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimable {
    /// Whether the lease of the worker that asks is valid.
    pub worker_is_alive: bool,
    /// Who holds the agentable's lock.
    pub holder: Holder,
    /// Whether a run is open.
    pub run_open: bool,
    /// Whether the next attempt is due.
    pub is_due: bool,
    /// Number of workers that died while they held the run, without the present holder.
    pub deaths: usize,
    /// Number of attempts so far.
    pub attempts: i32,
    /// Whether the cancellation of the run was requested.
    pub cancel_requested: bool,
    /// Whether the agentable has a reason to run.
    pub is_awake: bool,
    /// Whether the run waits for something from outside, and not until a time that has passed.
    pub is_waiting: bool,
    /// Whether the user's limit of tokens is used up, and the run was not put off because of it before.
    pub lacks_tokens: bool,
    /// The first unread messages, in order: at least one more than the limits allow, if there are as many. Those that
    /// were posted after a request to cancel are left out: the next run reads them.
    pub unread: Vec<Unread>,
    /// How many messages are unread. A run that waited for a time may have seen them without reading them.
    pub unread_count: i32,
    /// The open session; `None` if sessions of this kind are not closed.
    pub session: Option<OpenSession>,
}

/// Who holds the lock of an agentable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// No worker.
    None,
    /// A worker whose lease is valid.
    Alive,
    /// A worker whose lease has expired.
    Dead,
}

/// The entries after the last closed session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSession {
    /// When the latest entry of an earlier run was written; `None` if there is none.
    pub last_entry_at: Option<DateTime<Utc>>,
    /// When the run was opened.
    pub requested_at: DateTime<Utc>,
    /// How long a session must be without messages before it is closed.
    pub quiet: Duration,
    /// Whether closing it was requested.
    pub close_requested: bool,
    /// Whether a closed session was not reported in the event stream yet.
    pub has_unreported: bool,
    /// Whether the sweep looks at it.
    pub is_scheduled: bool,
}

impl OpenSession {
    /// What a run that begins does with the session. The quiet time ends when the message arrived, not when a worker
    /// claimed the run.
    fn turn(&self) -> Turn {
        let was_quiet =
            |at: DateTime<Utc>| (self.requested_at - at).to_std().is_ok_and(|passed| passed >= self.quiet);
        let closes = self.last_entry_at.is_some_and(|at| self.close_requested || was_quiet(at));
        Turn {
            closes,
            schedules: closes || self.close_requested || !self.is_scheduled,
            reports: closes || self.has_unreported,
            settles_request: self.close_requested,
        }
    }
}

/// What a run that begins does with the open session and with those that were closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turn {
    /// Whether the session is closed, so that its entries are not sent to the model again.
    pub closes: bool,
    /// Whether the sweep is to look at the open session.
    pub schedules: bool,
    /// Whether closed sessions are reported in the event stream. They are reported here because a stream has no events
    /// between two runs (AG-UI).
    pub reports: bool,
    /// Whether a request to close the session is settled.
    pub settles_request: bool,
}

impl Turn {
    /// Whether nothing but the schedule changes.
    pub fn is_plain(&self) -> bool {
        !self.closes && !self.reports && !self.settles_request
    }
}

/// What is stored about an agentable that a message is posted to, while a worker of the same process has a free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostTarget {
    /// Whether a run is open.
    pub run_open: bool,
    /// Whether a worker holds the lock.
    pub is_held: bool,
    /// Whether the agentable has a reason to run already.
    pub is_awake: bool,
    /// Whether any agentable of the user waits for a worker.
    pub user_waits: bool,
    /// Whether a team answers: its router's choice is stored with the run.
    pub has_team: bool,
}

impl PostTarget {
    /// Whether the message may be posted and its run claimed in one commit. Otherwise the message is posted alone, so that
    /// it joins the open run, or waits for its turn among what the user has waiting.
    pub fn starts_at_once(&self) -> bool {
        !self.run_open && !self.is_held && !self.is_awake && !self.user_waits && !self.has_team
    }
}

/// Whether a worker may start a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may not, and nothing is written.
    Refused,
    /// It may.
    Started(Start),
    /// The user's limit of tokens is used up: the run waits, without an attempt.
    PutOff,
    /// The run may have to be given up. It waits first: the worker that seems to have died may be alive, and then takes its
    /// death back; or another run that died with it may turn out to be the cause.
    Doubted,
    /// So many workers died with it that [`judge`](crate::death::judge) must say what becomes of it.
    Accused,
}

/// What a claim changes, besides taking the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Number of messages that become the first entry; 0 for a later attempt, which finds that entry in the history and
    /// reads newer messages at its next step.
    pub read: usize,
    /// The position of the last of them.
    pub read_to: Option<i64>,
    /// Whether the agentable has a reason to run after the claim.
    pub stays_awake: bool,
    /// Whether some of the messages that are read were posted for another run.
    pub moves_messages: bool,
    /// Whether the run may be given up at its next death. It is unknown which run kills a worker, because all its runs
    /// die with it. So a worker drives one such run at most: the others that die with it will show that they are not the
    /// cause.
    pub is_suspect: bool,
    /// Whether the run is claimed only to be given up, because it kills its workers.
    pub is_given_up: bool,
    /// Number of workers that died while they held the run.
    pub deaths: usize,
    /// What happens to sessions.
    pub turn: Turn,
}

impl Start {
    /// Whether the claim changes only rows of its own agentable, so that it can be written with others.
    pub fn is_plain(&self) -> bool {
        !self.moves_messages && !self.is_suspect && self.turn.is_plain()
    }
}

/// Decides about a claim. `free_slots`: how many more runs of the user may be held. `verdict`: what becomes of a run that
/// was [accused](Decision::Accused), if that is known.
pub fn decide(
    of: &Claimable,
    free_slots: i32,
    limits: ReadLimits,
    crashes: usize,
    verdict: Option<Verdict>,
) -> Decision {
    let is_held = of.holder == Holder::Alive;
    let still_waits = of.is_waiting && !of.is_awake;
    if !of.worker_is_alive || is_held || !of.run_open || !of.is_due || still_waits || free_slots < 1 {
        return Decision::Refused;
    }
    // One that was cancelled ends without a model.
    if of.lacks_tokens && of.attempts == 0 && !of.cancel_requested {
        return Decision::PutOff;
    }
    let died_now = of.holder == Holder::Dead;
    let deaths = of.deaths + usize::from(died_now);
    let is_accused = deaths >= crashes;
    match verdict {
        _ if !is_accused => {}
        _ if died_now => return Decision::Doubted,
        None => return Decision::Accused,
        Some(Verdict::Wait) => return Decision::Doubted,
        Some(Verdict::Try | Verdict::GiveUp) => {}
    }
    let is_given_up = is_accused && verdict == Some(Verdict::GiveUp);
    let unread = if of.is_awake { of.unread.as_slice() } else { &[] };
    let count = limits.count(unread);
    let has_more = count < unread.len();
    let is_first = of.attempts == 0;
    let read = if is_first { &unread[..count] } else { &[] };
    Decision::Started(Start {
        read: read.len(),
        read_to: read.last().map(|last| last.seq),
        stays_awake: of.cancel_requested || has_more || (!is_first && (count > 0 || of.unread_count > 0)),
        moves_messages: read.iter().any(|unread| !unread.is_for_run),
        is_suspect: deaths > 0 && deaths + 1 >= crashes && !is_given_up,
        is_given_up,
        deaths,
        turn: of.session.filter(|_| is_first).map_or_else(Turn::default, |session| session.turn()),
    })
}

/// A claim tries at most so many slots: only claims of other workers at the same moment take one away.
const MAX_TRIED: usize = 16;

/// The slots that the claims of one batch for one user may take, in the order in which to try them: a list for each claim,
/// which has no number in common with the others. `held`: the slots of the user's held runs. `free`: how many more runs may
/// be held, at least as many as `claims`. Each worker begins elsewhere, so that two workers seldom try the same slot.
pub fn slot_choices(held: &[i32], free: usize, claims: usize, worker: WorkerId) -> Vec<Vec<i32>> {
    let held: HashSet<i32> = held.iter().copied().collect();
    let mut numbers: Vec<i32> = (1..).filter(|slot| !held.contains(slot)).take(free).collect();
    if !numbers.is_empty() {
        let start = worker.0.as_u128() % numbers.len() as u128;
        numbers.rotate_left(usize::try_from(start).unwrap_or(0));
    }
    let nth = |first| numbers.iter().copied().skip(first).step_by(claims.max(1)).take(MAX_TRIED).collect();
    (0..claims).map(nth).collect()
}

#[cfg(test)]
mod tests;
