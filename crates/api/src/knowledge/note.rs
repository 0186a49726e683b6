//! `/v1/{kinds}/{id}/notes`: what an agent, or a person, keeps with an agentable.

use std::collections::BTreeMap;

use houston_domain::id::{NoteId, RunId};
use houston_store::known::Known;
use houston_store::note::{NewNote, Note, NoteChange};
use serde::{Deserialize, Serialize};

use super::{Noun, Owner, check_document, check_title, nothing_changes, owner_id};
use crate::error::ApiError;
use crate::page::List;
use crate::place::Place;
use crate::rfc3339::Time;

/// What an agent, or a person, keeps with an agentable.
pub(crate) enum Notes {}

/// A note as clients see it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    id: NoteId,
    /// `goal_id`, `task_id`, …
    #[serde(flatten)]
    of: BTreeMap<String, String>,
    /// The run that made it, if one did.
    run_id: Option<RunId>,
    title: String,
    content: String,
    created_at: Time,
    updated_at: Time,
}

/// The body of a POST.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct New {
    title: String,
    content: String,
}

/// The body of a PATCH.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    title: Option<String>,
    content: Option<String>,
}

impl From<Note> for Shown {
    fn from(item: Note) -> Self {
        Self {
            id: item.id,
            of: owner_id(&item.kind, item.agentable),
            run_id: item.run,
            title: item.title,
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

impl Noun for Notes {
    type Stored = Note;
    type Id = NoteId;
    type Owner = Place;
    type New = New;
    type Change = Change;
    type Shown = Shown;

    const LIST: List = List::Notes;
    const PATH: &'static str = "notes";

    fn id(shown: &Shown) -> NoteId {
        shown.id
    }

    fn make(id: NoteId, owner: &Self::Owner, new: New, at: Time) -> Result<Shown, ApiError> {
        check_title(&new.title)?;
        check_document(&new.content)?;
        let of = owner_id(&owner.kind, owner.id);
        let New { title, content } = new;
        Ok(Shown { id, of, run_id: None, title, content, created_at: at, updated_at: at })
    }

    fn check(change: &Change) -> Result<(), ApiError> {
        if change.title.is_none() && change.content.is_none() {
            return Err(nothing_changes("`title`, `content`"));
        }
        change.title.as_deref().map_or(Ok(()), check_title)?;
        change.content.as_deref().map_or(Ok(()), check_document)
    }

    fn new<'a>(owner: &Self::Owner, item: &'a Shown) -> <Self::Stored as Known>::New<'a> {
        NewNote {
            id: item.id,
            agentable: owner.id(),
            run: None,
            title: &item.title,
            content: &item.content,
            created_at: Some(item.created_at.0),
        }
    }

    fn change(change: &Change) -> <Self::Stored as Known>::Change<'_> {
        NoteChange { title: change.title.as_deref(), content: change.content.as_deref() }
    }
}
