//! What agents know: notes, learnings and files of an agentable; memories, custom instructions, feed items, snippets, todos,
//! custom tables, images, attachments and the profile of a user.
//! Requests of a tenant write them, and so do runs, in the fenced transaction of a step.

pub mod attachment;
pub mod custom_record;
pub mod custom_table;
pub mod excerpt;
pub mod image;
pub mod knowledge_item;
mod profile;
pub mod snippet;
pub mod todo;
pub mod workspace_file;

use houston_domain::id::{AgentableId, RunId, TenantId, UserId};
use houston_domain::knowledge::{KnowledgeKind, KnowledgeLimits, KnowledgeOwner};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::handle::TenantStore;

/// What the agents of a tenant know, in the transaction of a request or of a step. That of a step
/// ([`RecordTx::knowledge`](crate::record::RecordTx::knowledge)) finds nothing of other users and agentables. The errors of
/// all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement. After the
/// others, which are named, nothing was written, and the transaction goes on.
#[derive(Debug)]
pub struct Knowledge<'c> {
    pub(crate) connection: &'c mut PgConnection,
    pub(crate) tenant: TenantId,
    /// Whose it is; `None`: what is named by its id is that of any user of the tenant.
    pub(crate) user: Option<UserId>,
    /// The agentable whose agent writes, and its run; `None`: a request does.
    pub(crate) author: Option<(AgentableId, RunId)>,
    pub(crate) limits: KnowledgeLimits,
    /// Whether a session writes that has read what strangers wrote: the rows are marked.
    pub(crate) untrusted: bool,
}

impl Knowledge<'_> {
    /// The user, as statements name them. Nobody has the nil id.
    fn user(&self) -> Uuid {
        self.user.map_or(Uuid::nil(), |user| user.0)
    }

    /// The agentable or the user that owns items of this kind; `None`: items of any of the tenant.
    pub(crate) fn owner_of(&self, kind: KnowledgeKind) -> Option<Uuid> {
        match kind.rules().owner {
            KnowledgeOwner::Agentable => self.author.map(|(agentable, _)| agentable.0),
            KnowledgeOwner::User => self.user.map(|user| user.0),
        }
    }
}

impl TenantStore<'_> {
    /// What a request of the tenant reads and writes of it.
    fn knowledge(self, connection: &mut PgConnection) -> Knowledge<'_> {
        let (tenant, limits) = (self.tenant, self.knowledge_limits);
        Knowledge { connection, tenant, user: None, author: None, limits, untrusted: false }
    }

    /// The same of one user.
    fn knowledge_of(self, user: UserId, connection: &mut PgConnection) -> Knowledge<'_> {
        Knowledge { user: Some(user), ..self.knowledge(connection) }
    }
}
