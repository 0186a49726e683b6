//! What a tool call may do with the snippets of its user.

use super::RecordTx;
use crate::error::Result;
use crate::snippet::{self, NewSnippet, SavedSnippet, Snippet, SnippetEntry, SnippetLimits};

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement.
impl RecordTx<'_> {
    /// Saves a snippet. It is marked if the session has read what strangers wrote. `tools`: how many snippets of the user may
    /// be tools.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full) when there is the maximum number; nothing was written, and the transaction goes on.
    pub async fn save_snippet(&mut self, snippet: &NewSnippet<'_>, tools: u32) -> Result<SavedSnippet> {
        let (owner, untrusted) = ((self.owner.tenant, self.owner.user), self.owner.untrusted);
        let limits = SnippetLimits { snippets: self.tx.knowledge_limits.max_snippets, tools };
        snippet::save(self.tx.connection(), owner, snippet, untrusted, limits).await
    }

    /// The snippets of the user without their code, in the order of their names.
    pub async fn snippets(&mut self) -> Result<Vec<SnippetEntry>> {
        let (tenant, user) = (self.owner.tenant, self.owner.user);
        let limit = i64::from(self.tx.knowledge_limits.max_snippets);
        snippet::list(self.tx.connection(), Some(tenant), user, "", limit).await
    }

    /// A snippet of the user; `None`: there is none of this name.
    pub async fn snippet(&mut self, name: &str) -> Result<Option<Snippet>> {
        let (tenant, user) = (self.owner.tenant, self.owner.user);
        snippet::find(self.tx.connection(), tenant, user, name).await
    }

    /// Deletes a snippet of the user. Returns whether it existed.
    pub async fn delete_snippet(&mut self, name: &str) -> Result<bool> {
        let (tenant, user) = (self.owner.tenant, self.owner.user);
        snippet::delete(self.tx.connection(), Some(tenant), user, name).await
    }
}
