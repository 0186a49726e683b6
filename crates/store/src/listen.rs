//! Hearing of messages that other programs post in their own transactions.

use houston_domain::id::AgentableId;
use sqlx::postgres::PgListener;

use crate::error::Result;
use crate::pool::Store;

/// A connection that hears `NOTIFY houston`.
#[derive(Debug)]
pub struct Notifications(PgListener);

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
    /// The next agentable somebody should look at; `None` for a payload that names none.
    ///
    /// # Errors
    /// When the connection broke: what was told meanwhile is lost, and the sweep finds it.
    pub async fn recv(&mut self) -> Result<Option<AgentableId>> {
        let notification = self.0.recv().await?;
        Ok(uuid::Uuid::try_parse(notification.payload()).ok().map(AgentableId))
    }
}
