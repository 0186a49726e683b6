//! `/v1/users/{id}/custom-instructions`: rules of a user that all their agents follow.

use houston_domain::id::{CustomInstructionId, UserId};
use houston_protocol::knowledge::{CustomInstructionResponse, Sentence};
use houston_protocol::time::Time;
use houston_store::custom_instruction::{CustomInstruction, NewCustomInstruction};
use houston_store::knowledge_item::KnowledgeItem;

use super::{KnowledgeResource, Owner, check_sentence};
use crate::agentable_path;
use crate::error::ApiError;
use crate::page::List;

/// Custom instructions: rules of a user that all their agents follow.
pub(crate) enum CustomInstructions {}

impl KnowledgeResource for CustomInstructions {
    type Stored = CustomInstruction;
    type Id = CustomInstructionId;
    type Owner = agentable_path::Id<UserId>;
    type New = Sentence;
    type Change = Sentence;
    type Response = CustomInstructionResponse;

    const LIST: List = List::CustomInstructions;
    const NAME: &'static str = "custom instruction";
    const PLURAL: &'static str = "custom instructions";
    const PATH: &'static str = "custom-instructions";

    fn response(item: CustomInstruction) -> CustomInstructionResponse {
        CustomInstructionResponse {
            id: item.id,
            user_id: item.user,
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }

    fn id(response: &CustomInstructionResponse) -> CustomInstructionId {
        response.id
    }

    fn build(
        id: CustomInstructionId,
        owner: &Self::Owner,
        new: Sentence,
        at: Time,
    ) -> Result<CustomInstructionResponse, ApiError> {
        check_sentence(&new)?;
        let user_id = owner.0;
        Ok(CustomInstructionResponse { id, user_id, content: new.content, created_at: at, updated_at: at })
    }

    fn check(change: &Sentence) -> Result<(), ApiError> {
        check_sentence(change)
    }

    fn new<'a>(
        owner: &Self::Owner,
        item: &'a CustomInstructionResponse,
    ) -> <Self::Stored as KnowledgeItem>::New<'a> {
        NewCustomInstruction {
            id: item.id,
            user: owner.id(),
            content: &item.content,
            created_at: item.created_at.0,
        }
    }

    fn change(change: &Sentence) -> <Self::Stored as KnowledgeItem>::Change<'_> {
        &change.content
    }
}
