//! What agents know, as REST resources: `/v1/{kinds}/{id}/notes`, `…/learnings`, `/v1/users/{id}/memories`,
//! `…/custom-instructions`, `…/feed`, and each item under its own id (`/v1/notes/{id}`). The five operations are generic
//! over [`KnowledgeResource`].
//!
//! # Add a kind
//! 1. A [`KnowledgeKind`] with its rules (`domain::knowledge`: names, owner, form, limit in `jobs/knowledge.toml`) and an
//!    id (`domain::id`). It needs no table and no query.
//! 2. Its response (`protocol::knowledge`), its cursor prefix in `page::List`, its [`KnowledgeResource`] in `resources`,
//!    its two lines in `router`: some 30 lines.

mod body;
#[cfg(feature = "openapi")]
mod documented;
pub(crate) mod endpoints;
mod operations;
mod resources;

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use houston_domain::id::UserId;
use houston_domain::knowledge::KnowledgeKind;
use houston_store::knowledge_item::KnowledgeItem;
use serde::Serialize;
use serde::de::DeserializeOwned;
#[cfg(feature = "openapi")]
use utoipa::ToSchema as Described;
use uuid::Uuid;

use self::body::{ItemChange, NewItem};
pub(crate) use self::resources::{CustomInstructions, FeedItems, Learnings, Memories, Notes};
use crate::agentable_path::{AgentablePath, Id};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::List;
use crate::state::App;

/// A type that the document describes.
#[cfg(not(feature = "openapi"))]
pub(crate) trait Described {}

#[cfg(not(feature = "openapi"))]
impl<T> Described for T {}

/// The types and paths of one kind.
pub(crate) trait KnowledgeResource: 'static {
    /// Id of an item.
    type Id: Copy + Send + Into<Uuid> + FromStr;
    /// Owner of a collection: an agentable or a user.
    type Owner: Owner;
    /// Body of a POST.
    type New: NewItem + DeserializeOwned + Described + Send;
    /// Body of a PATCH.
    type Change: ItemChange + crate::fields::Changes + DeserializeOwned + Described + Send + Sync;
    /// An item in a response.
    type Response: Serialize + Described + Send + Sync;

    /// What the items are.
    const KIND: KnowledgeKind;
    /// Prefix of its cursors.
    const LIST: List;
    /// Last segment of the collection's path, e.g. `feed`.
    const COLLECTION: &'static str = Self::PATH;
    /// Segment before the id in an item's path, e.g. `feed-items`.
    const PATH: &'static str;

    /// The response for a stored item.
    fn response(item: KnowledgeItem) -> Self::Response;
}

/// The owner of a collection, extracted from the path.
pub(crate) trait Owner: FromRequestParts<Arc<App>, Rejection = ApiError> + Send + Sync {
    /// Names of the path parameters.
    #[cfg(feature = "openapi")]
    const PARAMETERS: &'static [&'static str];

    /// Path of a collection of the owner.
    fn collection(list: &str) -> String;

    fn id(&self) -> Uuid;

    /// The kind of the agentable; `None`: the owner is a user.
    fn kind(&self) -> Option<&str>;

    /// Checks that the owner exists and belongs to the caller's tenant.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when it does not; the store's errors.
    fn confirm(&self, app: &App, caller: Caller) -> impl Future<Output = Result<(), ApiError>> + Send;
}

impl Owner for AgentablePath {
    #[cfg(feature = "openapi")]
    const PARAMETERS: &'static [&'static str] = &["kinds", "id"];

    fn collection(list: &str) -> String {
        format!("/v1/{{kinds}}/{{id}}/{list}")
    }

    fn id(&self) -> Uuid {
        self.id.0
    }

    fn kind(&self) -> Option<&str> {
        Some(&self.kind)
    }

    async fn confirm(&self, app: &App, caller: Caller) -> Result<(), ApiError> {
        app.confirm(caller, self).await
    }
}

impl Owner for Id<UserId> {
    #[cfg(feature = "openapi")]
    const PARAMETERS: &'static [&'static str] = &["id"];

    fn collection(list: &str) -> String {
        format!("/v1/users/{{id}}/{list}")
    }

    fn id(&self) -> Uuid {
        self.0.0
    }

    fn kind(&self) -> Option<&str> {
        None
    }

    async fn confirm(&self, app: &App, caller: Caller) -> Result<(), ApiError> {
        app.store(caller).user(self.0).await?;
        Ok(())
    }
}
