//! The journal: every request and how it ended, independent of the service under test.

use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It has not ended.
    Open,
    /// The whole reply was written.
    Answered,
    /// The reply's fault cut the connection, or the server stopped.
    Cut,
    /// The client closed the connection before the end of the reply.
    ClientLeft,
}

/// One request and its outcome.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Number of the call on this server, from 0.
    pub number: usize,
    /// When its last byte arrived.
    pub at: Instant,
    /// The unparsed body; empty if bodies are not recorded.
    pub body: Bytes,
    /// The outcome.
    pub ending: Ending,
    /// When it ended.
    pub ended: Option<Instant>,
}

/// How much the journal records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalDetail {
    /// Requests with their bodies.
    #[default]
    Everything,
    /// Requests without their bodies.
    Times,
    /// Only counts, for long measurements.
    Counts,
}

#[derive(Debug, Default)]
struct State {
    detail: JournalDetail,
    exchanges: Vec<Exchange>,
    calls: usize,
    open: usize,
}

/// The exchanges of a server.
#[derive(Debug, Default)]
pub struct Journal {
    state: Mutex<State>,
    changed: Notify,
}

impl Journal {
    /// The recorded exchanges, in order of arrival.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.state.lock().exchanges.clone()
    }

    /// The latest recorded exchange.
    pub fn last(&self) -> Option<Exchange> {
        self.state.lock().exchanges.last().cloned()
    }

    /// Number of calls, recorded or not.
    pub fn calls(&self) -> usize {
        self.state.lock().calls
    }

    /// Number of calls that have not ended.
    pub fn open(&self) -> usize {
        self.state.lock().open
    }

    /// Sets how much is recorded from now on.
    pub fn set_detail(&self, detail: JournalDetail) {
        self.state.lock().detail = detail;
    }

    /// Deletes the recorded exchanges; the numbering continues.
    pub fn clear(&self) {
        self.state.lock().exchanges.clear();
    }

    /// Waits until `condition` holds, at most for `patience`; returns whether it does.
    pub async fn wait_until(&self, patience: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        let end = tokio::time::Instant::now() + patience;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the check, so that no change between check and wait is missed.
            changed.as_mut().enable();
            if condition(self) {
                return true;
            }
            if tokio::time::timeout_at(end, changed).await.is_err() {
                return condition(self);
            }
        }
    }

    /// Opens and records a call, whose last byte has just arrived; returns its number.
    pub(crate) fn begin(&self, body: &Bytes) -> usize {
        let mut state = self.state.lock();
        let number = state.calls;
        state.calls += 1;
        state.open += 1;
        let body = if state.detail == JournalDetail::Everything { body.clone() } else { Bytes::new() };
        if state.detail != JournalDetail::Counts {
            let at = Instant::now();
            state.exchanges.push(Exchange { number, at, body, ending: Ending::Open, ended: None });
        }
        drop(state);
        self.changed.notify_waiters();
        number
    }

    /// Marks a call as ended.
    pub(crate) fn end(&self, number: usize, ending: Ending) {
        let mut state = self.state.lock();
        state.open -= 1;
        if let Some(exchange) = state.exchanges.iter_mut().rev().find(|exchange| exchange.number == number) {
            exchange.ending = ending;
            exchange.ended = Some(Instant::now());
        }
        drop(state);
        self.changed.notify_waiters();
    }
}
