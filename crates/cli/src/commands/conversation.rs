//! What `import` and `fork` share: making an agent that goes on where a conversation ends.

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

/// Makes it; returns its id as shown.
pub(crate) async fn make(
    store: &Store,
    tenant: TenantId,
    user: UserId,
    kind: &AgentType,
    conversation: &Conversation,
    origin: Option<Origin>,
) -> Result<String, Failure> {
    if !kind.begun_by_people() {
        let who = if kind.made_with_user { "it is made with its user" } else { "an agent begins it" };
        return Err(Failure::Usage(anyhow!("a {} cannot be made of a conversation: {who}", kind.kind)));
    }
    let ids = Ids::new(Arc::new(SystemClock));
    let id: AgentableId = ids.next();
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
    let new = NewConversation { agentable, conversation, run: ids.next(), origin };
    store.create_conversation(tenant, &new, &ids, None, &Value::Null).await?;
    Ok(id.shown(&kind.kind))
}
