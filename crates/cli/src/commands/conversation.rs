//! Shared by `import` and `fork`: creates an agent that continues a conversation.

use std::sync::Arc;

use anyhow::anyhow;
use houston_domain::agentable::AgentType;
use houston_domain::clock::SystemClock;
use houston_domain::conversation::Conversation;
use houston_domain::id::{AgentableId, Ids, TenantId, UserId};
use houston_store::Store;
use houston_store::agentable::NewAgentable;
use houston_store::conversation::{NewConversation, Origin};
use serde_json::Value;

use super::Failure;

/// Creates the agent and returns its public id. `digest`: of the document as it was received; `None`
/// for a fork.
pub(crate) async fn create(
    store: &Store,
    tenant: TenantId,
    user: UserId,
    kind: &AgentType,
    (conversation, digest): (&Conversation, Option<[u8; 32]>),
    origin: Option<Origin>,
) -> Result<String, Failure> {
    if !kind.user_creatable() {
        let reason =
            if kind.made_with_user { "it is created with its user" } else { "only agents create it" };
        return Err(Failure::Usage(anyhow!(
            "a {} cannot be created from a conversation: {reason}",
            kind.kind
        )));
    }
    let ids = Ids::new(Arc::new(SystemClock));
    let id: AgentableId = ids.beside(user);
    let agentable = NewAgentable {
        id,
        user,
        kind: &kind.kind,
        title: &conversation.title,
        description: &conversation.description,
        status: kind.initial_status(),
        tools: conversation.tools.as_deref(),
        created_at: ids.clock().now(),
    };
    let new = NewConversation { agentable, conversation, digest, run: ids.beside(user), origin };
    store.tenant(tenant).create_conversation(&new, &ids, None, &Value::Null).await?;
    Ok(id.public_id(&kind.kind))
}
