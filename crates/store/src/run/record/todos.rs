//! What a tool call may do with the todos of its user.

use houston_domain::id::TodoId;

use super::{Owner, RecordTx};
use crate::error::Result;
use crate::todo::{self, Author, NewTodo, Todo, TodoChange, TodoQuery};

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement.
impl RecordTx<'_> {
    /// Creates todos of the user, in the order given; they come last.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full) when there would be too many; nothing was written, and the transaction goes on.
    pub async fn create_todos(&mut self, new: &[NewTodo]) -> Result<()> {
        let (Owner { tenant, user, agentable, untrusted, .. }, limits) =
            (self.owner, self.tx.knowledge_limits);
        todo::insert(self.tx.connection(), (tenant, user), new, Author::Agent(agentable, untrusted), &limits)
            .await
    }

    /// Todos of the user in their order, those that are done last. `written_here`: only those that agents of this agentable
    /// wrote.
    pub async fn todos(&mut self, query: &TodoQuery, written_here: bool) -> Result<Vec<Todo>> {
        let Owner { tenant, user, agentable, .. } = self.owner;
        let query = TodoQuery { written_for: written_here.then_some(agentable), ..query.clone() };
        todo::list(self.tx.connection(), (tenant, user), &query).await
    }

    /// Changes todos of the user in the same way. Returns those that exist, as they are then.
    pub async fn change_todos(&mut self, ids: &[TodoId], change: &TodoChange) -> Result<Vec<Todo>> {
        let Owner { tenant, user, untrusted, .. } = self.owner;
        todo::change(self.tx.connection(), (tenant, Some(user)), ids, change, untrusted).await
    }

    /// Moves a todo of the user before another one. Returns whether both exist.
    pub async fn put_todo_before(&mut self, id: TodoId, next: TodoId) -> Result<bool> {
        let Owner { tenant, user, .. } = self.owner;
        todo::put_before(self.tx.connection(), (tenant, user), id, next).await
    }

    /// Deletes todos of the user. Returns how many existed.
    pub async fn delete_todos(&mut self, ids: &[TodoId]) -> Result<u64> {
        let Owner { tenant, user, .. } = self.owner;
        todo::delete(self.tx.connection(), (tenant, Some(user)), ids).await
    }
}
