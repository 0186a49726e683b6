//! What agents know, as clients list, make, read, change and delete it: `/v1/{kinds}/{id}/notes`, `…/learnings`,
//! `/v1/users/{id}/memories`, `…/custom-instructions`, `…/feed`, and each item under its own id (`/v1/notes/{id}`).
//! The five verbs are the same for all; a [`KnowledgeResource`] says what differs.
//!
//! # Add a noun
//! A file here that implements [`KnowledgeResource`], its table and [`KnowledgeItem`] in the store, its mark in `page::List`, its two lines in
//! `router`.

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
use crate::auth::Caller;
use crate::body::{check_line, check_size, check_text};
use crate::error::ApiError;
use crate::page::List;
use crate::agentable_path::{Id, AgentablePath};
use crate::state::App;

/// One sort of what agents know.
pub(crate) trait KnowledgeResource: 'static {
    /// How the store knows it.
    type Stored: KnowledgeItem<Id = Self::Id>;
    /// Ids of its items.
    type Id: Copy + Send + From<Uuid> + Into<Uuid> + FromStr + std::fmt::Display;
    /// What a list of them belongs to.
    type Owner: Owner<Id = <Self::Stored as KnowledgeItem>::Owner>;
    /// The body of a POST.
    type New: DeserializeOwned + ToSchema + Send;
    /// The body of a PATCH.
    type Change: DeserializeOwned + ToSchema + Send + Sync;
    /// An item as clients see it.
    type Response: Serialize + DeserializeOwned + ToSchema + Send + Sync;

    /// What its cursors begin with.
    const LIST: List;
    /// What one is called.
    const NAME: &'static str;
    /// What several are called.
    const PLURAL: &'static str;
    /// The last part of the list's path.
    const COLLECTION: &'static str = Self::PATH;
    /// The path of an item, before its id.
    const PATH: &'static str;

    /// The item as clients see it.
    fn response(item: Self::Stored) -> Self::Response;

    /// The id of an item.
    fn id(response: &Self::Response) -> Self::Id;

    /// The item a client wants to be made, once it is checked.
    fn make(id: Self::Id, owner: &Self::Owner, new: Self::New, at: Time) -> Result<Self::Response, ApiError>;

    /// Checks a change.
    fn check(change: &Self::Change) -> Result<(), ApiError>;

    /// What the store makes of an item that was made here.
    fn new<'a>(owner: &Self::Owner, item: &'a Self::Response) -> <Self::Stored as KnowledgeItem>::New<'a>;

    /// What the store changes.
    fn change(change: &Self::Change) -> <Self::Stored as KnowledgeItem>::Change<'_>;
}

/// What a list belongs to, as a path names it.
pub(crate) trait Owner: FromRequestParts<Arc<App>, Rejection = ApiError> + Send + Sync {
    /// How the store names it.
    type Id: Copy + Send;

    /// The parameters of its path.
    const PARAMETERS: &'static [&'static str];

    /// The path of a list that belongs to it.
    fn collection(list: &str) -> String;

    /// Its id.
    fn id(&self) -> Self::Id;

    /// Whether the caller has it.
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
        app.store().user(caller.tenant, self.0).await?;
        Ok(())
    }
}

fn check_sentence(sentence: &Sentence) -> Result<(), ApiError> {
    check_content(&sentence.content, MAX_SENTENCE_BYTES)
}

/// A title: one line.
fn check_title(title: &str) -> Result<(), ApiError> {
    check_line("/title", title, MAX_TITLE_CHARS)?;
    if title.contains(['\n', '\r']) {
        return Err(ApiError::field("/title", "must be one line"));
    }
    Ok(())
}

/// A text of several pages at most.
fn check_document(content: &str) -> Result<(), ApiError> {
    check_content(content, MAX_DOCUMENT_BYTES)
}

fn check_content(content: &str, most_bytes: usize) -> Result<(), ApiError> {
    check_text("/content", content)?;
    if content.trim().is_empty() {
        return Err(ApiError::field("/content", "may not be empty"));
    }
    check_size("/content", content.len(), most_bytes)
}

/// A PATCH that says nothing.
fn nothing_changes(allowed: &str) -> ApiError {
    ApiError::field("", format!("nothing changes: give at least one of {allowed}"))
}
