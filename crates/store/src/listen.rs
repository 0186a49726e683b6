//! Hearing of what happens in other transactions: messages that other programs post, runs that are cancelled.
//!
//! A payload is `<version> <what> <ids…>`, as in `1 cancel <agentable> <run>`. Words after those that are known
//! are passed over, and so are payloads of another version or about something else: whatever is told here is in
//! the tables, too, and the sweep or the reaper finds it.

use houston_domain::id::{AgentableId, RunId};
use sqlx::postgres::PgListener;
use uuid::Uuid;

use crate::error::Result;
use crate::pool::Store;

/// A connection that hears `NOTIFY houston`.
#[derive(Debug)]
pub struct Notifications(PgListener);

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification {
    /// Somebody should look at this agentable.
    Posted(AgentableId),
    /// Somebody asked to cancel a run.
    Cancelled {
        /// Of which agentable.
        agentable: AgentableId,
        /// Which run.
        run: RunId,
    },
}

impl Notification {
    fn read(payload: &str) -> Option<Self> {
        let mut words = payload.split_ascii_whitespace();
        let (version, what) = (words.next()?, words.next()?);
        let mut id = || Uuid::try_parse(words.next()?).ok();
        match (version, what) {
            ("1", "post") => Some(Self::Posted(AgentableId(id()?))),
            ("1", "cancel") => Some(Self::Cancelled { agentable: AgentableId(id()?), run: RunId(id()?) }),
            _ => None,
        }
    }
}

impl Store {
    /// Listens from now on.
    ///
    /// # Errors
    /// What the database says.
    pub async fn listen(&self) -> Result<Notifications> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen("houston").await?;
        Ok(Notifications(listener))
    }
}

impl Notifications {
    /// What happens next; `None` for a payload of a newer Houston, or of a stranger.
    ///
    /// # Errors
    /// When the connection broke: what was told meanwhile is lost, and the sweep finds it.
    pub async fn recv(&mut self) -> Result<Option<Notification>> {
        Ok(Notification::read(self.0.recv().await?.payload()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_passed_over() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let posted = Notification::Posted(AgentableId(one));
        let cancelled = Notification::Cancelled { agentable: AgentableId(one), run: RunId(two) };
        for (payload, read) in [
            (format!("1 post {one}"), Some(posted)),
            (format!("1 cancel {one} {two}"), Some(cancelled)),
            (format!("1 cancel {one} {two} and more"), Some(cancelled)),
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
