//! What agents know, as REST resources: `/v1/{kinds}/{id}/notes`, `…/learnings`, `/v1/users/{id}/memories`,
//! `…/custom-instructions`, `…/feed`, and each item under its own id (`/v1/notes/{id}`). The five operations (list,
//! create, get, update, delete) are generic over [`KnowledgeResource`].
//!
//! # Add a resource
//! A file here that implements [`KnowledgeResource`], its table and [`KnowledgeItem`] in the store, its cursor prefix
//! in `page::List`, its two lines in `router`.

pub(crate) mod change;
pub(crate) mod create;
mod custom_instruction;
pub(crate) mod delete;
pub(crate) mod documented;
mod feed_item;
pub(crate) mod get;
mod learning;
pub(crate) mod list;
mod memory;
mod note;

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use houston_domain::id::{AgentableId, UserId};
use houston_domain::knowledge::{MAX_DOCUMENT_BYTES, MAX_SENTENCE_BYTES, MAX_TITLE_CHARS};
use houston_protocol::knowledge::Sentence;
use houston_protocol::time::Time;
use houston_store::knowledge_item::KnowledgeItem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;
use uuid::Uuid;

pub(crate) use self::custom_instruction::CustomInstructions;
pub(crate) use self::feed_item::FeedItems;
pub(crate) use self::learning::Learnings;
pub(crate) use self::memory::Memories;
pub(crate) use self::note::Notes;
use crate::agentable_path::{AgentablePath, Id};
use crate::auth::Caller;
use crate::body::{check_line, check_size, check_text};
use crate::error::ApiError;
use crate::page::List;
use crate::state::App;

/// What differs between the knowledge resources: types, paths and checks.
pub(crate) trait KnowledgeResource: 'static {
    /// The item in the store.
    type Stored: KnowledgeItem<Id = Self::Id>;
    /// Id of an item.
    type Id: Copy + Send + From<Uuid> + Into<Uuid> + FromStr + std::fmt::Display;
    /// Owner of a collection: an agentable or a user.
    type Owner: Owner<Id = <Self::Stored as KnowledgeItem>::Owner>;
    /// Body of a POST.
    type New: DeserializeOwned + ToSchema + Send;
    /// Body of a PATCH.
    type Change: DeserializeOwned + ToSchema + Send + Sync;
    /// An item in a response.
    type Response: Serialize + DeserializeOwned + ToSchema + Send + Sync;

    /// Prefix of its cursors.
    const LIST: List;
    /// Name of one item, e.g. `feed item`.
    const NAME: &'static str;
    /// Name of several items, e.g. `feed items`.
    const PLURAL: &'static str;
    /// Last segment of the collection's path, e.g. `feed`.
    const COLLECTION: &'static str = Self::PATH;
    /// Segment before the id in an item's path, e.g. `feed-items`.
    const PATH: &'static str;

    /// The response for a stored item.
    fn response(item: Self::Stored) -> Self::Response;

    /// The id in a response.
    fn id(response: &Self::Response) -> Self::Id;

    /// Checks the body of a POST and builds the new item's response.
    ///
    /// # Errors
    /// [`ApiError::InvalidRequest`] with the invalid field.
    fn build(id: Self::Id, owner: &Self::Owner, new: Self::New, at: Time)
    -> Result<Self::Response, ApiError>;

    /// Checks the body of a PATCH.
    ///
    /// # Errors
    /// [`ApiError::InvalidRequest`] with the invalid field, or when no field is given.
    fn check(change: &Self::Change) -> Result<(), ApiError>;

    /// The new item for the store.
    fn new<'a>(owner: &Self::Owner, item: &'a Self::Response) -> <Self::Stored as KnowledgeItem>::New<'a>;

    /// The changed fields for the store.
    fn change(change: &Self::Change) -> <Self::Stored as KnowledgeItem>::Change<'_>;
}

/// The owner of a collection, extracted from the path.
pub(crate) trait Owner: FromRequestParts<Arc<App>, Rejection = ApiError> + Send + Sync {
    /// Id of the owner in the store.
    type Id: Copy + Send;

    /// Names of the path parameters.
    const PARAMETERS: &'static [&'static str];

    /// Path of a collection of the owner.
    fn collection(list: &str) -> String;

    fn id(&self) -> Self::Id;

    /// Checks that the owner exists and belongs to the caller's tenant.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when it does not; the store's errors.
    fn confirm(&self, app: &App, caller: Caller) -> impl Future<Output = Result<(), ApiError>> + Send;
}

impl Owner for AgentablePath {
    type Id = AgentableId;

    const PARAMETERS: &'static [&'static str] = &["kinds", "id"];

    fn collection(list: &str) -> String {
        format!("/v1/{{kinds}}/{{id}}/{list}")
    }

    fn id(&self) -> AgentableId {
        self.id
    }

    async fn confirm(&self, app: &App, caller: Caller) -> Result<(), ApiError> {
        app.confirm(caller, self).await
    }
}

impl Owner for Id<UserId> {
    type Id = UserId;

    const PARAMETERS: &'static [&'static str] = &["id"];

    fn collection(list: &str) -> String {
        format!("/v1/users/{{id}}/{list}")
    }

    fn id(&self) -> UserId {
        self.0
    }

    async fn confirm(&self, app: &App, caller: Caller) -> Result<(), ApiError> {
        app.store(caller).user(self.0).await?;
        Ok(())
    }
}

fn check_sentence(sentence: &Sentence) -> Result<(), ApiError> {
    check_content(&sentence.content, MAX_SENTENCE_BYTES)
}

fn check_title(title: &str) -> Result<(), ApiError> {
    check_line("/title", title, MAX_TITLE_CHARS)?;
    if title.contains(['\n', '\r']) {
        return Err(ApiError::field("/title", "must be one line"));
    }
    Ok(())
}

fn check_document(content: &str) -> Result<(), ApiError> {
    check_content(content, MAX_DOCUMENT_BYTES)
}

fn check_content(content: &str, max_bytes: usize) -> Result<(), ApiError> {
    check_text("/content", content)?;
    if content.trim().is_empty() {
        return Err(ApiError::field("/content", "must not be empty"));
    }
    check_size("/content", content.len(), max_bytes)
}

/// The error for a PATCH without fields. `allowed` lists them.
fn nothing_to_change(allowed: &str) -> ApiError {
    ApiError::field("", format!("nothing to change: give at least one of {allowed}"))
}
