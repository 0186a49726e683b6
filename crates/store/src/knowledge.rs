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

use houston_domain::id::TenantId;
use houston_domain::knowledge::KnowledgeLimits;
use sqlx::PgConnection;

use crate::handle::TenantStore;

/// What the agents of a tenant know, in the transaction of a request or of a step.
pub(crate) struct Knowledge<'c> {
    pub(crate) connection: &'c mut PgConnection,
    pub(crate) tenant: TenantId,
    pub(crate) limits: KnowledgeLimits,
    /// Whether a session writes that has read what strangers wrote: the rows are marked.
    pub(crate) untrusted: bool,
}

impl TenantStore<'_> {
    /// What a request of the tenant reads and writes of it.
    fn knowledge(self, connection: &mut PgConnection) -> Knowledge<'_> {
        Knowledge { connection, tenant: self.tenant, limits: self.knowledge_limits, untrusted: false }
    }
}
