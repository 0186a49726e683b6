//! What a tool call may do with the state that its agentable shares with front ends.

use houston_domain::shared_state::StateChange;
use serde_json::Value;

use super::{Owner, RecordTx};
use crate::error::Result;
use crate::shared_state::{self, PendingState};

impl RecordTx<'_> {
    /// The state now; `None`: nothing has changed it.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn shared_state(&mut self) -> Result<Option<Value>> {
        let Owner { tenant, agentable, .. } = self.owner;
        if let Some(pending) = self.tx.states.last() {
            return Ok(Some(pending.change.state.clone()));
        }
        shared_state::read(self.tx.connection(), tenant, agentable, i64::MAX).await
    }

    /// Changes the state. Its event and its row are committed with the step.
    pub fn change_shared_state(&mut self, change: StateChange) {
        self.tx.states.push(PendingState { change });
    }
}
