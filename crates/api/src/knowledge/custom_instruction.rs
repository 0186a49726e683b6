//! `/v1/users/{id}/custom-instructions`: rules of a user, which each of their agents follows.

use houston_domain::id::{CustomInstructionId, UserId};
use houston_store::custom_instruction::{CustomInstruction, NewCustomInstruction};
use houston_store::known::Known;
use serde::{Deserialize, Serialize};

use super::{Noun, Owner, Sentence};
use crate::error::ApiError;
use crate::page::List;
use crate::place;
use crate::rfc3339::Time;

/// Rules of a user, which each of their agents follows.
pub(crate) enum CustomInstructions {}

/// A custom instruction as clients see it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    id: CustomInstructionId,
    user_id: UserId,
    content: String,
    created_at: Time,
    updated_at: Time,
}

impl From<CustomInstruction> for Shown {
    fn from(item: CustomInstruction) -> Self {
        Self {
            id: item.id,
            user_id: item.user,
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

impl Noun for CustomInstructions {
    type Stored = CustomInstruction;
    type Id = CustomInstructionId;
    type Owner = place::Id<UserId>;
    type New = Sentence;
    type Change = Sentence;
    type Shown = Shown;

    const LIST: List = List::CustomInstructions;
    const PATH: &'static str = "custom-instructions";

    fn id(shown: &Shown) -> CustomInstructionId {
        shown.id
    }

    fn make(
        id: CustomInstructionId,
        owner: &Self::Owner,
        new: Sentence,
        at: Time,
    ) -> Result<Shown, ApiError> {
        new.check()?;
        let user_id = owner.0;
        Ok(Shown { id, user_id, content: new.content, created_at: at, updated_at: at })
    }

    fn check(change: &Sentence) -> Result<(), ApiError> {
        change.check()
    }

    fn new<'a>(owner: &Self::Owner, item: &'a Shown) -> <Self::Stored as Known>::New<'a> {
        NewCustomInstruction {
            id: item.id,
            user: owner.id(),
            content: &item.content,
            created_at: item.created_at.0,
        }
    }

    fn change(change: &Sentence) -> <Self::Stored as Known>::Change<'_> {
        &change.content
    }
}
