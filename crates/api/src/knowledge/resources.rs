//! The resources: the types and paths of each kind.

use houston_domain::id::{CustomInstructionId, FeedItemId, LearningId, MemoryId, NoteId, UserId};
use houston_domain::knowledge::KnowledgeKind;
use houston_protocol::knowledge::{
    CreateDocument, CustomInstructionResponse, FeedItemResponse, LearningResponse, MemoryResponse,
    NoteResponse, Sentence, UpdateFeedItem, UpdateNote,
};
use houston_protocol::owner::Owner as AgentableOwner;
use houston_protocol::time::Time;
use houston_store::knowledge_item::KnowledgeItem;

use super::KnowledgeResource;
use crate::agentable_path::{AgentablePath, Id};
use crate::page::List;

/// Documents of an agentable, written by its agents or by users.
pub(crate) enum Notes {}

impl KnowledgeResource for Notes {
    type Id = NoteId;
    type Owner = AgentablePath;
    type New = CreateDocument;
    type Change = UpdateNote;
    type Response = NoteResponse;

    const KIND: KnowledgeKind = KnowledgeKind::Note;
    const LIST: List = List::Notes;
    const PATH: &'static str = "notes";

    fn response(item: KnowledgeItem) -> NoteResponse {
        NoteResponse {
            id: NoteId(item.id),
            owner: agentable(&item),
            run_id: item.run,
            title: item.title.unwrap_or_default(),
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

/// What an agent learnt about its user or its task.
pub(crate) enum Learnings {}

impl KnowledgeResource for Learnings {
    type Id = LearningId;
    type Owner = AgentablePath;
    type New = Sentence;
    type Change = Sentence;
    type Response = LearningResponse;

    const KIND: KnowledgeKind = KnowledgeKind::Learning;
    const LIST: List = List::Learnings;
    const PATH: &'static str = "learnings";

    fn response(item: KnowledgeItem) -> LearningResponse {
        LearningResponse {
            id: LearningId(item.id),
            owner: agentable(&item),
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

/// Facts that all agents of a user should remember.
pub(crate) enum Memories {}

impl KnowledgeResource for Memories {
    type Id = MemoryId;
    type Owner = Id<UserId>;
    type New = Sentence;
    type Change = Sentence;
    type Response = MemoryResponse;

    const KIND: KnowledgeKind = KnowledgeKind::Memory;
    const LIST: List = List::Memories;
    const PATH: &'static str = "memories";

    fn response(item: KnowledgeItem) -> MemoryResponse {
        MemoryResponse {
            id: MemoryId(item.id),
            user_id: UserId(item.owner),
            run_id: item.run,
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

/// Rules of a user that all their agents follow.
pub(crate) enum CustomInstructions {}

impl KnowledgeResource for CustomInstructions {
    type Id = CustomInstructionId;
    type Owner = Id<UserId>;
    type New = Sentence;
    type Change = Sentence;
    type Response = CustomInstructionResponse;

    const KIND: KnowledgeKind = KnowledgeKind::CustomInstruction;
    const LIST: List = List::CustomInstructions;
    const PATH: &'static str = "custom-instructions";

    fn response(item: KnowledgeItem) -> CustomInstructionResponse {
        CustomInstructionResponse {
            id: CustomInstructionId(item.id),
            user_id: UserId(item.owner),
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

/// What agents write for a user without being asked.
pub(crate) enum FeedItems {}

impl KnowledgeResource for FeedItems {
    type Id = FeedItemId;
    type Owner = Id<UserId>;
    type New = CreateDocument;
    type Change = UpdateFeedItem;
    type Response = FeedItemResponse;

    const KIND: KnowledgeKind = KnowledgeKind::FeedItem;
    const LIST: List = List::FeedItems;
    const COLLECTION: &'static str = "feed";
    const PATH: &'static str = "feed-items";

    fn response(item: KnowledgeItem) -> FeedItemResponse {
        FeedItemResponse {
            id: FeedItemId(item.id),
            user_id: UserId(item.owner),
            run_id: item.run,
            title: item.title.unwrap_or_default(),
            content: item.content,
            read_at: item.read_at.map(Time),
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

/// The agentable that an item belongs to.
fn agentable(item: &KnowledgeItem) -> AgentableOwner {
    AgentableOwner { kind: item.owner_kind.clone().unwrap_or_default(), id: item.owner.into() }
}
