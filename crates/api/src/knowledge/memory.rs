//! `/v1/users/{id}/memories`: what all agents of a user should still know another day.

use houston_domain::id::{MemoryId, RunId, UserId};
use houston_store::known::Known;
use houston_store::memory::{Memory, NewMemory};
use serde::{Deserialize, Serialize};

use super::{Noun, Owner, Sentence};
use crate::error::ApiError;
use crate::page::List;
use crate::place;
use crate::rfc3339::Time;

/// What all agents of a user should still know another day.
pub(crate) enum Memories {}

/// A memory as clients see it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    id: MemoryId,
    user_id: UserId,
    /// The run that saved it, if one did.
    run_id: Option<RunId>,
    content: String,
    created_at: Time,
    updated_at: Time,
}

impl From<Memory> for Shown {
    fn from(item: Memory) -> Self {
        Self {
            id: item.id,
            user_id: item.user,
            run_id: item.run,
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

impl Noun for Memories {
    type Stored = Memory;
    type Id = MemoryId;
    type Owner = place::Id<UserId>;
    type New = Sentence;
    type Change = Sentence;
    type Shown = Shown;

    const LIST: List = List::Memories;
    const PATH: &'static str = "memories";

    fn id(shown: &Shown) -> MemoryId {
        shown.id
    }

    fn make(id: MemoryId, owner: &Self::Owner, new: Sentence, at: Time) -> Result<Shown, ApiError> {
        new.check()?;
        let user_id = owner.0;
        Ok(Shown { id, user_id, run_id: None, content: new.content, created_at: at, updated_at: at })
    }

    fn check(change: &Sentence) -> Result<(), ApiError> {
        change.check()
    }

    fn new<'a>(owner: &Self::Owner, item: &'a Shown) -> <Self::Stored as Known>::New<'a> {
        NewMemory {
            id: item.id,
            user: owner.id(),
            run: None,
            content: &item.content,
            created_at: Some(item.created_at.0),
        }
    }

    fn change(change: &Sentence) -> <Self::Stored as Known>::Change<'_> {
        &change.content
    }
}
