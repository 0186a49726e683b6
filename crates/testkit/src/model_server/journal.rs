//! What came and how it ended: the outside witness of a test.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;

use super::call::{Call, Wire};

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It has not.
    Open,
    /// Everything the script wanted was written.
    Answered,
    /// The script cut the connection.
    Cut,
    /// The client closed before that.
    ClientLeft,
}

/// One request and what became of it.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Which call it is for this server, from 0.
    pub number: usize,
    /// Over which connection it came, from 0.
    pub connection: usize,
    /// Which wire it spoke.
    pub wire: Wire,
    /// When its last byte had arrived.
    pub at: Instant,
    /// Its body as it came; empty when bodies are not kept.
    pub body: Bytes,
    /// The `authorization` or `x-api-key` header.
    pub key: Option<String>,
    /// How it ended.
    pub ending: Ending,
    /// When it ended.
    pub ended: Option<Instant>,
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// Every request with its body.
    #[default]
    Everything,
    /// Every request, without body and key.
    Times,
    /// Only the counts: for long measurements.
    Counts,
}

#[derive(Debug, Default)]
struct State {
    keep: Keep,
    exchanges: Vec<Exchange>,
    calls: usize,
    open: usize,
    peak: usize,
}

/// All exchanges of a server.
#[derive(Debug, Default)]
pub struct Journal {
    state: Mutex<State>,
    changed: Notify,
}

impl Journal {
    /// What has come so far, in the order of arrival.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.state().exchanges.clone()
    }

    /// The latest one.
    #[must_use]
    pub fn last(&self) -> Option<Exchange> {
        self.state().exchanges.last().cloned()
    }

    /// How many calls came, kept or not.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// How many are not ended.
    #[must_use]
    pub fn open(&self) -> usize {
        self.state().open
    }

    /// How many were open at once, at most, since the last [`Self::clear`].
    #[must_use]
    pub fn peak(&self) -> usize {
        self.state().peak
    }

    /// From now on keeps so much.
    pub fn keep(&self, keep: Keep) {
        self.state().keep = keep;
    }

    /// Forgets what was kept; numbers go on.
    pub fn clear(&self) {
        let mut state = self.state();
        state.exchanges.clear();
        state.peak = state.open;
    }

    /// Waits until `is_so`, at most for `patience`; returns whether it came so.
    pub async fn wait_until(&self, patience: Duration, is_so: impl Fn(&Self) -> bool) -> bool {
        let end = tokio::time::Instant::now() + patience;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Before looking, so that no change between looking and waiting is missed.
            changed.as_mut().enable();
            if is_so(self) {
                return true;
            }
            if tokio::time::timeout_at(end, changed).await.is_err() {
                return is_so(self);
            }
        }
    }

    /// The number of the next call, which is open from now on.
    pub(crate) fn begin(&self) -> usize {
        let mut state = self.state();
        state.calls += 1;
        state.open += 1;
        state.peak = state.peak.max(state.open);
        state.calls - 1
    }

    /// Writes it down.
    pub(crate) fn note(&self, call: &Call, key: Option<&str>) {
        let mut state = self.state();
        let everything = state.keep == Keep::Everything;
        if state.keep != Keep::Counts {
            state.exchanges.push(Exchange {
                number: call.number,
                connection: call.connection,
                wire: call.wire,
                at: call.at,
                body: if everything { call.body.clone() } else { Bytes::new() },
                key: key.filter(|_| everything).map(str::to_owned),
                ending: Ending::Open,
                ended: None,
            });
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// It ended, now.
    pub(crate) fn end(&self, number: usize, ending: Ending) {
        let mut state = self.state();
        state.open -= 1;
        if let Some(exchange) = state.exchanges.iter_mut().rev().find(|exchange| exchange.number == number) {
            exchange.ending = ending;
            exchange.ended = Some(Instant::now());
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
