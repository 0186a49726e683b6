//! `/v1/users/{id}/memories`: facts that all agents of a user should remember.

use houston_domain::id::{MemoryId, UserId};
use houston_protocol::knowledge::{MemoryResponse, Sentence};
use houston_protocol::time::Time;
use houston_store::knowledge_item::KnowledgeItem;
use houston_store::memory::{Memory, NewMemory};

use super::{KnowledgeResource, Owner, check_sentence};
use crate::agentable_path;
use crate::error::ApiError;
use crate::page::List;

/// Memories: facts that all agents of a user should remember.
pub(crate) enum Memories {}

impl KnowledgeResource for Memories {
    type Stored = Memory;
    type Id = MemoryId;
    type Owner = agentable_path::Id<UserId>;
    type New = Sentence;
    type Change = Sentence;
    type Response = MemoryResponse;

    const LIST: List = List::Memories;
    const NAME: &'static str = "memory";
    const PLURAL: &'static str = "memories";
    const PATH: &'static str = "memories";

    fn response(item: Memory) -> MemoryResponse {
        MemoryResponse {
            id: item.id,
            user_id: item.user,
            run_id: item.run,
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }

    fn id(response: &MemoryResponse) -> MemoryId {
        response.id
    }

    fn build(id: MemoryId, owner: &Self::Owner, new: Sentence, at: Time) -> Result<MemoryResponse, ApiError> {
        check_sentence(&new)?;
        let user_id = owner.0;
        Ok(MemoryResponse { id, user_id, run_id: None, content: new.content, created_at: at, updated_at: at })
    }

    fn check(change: &Sentence) -> Result<(), ApiError> {
        check_sentence(change)
    }

    fn new<'a>(owner: &Self::Owner, item: &'a MemoryResponse) -> <Self::Stored as KnowledgeItem>::New<'a> {
        NewMemory {
            id: item.id,
            user: owner.id(),
            run: None,
            content: &item.content,
            created_at: Some(item.created_at.0),
        }
    }

    fn change(change: &Sentence) -> <Self::Stored as KnowledgeItem>::Change<'_> {
        &change.content
    }
}
