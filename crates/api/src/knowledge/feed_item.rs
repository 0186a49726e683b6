//! `/v1/users/{id}/feed`: what agents put before a user without being asked.

use houston_domain::id::{FeedItemId, RunId, UserId};
use houston_store::feed_item::{FeedItem, FeedItemChange, NewFeedItem};
use houston_store::known::Known;
use serde::{Deserialize, Serialize};

use super::{Noun, Owner, check_document, check_title, nothing_changes};
use crate::error::ApiError;
use crate::page::List;
use crate::place;
use crate::rfc3339::Time;

/// What agents put before a user without being asked.
pub(crate) enum FeedItems {}

/// A feed item as clients see it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    id: FeedItemId,
    user_id: UserId,
    /// The run that made it, if one did.
    run_id: Option<RunId>,
    title: String,
    content: String,
    /// When the user read it.
    read_at: Option<Time>,
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
    /// Whether the user has read it.
    read: Option<bool>,
}

impl From<FeedItem> for Shown {
    fn from(item: FeedItem) -> Self {
        Self {
            id: item.id,
            user_id: item.user,
            run_id: item.run,
            title: item.title,
            content: item.content,
            read_at: item.read_at.map(Time),
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

impl Noun for FeedItems {
    type Stored = FeedItem;
    type Id = FeedItemId;
    type Owner = place::Id<UserId>;
    type New = New;
    type Change = Change;
    type Shown = Shown;

    const LIST: List = List::FeedItems;
    const PATH: &'static str = "feed-items";

    fn id(shown: &Shown) -> FeedItemId {
        shown.id
    }

    fn make(id: FeedItemId, owner: &Self::Owner, new: New, at: Time) -> Result<Shown, ApiError> {
        check_title(&new.title)?;
        check_document(&new.content)?;
        let user_id = owner.0;
        let New { title, content } = new;
        let (run_id, read_at) = (None, None);
        Ok(Shown { id, user_id, run_id, title, content, read_at, created_at: at, updated_at: at })
    }

    fn check(change: &Change) -> Result<(), ApiError> {
        if change.title.is_none() && change.content.is_none() && change.read.is_none() {
            return Err(nothing_changes("`title`, `content`, `read`"));
        }
        change.title.as_deref().map_or(Ok(()), check_title)?;
        change.content.as_deref().map_or(Ok(()), check_document)
    }

    fn new<'a>(owner: &Self::Owner, item: &'a Shown) -> <Self::Stored as Known>::New<'a> {
        NewFeedItem {
            id: item.id,
            user: owner.id(),
            author: None,
            title: &item.title,
            content: &item.content,
            created_at: Some(item.created_at.0),
        }
    }

    fn change(change: &Change) -> <Self::Stored as Known>::Change<'_> {
        FeedItemChange {
            title: change.title.as_deref(),
            content: change.content.as_deref(),
            read: change.read,
        }
    }
}
