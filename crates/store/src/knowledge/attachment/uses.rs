//! Which conversations a file belongs to.

use std::collections::BTreeSet;

use houston_domain::attachment::{AttachmentType, references};
use houston_domain::conversation::Conversation;
use houston_domain::history::Block;
use houston_domain::id::{AgentableId, AttachmentId, TenantId, UserId};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::handle::TenantStore;

/// A file that a message names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedAttachment {
    /// The id by which texts refer to it.
    pub id: AttachmentId,
    /// Its name, one line.
    pub name: String,
    /// What it is.
    pub kind: AttachmentType,
}

impl TenantStore<'_> {
    /// Lets an agentable use files of its user. Those that the user does not have are left out.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable, [`Error::Database`] when Postgres cannot be reached or
    /// refuses the statement.
    pub async fn use_attachments(
        self,
        agentable: AgentableId,
        ids: &[AttachmentId],
    ) -> Result<Vec<UsedAttachment>> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let rows = sqlx::query!(
            r#"-- store::attachment::uses::add
            with a as materialized (
                select a.id, a.user_id from houston.agentables a where a.tenant_id = $1 and a.id = $2 for key share),
            found as materialized (
                select f.id, f.name, f.media_type from a
                  join houston.attachments f on f.user_id = a.user_id
                 where f.tenant_id = $1 and f.id = any ($3) for key share of f),
            uses as (
                insert into houston.attachment_uses (agentable_id, attachment_id, tenant_id)
                select a.id, f.id, $1 from found f cross join a on conflict do nothing)
            select a.id as agentable, f.id as "id?", f.name as "name?", f.media_type as "media_type?"
              from a left join found f on true"#,
            self.tenant.0,
            agentable.0,
            &ids
        )
        .fetch_all(&self.pool)
        .await?;
        if rows.is_empty() {
            return Err(Error::NotFound { what: "agentable" });
        }
        let used = rows.into_iter().filter_map(|row| {
            let kind = AttachmentType::of_media_type(&row.media_type?)?;
            Some(UsedAttachment { id: AttachmentId(row.id?), name: row.name?, kind })
        });
        Ok(used.collect())
    }
}

/// Lets a copy of a conversation keep the files of its user that it refers to. One without references executes nothing.
pub(crate) async fn use_in(
    connection: &mut PgConnection,
    tenant: TenantId,
    (agentable, user): (AgentableId, UserId),
    conversation: &Conversation,
) -> Result<()> {
    let said = conversation.history.iter().flat_map(|entry| &entry.content).filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let texts = conversation.messages.iter().map(|message| message.content.as_str()).chain(said);
    let ids: BTreeSet<Uuid> = texts.flat_map(references).map(|id| id.0).collect();
    if ids.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- store::attachment::uses::in_copy
        insert into houston.attachment_uses (agentable_id, attachment_id, tenant_id)
        select $3, f.id, $1 from houston.attachments f where f.tenant_id = $1 and f.user_id = $2 and f.id = any ($4)",
        tenant.0,
        user.0,
        agentable.0,
        &ids.into_iter().collect::<Vec<_>>()
    )
    .execute(connection)
    .await?;
    Ok(())
}
