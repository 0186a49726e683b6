//! `/v1/{kinds}/{id}/learnings`: what an agent learnt about its user or its aim.

use std::collections::BTreeMap;

use houston_domain::id::LearningId;
use houston_store::known::Known;
use houston_store::learning::{Learning, NewLearning};
use serde::{Deserialize, Serialize};

use super::{Noun, Owner, Sentence, owner_id};
use crate::error::ApiError;
use crate::page::List;
use crate::place::Place;
use crate::rfc3339::Time;

/// What an agent learnt about its user or its aim.
pub(crate) enum Learnings {}

/// A learning as clients see it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    id: LearningId,
    /// `goal_id`, `task_id`, …
    #[serde(flatten)]
    of: BTreeMap<String, String>,
    content: String,
    created_at: Time,
    updated_at: Time,
}

impl From<Learning> for Shown {
    fn from(item: Learning) -> Self {
        Self {
            id: item.id,
            of: owner_id(&item.kind, item.agentable),
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

impl Noun for Learnings {
    type Stored = Learning;
    type Id = LearningId;
    type Owner = Place;
    type New = Sentence;
    type Change = Sentence;
    type Shown = Shown;

    const LIST: List = List::Learnings;
    const PATH: &'static str = "learnings";

    fn id(shown: &Shown) -> LearningId {
        shown.id
    }

    fn make(id: LearningId, owner: &Self::Owner, new: Sentence, at: Time) -> Result<Shown, ApiError> {
        new.check()?;
        let of = owner_id(&owner.kind, owner.id);
        Ok(Shown { id, of, content: new.content, created_at: at, updated_at: at })
    }

    fn check(change: &Sentence) -> Result<(), ApiError> {
        change.check()
    }

    fn new<'a>(owner: &Self::Owner, item: &'a Shown) -> <Self::Stored as Known>::New<'a> {
        NewLearning {
            id: item.id,
            agentable: owner.id(),
            content: &item.content,
            created_at: Some(item.created_at.0),
        }
    }

    fn change(change: &Sentence) -> <Self::Stored as Known>::Change<'_> {
        &change.content
    }
}
