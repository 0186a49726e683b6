//! Notifications from other transactions: messages posted by other programs, runs to be cancelled.
//!
//! A payload is `<version> <what> <ids…>`, as in `1 cancel <agentable> <run>`. Additional words are ignored, and so
//! are payloads of another version or with another `<what>`. Notifications may be lost: each reports a change of a
//! row that the sweep or the reaper would find.

use std::time::{Duration, Instant};

use houston_domain::id::{AgentableId, RunId};
use sqlx::postgres::PgListener;
use uuid::Uuid;

use crate::error::Result;
use crate::handle::RunStore;
use crate::timeline::Newest;

/// How often a connection looks whether it is to a former primary by now, which may send nothing and break nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A connection that listens to `NOTIFY houston`.
#[derive(Debug)]
pub struct Notifications {
    listener: PgListener,
    opened: Instant,
    /// If Postgres has several hosts.
    newest: Option<Newest>,
}

/// A notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification {
    /// A message was posted to this agentable.
    Posted(AgentableId),
    /// The cancellation of a run was requested.
    Cancelled {
        /// The agentable it runs for.
        agentable: AgentableId,
        /// The run's id.
        run: RunId,
    },
    /// A webhook was switched on, or is to be replayed.
    Webhooks,
    /// A trigger was switched on.
    Triggers,
}

impl Notification {
    fn read(payload: &str) -> Option<Self> {
        let mut words = payload.split_ascii_whitespace();
        let (version, what) = (words.next()?, words.next()?);
        let mut id = || Uuid::try_parse(words.next()?).ok();
        match (version, what) {
            ("1", "post") => Some(Self::Posted(AgentableId(id()?))),
            ("1", "webhooks") => Some(Self::Webhooks),
            ("1", "triggers") => Some(Self::Triggers),
            ("1", "cancel") => Some(Self::Cancelled { agentable: AgentableId(id()?), run: RunId(id()?) }),
            _ => None,
        }
    }
}

impl RunStore {
    /// Starts listening.
    pub async fn listen(&self) -> Result<Notifications> {
        let newest = Some(&self.addresses).filter(|addresses| addresses.sessions.len() > 1);
        let newest = newest.map(|addresses| addresses.newest.clone());
        let opened = Instant::now();
        let mut listener = PgListener::connect_with(&self.sessions).await?;
        listener.listen("houston").await?;
        Ok(Notifications { listener, opened, newest })
    }
}

impl Notifications {
    /// Waits for the next notification; `None` for a payload of a newer Houston or of another program.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when the connection broke, or is to a former primary: notifications sent
    /// meanwhile are lost, and the sweep finds what they reported.
    pub async fn recv(&mut self) -> Result<Option<Notification>> {
        let former = is_former(self.newest.clone(), self.opened);
        tokio::select! {
            received = self.listener.recv() => Ok(Notification::read(received?.payload())),
            () = former => {
                let text = "notifications came from a former primary";
                Err(sqlx::Error::Io(std::io::Error::other(text)).into())
            }
        }
    }
}

/// Returns when a connection that was opened then may be to a former primary.
async fn is_former(newest: Option<Newest>, opened: Instant) {
    let Some(newest) = newest else { return std::future::pending().await };
    while newest.is_current(opened.elapsed()) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrecognised_payloads_are_ignored() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let posted = Notification::Posted(AgentableId(one));
        let cancelled = Notification::Cancelled { agentable: AgentableId(one), run: RunId(two) };
        for (payload, read) in [
            (format!("1 post {one}"), Some(posted)),
            (format!("1 cancel {one} {two}"), Some(cancelled)),
            (format!("1 cancel {one} {two} and more"), Some(cancelled)),
            ("1 webhooks".to_owned(), Some(Notification::Webhooks)),
            ("1 triggers".to_owned(), Some(Notification::Triggers)),
            (format!("1 cancel {one}"), None),
            (format!("1 pause {one}"), None),
            (format!("2 post {one}"), None),
            (format!("1 post x{one}"), None),
            (one.to_string(), None),
            (String::new(), None),
        ] {
            assert_eq!(Notification::read(&payload), read, "{payload}");
        }
    }
}
