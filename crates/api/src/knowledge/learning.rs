//! `/v1/{kinds}/{id}/learnings`: what an agent learnt about its user or its task.

use houston_domain::id::LearningId;
use houston_protocol::knowledge::{LearningResponse, Sentence};
use houston_protocol::time::Time;
use houston_store::knowledge_item::KnowledgeItem;
use houston_store::learning::{Learning, NewLearning};

use super::{KnowledgeResource, Owner, check_sentence};
use crate::agentable_path::{self, AgentablePath};
use crate::error::ApiError;
use crate::page::List;

/// Learnings: what an agent learnt about its user or its task.
pub(crate) enum Learnings {}

impl KnowledgeResource for Learnings {
    type Stored = Learning;
    type Id = LearningId;
    type Owner = AgentablePath;
    type New = Sentence;
    type Change = Sentence;
    type Response = LearningResponse;

    const LIST: List = List::Learnings;
    const NAME: &'static str = "learning";
    const PLURAL: &'static str = "learnings";
    const PATH: &'static str = "learnings";

    fn response(item: Learning) -> LearningResponse {
        LearningResponse {
            id: item.id,
            owner: agentable_path::Owner { kind: item.kind, id: item.agentable },
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }

    fn id(response: &LearningResponse) -> LearningId {
        response.id
    }

    fn build(
        id: LearningId,
        owner: &Self::Owner,
        new: Sentence,
        at: Time,
    ) -> Result<LearningResponse, ApiError> {
        check_sentence(&new)?;
        let of = agentable_path::Owner { kind: owner.kind.clone(), id: owner.id };
        Ok(LearningResponse { id, owner: of, content: new.content, created_at: at, updated_at: at })
    }

    fn check(change: &Sentence) -> Result<(), ApiError> {
        check_sentence(change)
    }

    fn new<'a>(owner: &Self::Owner, item: &'a LearningResponse) -> <Self::Stored as KnowledgeItem>::New<'a> {
        NewLearning {
            id: item.id,
            agentable: owner.id(),
            content: &item.content,
            created_at: Some(item.created_at.0),
        }
    }

    fn change(change: &Sentence) -> <Self::Stored as KnowledgeItem>::Change<'_> {
        &change.content
    }
}
