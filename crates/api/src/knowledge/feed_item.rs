//! `/v1/users/{id}/feed`: items that agents write for a user without being asked.

use houston_domain::id::{FeedItemId, UserId};
use houston_protocol::knowledge::{CreateDocument, FeedItemResponse, UpdateFeedItem};
use houston_protocol::time::Time;
use houston_store::feed_item::{FeedItem, FeedItemChange, NewFeedItem};
use houston_store::knowledge_item::KnowledgeItem;

use super::{KnowledgeResource, Owner, check_document, check_title, nothing_to_change};
use crate::agentable_path;
use crate::error::ApiError;
use crate::page::List;

/// Feed items: what agents write for a user without being asked.
pub(crate) enum FeedItems {}

impl KnowledgeResource for FeedItems {
    type Stored = FeedItem;
    type Id = FeedItemId;
    type Owner = agentable_path::Id<UserId>;
    type New = CreateDocument;
    type Change = UpdateFeedItem;
    type Response = FeedItemResponse;

    const LIST: List = List::FeedItems;
    const NAME: &'static str = "feed item";
    const PLURAL: &'static str = "feed items";
    const COLLECTION: &'static str = "feed";
    const PATH: &'static str = "feed-items";

    fn response(item: FeedItem) -> FeedItemResponse {
        FeedItemResponse {
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

    fn id(response: &FeedItemResponse) -> FeedItemId {
        response.id
    }

    fn build(
        id: FeedItemId,
        owner: &Self::Owner,
        new: CreateDocument,
        at: Time,
    ) -> Result<FeedItemResponse, ApiError> {
        check_title(&new.title)?;
        check_document(&new.content)?;
        let user_id = owner.0;
        let CreateDocument { title, content } = new;
        let (run_id, read_at) = (None, None);
        Ok(FeedItemResponse { id, user_id, run_id, title, content, read_at, created_at: at, updated_at: at })
    }

    fn check(change: &UpdateFeedItem) -> Result<(), ApiError> {
        if change.title.is_none() && change.content.is_none() && change.read.is_none() {
            return Err(nothing_to_change("`title`, `content`, `read`"));
        }
        change.title.as_deref().map_or(Ok(()), check_title)?;
        change.content.as_deref().map_or(Ok(()), check_document)
    }

    fn new<'a>(owner: &Self::Owner, item: &'a FeedItemResponse) -> <Self::Stored as KnowledgeItem>::New<'a> {
        NewFeedItem {
            id: item.id,
            user: owner.id(),
            author: None,
            title: &item.title,
            content: &item.content,
            created_at: Some(item.created_at.0),
        }
    }

    fn change(change: &UpdateFeedItem) -> <Self::Stored as KnowledgeItem>::Change<'_> {
        FeedItemChange {
            title: change.title.as_deref(),
            content: change.content.as_deref(),
            read: change.read,
        }
    }
}
