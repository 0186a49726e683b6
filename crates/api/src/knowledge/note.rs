//! `/v1/{kinds}/{id}/notes`: documents of an agentable, written by its agents or by users.

use houston_domain::id::NoteId;
use houston_protocol::knowledge::{CreateDocument, NoteResponse, UpdateNote};
use houston_protocol::time::Time;
use houston_store::knowledge_item::KnowledgeItem;
use houston_store::note::{NewNote, Note, NoteChange};

use super::{KnowledgeResource, Owner, check_document, check_title, nothing_to_change};
use crate::agentable_path::{self, AgentablePath};
use crate::error::ApiError;
use crate::page::List;

/// Notes: documents of an agentable, written by its agents or by users.
pub(crate) enum Notes {}

impl KnowledgeResource for Notes {
    type Stored = Note;
    type Id = NoteId;
    type Owner = AgentablePath;
    type New = CreateDocument;
    type Change = UpdateNote;
    type Response = NoteResponse;

    const LIST: List = List::Notes;
    const NAME: &'static str = "note";
    const PLURAL: &'static str = "notes";
    const PATH: &'static str = "notes";

    fn response(item: Note) -> NoteResponse {
        NoteResponse {
            id: item.id,
            owner: agentable_path::Owner { kind: item.kind, id: item.agentable },
            run_id: item.run,
            title: item.title,
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }

    fn id(response: &NoteResponse) -> NoteId {
        response.id
    }

    fn build(
        id: NoteId,
        owner: &Self::Owner,
        new: CreateDocument,
        at: Time,
    ) -> Result<NoteResponse, ApiError> {
        check_title(&new.title)?;
        check_document(&new.content)?;
        let of = agentable_path::Owner { kind: owner.kind.clone(), id: owner.id };
        let CreateDocument { title, content } = new;
        Ok(NoteResponse { id, owner: of, run_id: None, title, content, created_at: at, updated_at: at })
    }

    fn check(change: &UpdateNote) -> Result<(), ApiError> {
        if change.title.is_none() && change.content.is_none() {
            return Err(nothing_to_change("`title`, `content`"));
        }
        change.title.as_deref().map_or(Ok(()), check_title)?;
        change.content.as_deref().map_or(Ok(()), check_document)
    }

    fn new<'a>(owner: &Self::Owner, item: &'a NoteResponse) -> <Self::Stored as KnowledgeItem>::New<'a> {
        NewNote {
            id: item.id,
            agentable: owner.id(),
            run: None,
            title: &item.title,
            content: &item.content,
            created_at: Some(item.created_at.0),
        }
    }

    fn change(change: &UpdateNote) -> <Self::Stored as KnowledgeItem>::Change<'_> {
        NoteChange { title: change.title.as_deref(), content: change.content.as_deref() }
    }
}
