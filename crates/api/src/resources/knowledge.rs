//! What agents know, as REST resources: `/v1/{kinds}/{id}/notes`, `…/learnings`, `/v1/users/{id}/memories`,
//! `…/custom-instructions`, `…/feed`, and each item under its own id (`/v1/notes/{id}`). The five operations are generic
//! over [`KnowledgeResource`].
//!
//! # Add a kind
//! 1. A [`KnowledgeKind`] with its rules (`domain::knowledge`: names, owner, form, limit in `jobs/knowledge.toml`) and an
//!    id (`domain::id`). It needs no table and no query.
//! 2. Its response (`protocol::knowledge`), its cursor prefix in `page::List`, its [`KnowledgeResource`] here,
//!    its two lines in `router`: some 30 lines.

#[cfg(feature = "openapi")]
mod documented;

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use houston_domain::id::{CustomInstructionId, FeedItemId, LearningId, MemoryId, NoteId, UserId};
use houston_domain::knowledge::{KnowledgeForm, KnowledgeKind, MAX_TITLE_CHARS};
use houston_protocol::knowledge::{
    CreateDocument, CustomInstructionResponse, FeedItemResponse, LearningResponse, MemoryResponse,
    NoteResponse, Sentence, UpdateFeedItem, UpdateNote,
};
use houston_protocol::owner::Owner as AgentableOwner;
use houston_store::knowledge_item::{KnowledgeChange, KnowledgeItem, NewKnowledgeItem};
use serde::Serialize;
use serde::de::DeserializeOwned;
#[cfg(feature = "openapi")]
use utoipa::ToSchema as Described;
use uuid::Uuid;

use crate::request::access::{AGENTABLE, Access, ROW, USER};
use crate::request::endpoint::erase;
use crate::request::prelude::*;
use crate::resources::fields::Change;

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
    type Change: ItemChange + crate::resources::fields::Changes + DeserializeOwned + Described + Send + Sync;
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

    const ACCESS: Access;

    /// Path of a collection of the owner.
    fn collection(list: &str) -> String;

    fn id(&self) -> Uuid;

    /// The kind of the agentable; `None`: the owner is a user.
    fn kind(&self) -> Option<&str>;

    /// Checks that the owner exists and belongs to the caller's tenant.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when it does not; the store's errors.
    fn confirm(&self, ctx: &Ctx) -> impl Future<Output = Result<()>> + Send;
}

impl Owner for AgentablePath {
    #[cfg(feature = "openapi")]
    const PARAMETERS: &'static [&'static str] = &["kinds", "id"];

    const ACCESS: Access = AGENTABLE;

    fn collection(list: &str) -> String {
        format!("/v1/{{kinds}}/{{id}}/{list}")
    }

    fn id(&self) -> Uuid {
        self.id.0
    }

    fn kind(&self) -> Option<&str> {
        Some(&self.kind)
    }

    async fn confirm(&self, ctx: &Ctx) -> Result<()> {
        ctx.confirm(self).await
    }
}

impl Owner for Id<UserId> {
    #[cfg(feature = "openapi")]
    const PARAMETERS: &'static [&'static str] = &["id"];

    const ACCESS: Access = USER;

    fn collection(list: &str) -> String {
        format!("/v1/users/{{id}}/{list}")
    }

    fn id(&self) -> Uuid {
        self.0.0
    }

    fn kind(&self) -> Option<&str> {
        None
    }

    async fn confirm(&self, ctx: &Ctx) -> Result<()> {
        ctx.store().user(self.0).await?;
        Ok(())
    }
}

/// Documents of an agentable, written by its agents or by users.
pub(crate) enum Notes {}

impl KnowledgeResource for Notes {
    type Id = NoteId;
    type Owner = AgentablePath;
    type New = CreateDocument;
    type Change = UpdateNote;
    type Response = NoteResponse;

    const KIND: KnowledgeKind = KnowledgeKind::Note;
    const LIST: List = List::Notes;
    const PATH: &'static str = "notes";

    fn response(item: KnowledgeItem) -> NoteResponse {
        NoteResponse {
            id: NoteId(item.id),
            owner: agentable(&item),
            run_id: item.run,
            title: item.title.unwrap_or_default(),
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

/// What an agent learnt about its user or its task.
pub(crate) enum Learnings {}

impl KnowledgeResource for Learnings {
    type Id = LearningId;
    type Owner = AgentablePath;
    type New = Sentence;
    type Change = Sentence;
    type Response = LearningResponse;

    const KIND: KnowledgeKind = KnowledgeKind::Learning;
    const LIST: List = List::Learnings;
    const PATH: &'static str = "learnings";

    fn response(item: KnowledgeItem) -> LearningResponse {
        LearningResponse {
            id: LearningId(item.id),
            owner: agentable(&item),
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

/// Facts that all agents of a user should remember.
pub(crate) enum Memories {}

impl KnowledgeResource for Memories {
    type Id = MemoryId;
    type Owner = Id<UserId>;
    type New = Sentence;
    type Change = Sentence;
    type Response = MemoryResponse;

    const KIND: KnowledgeKind = KnowledgeKind::Memory;
    const LIST: List = List::Memories;
    const PATH: &'static str = "memories";

    fn response(item: KnowledgeItem) -> MemoryResponse {
        MemoryResponse {
            id: MemoryId(item.id),
            user_id: UserId(item.owner),
            run_id: item.run,
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

/// Rules of a user that all their agents follow.
pub(crate) enum CustomInstructions {}

impl KnowledgeResource for CustomInstructions {
    type Id = CustomInstructionId;
    type Owner = Id<UserId>;
    type New = Sentence;
    type Change = Sentence;
    type Response = CustomInstructionResponse;

    const KIND: KnowledgeKind = KnowledgeKind::CustomInstruction;
    const LIST: List = List::CustomInstructions;
    const PATH: &'static str = "custom-instructions";

    fn response(item: KnowledgeItem) -> CustomInstructionResponse {
        CustomInstructionResponse {
            id: CustomInstructionId(item.id),
            user_id: UserId(item.owner),
            content: item.content,
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

/// What agents write for a user without being asked.
pub(crate) enum FeedItems {}

impl KnowledgeResource for FeedItems {
    type Id = FeedItemId;
    type Owner = Id<UserId>;
    type New = CreateDocument;
    type Change = UpdateFeedItem;
    type Response = FeedItemResponse;

    const KIND: KnowledgeKind = KnowledgeKind::FeedItem;
    const LIST: List = List::FeedItems;
    const COLLECTION: &'static str = "feed";
    const PATH: &'static str = "feed-items";

    fn response(item: KnowledgeItem) -> FeedItemResponse {
        FeedItemResponse {
            id: FeedItemId(item.id),
            user_id: UserId(item.owner),
            run_id: item.run,
            title: item.title.unwrap_or_default(),
            content: item.content,
            read_at: item.read_at.map(Time),
            created_at: Time(item.created_at),
            updated_at: Time(item.updated_at),
        }
    }
}

pub(crate) fn endpoints() -> Vec<Endpoint> {
    [of::<Notes>(), of::<Learnings>(), of::<CustomInstructions>(), of::<Memories>(), of::<FeedItems>()]
        .concat()
}

fn of<N: KnowledgeResource>() -> [Endpoint; 2] {
    [collection::<N>(), item::<N>()]
}

/// `GET` and `POST` of a resource's collection.
fn collection<N: KnowledgeResource>() -> Endpoint {
    Endpoint {
        path: Cow::Owned(N::Owner::collection(N::COLLECTION)),
        access: Some(N::Owner::ACCESS),
        handlers: || axum::routing::get(erase(list::<N>)).post(erase(create::<N>)),
        #[cfg(feature = "openapi")]
        describe: documented::collection::<N>,
    }
}

/// `GET`, `PATCH` and `DELETE` of one item of a resource.
fn item<N: KnowledgeResource>() -> Endpoint {
    Endpoint {
        path: Cow::Owned(format!("/v1/{}/{{id}}", N::PATH)),
        access: Some(ROW),
        handlers: || axum::routing::get(erase(get::<N>)).patch(erase(change::<N>)).delete(erase(delete::<N>)),
        #[cfg(feature = "openapi")]
        describe: documented::item::<N>,
    }
}

/// `GET /v1/{kinds}/{id}/notes`: newest first.
async fn list<N: KnowledgeResource>(
    ctx: Ctx,
    owner: N::Owner,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse> {
    let (limit, before) = (query.limit()?, query.id(N::LIST)?);
    owner.confirm(&ctx).await?;
    let items = ctx.store().list_items((N::KIND, owner.id()), before, rows(limit)).await?;
    let position = |item: &KnowledgeItem| item.id.as_u128();
    Ok(Json(Page::of(N::LIST, limit, items, position, N::response)))
}

/// `POST /v1/{kinds}/{id}/notes`.
async fn create<N: KnowledgeResource>(
    ctx: Ctx,
    owner: N::Owner,
    request: Creation<N::New>,
) -> Result<Response> {
    let Creation { value: new, key } = request;
    let (title, content) = new.texts();
    check(N::KIND.rules().form, title.as_deref(), Some(&content))?;
    owner.confirm(&ctx).await?;
    let (id, now): (Uuid, _) = (ctx.state.ids.beside(owner.id()), ctx.now());
    let new = NewKnowledgeItem {
        id,
        kind: N::KIND,
        owner: owner.id(),
        author: None,
        title: title.as_deref(),
        content: &content,
        untrusted: false,
        created_at: Some(now),
    };
    let item = KnowledgeItem {
        id,
        kind: N::KIND,
        owner: owner.id(),
        owner_kind: owner.kind().map(str::to_owned),
        run: None,
        title: title.clone(),
        content: content.clone(),
        untrusted: false,
        read_at: None,
        created_at: now,
        updated_at: now,
    };
    let response = stored_body(&N::response(item));
    let key = key.as_ref().map(Key::as_stored);
    let done = ctx.store().create_item(&new, key, &response).await?;
    created(unless_key_reused(done)?, &format!("/v1/{}", N::PATH))
}

/// `GET /v1/notes/{id}`.
async fn get<N: KnowledgeResource>(ctx: Ctx, Id(id): Id<N::Id>) -> Result<impl IntoResponse> {
    Ok(Json(N::response(ctx.store().item((N::KIND, id.into())).await?)))
}

/// `PATCH /v1/notes/{id}`: changes the given fields.
async fn change<N: KnowledgeResource>(
    ctx: Ctx,
    Id(id): Id<N::Id>,
    // A PATCH is idempotent, so the Idempotency-Key is ignored.
    Change(value): Change<N::Change>,
) -> Result<impl IntoResponse> {
    let change = value.change();
    if change == KnowledgeChange::default() {
        let fields = <N::Change as ItemChange>::FIELDS;
        return Err(ApiError::field("", format!("nothing to change: give at least one of {fields}")));
    }
    check(N::KIND.rules().form, change.title, change.content)?;
    let changed = ctx.store().change_item((N::KIND, id.into()), change).await?;
    Ok(Json(N::response(changed)))
}

/// `DELETE /v1/notes/{id}`.
async fn delete<N: KnowledgeResource>(ctx: Ctx, Id(id): Id<N::Id>) -> Result<StatusCode> {
    ctx.store().delete_item((N::KIND, id.into())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Body of a POST.
pub(crate) trait NewItem {
    /// The title, if items of this kind have one, and the text.
    fn texts(self) -> (Option<String>, String);
}

impl NewItem for CreateDocument {
    fn texts(self) -> (Option<String>, String) {
        (Some(self.title), self.content)
    }
}

impl NewItem for Sentence {
    fn texts(self) -> (Option<String>, String) {
        (None, self.content)
    }
}

/// Body of a PATCH.
pub(crate) trait ItemChange {
    /// The fields, for the error when none is given.
    const FIELDS: &'static str;

    fn change(&self) -> KnowledgeChange<'_>;
}

impl ItemChange for UpdateNote {
    const FIELDS: &'static str = "`title`, `content`";

    fn change(&self) -> KnowledgeChange<'_> {
        KnowledgeChange {
            title: self.title.as_deref(),
            content: self.content.as_deref(),
            ..KnowledgeChange::default()
        }
    }
}

impl ItemChange for UpdateFeedItem {
    const FIELDS: &'static str = "`title`, `content`, `read`";

    fn change(&self) -> KnowledgeChange<'_> {
        let Self { title, content, read } = self;
        KnowledgeChange {
            title: title.as_deref(),
            content: content.as_deref(),
            read: *read,
            ..KnowledgeChange::default()
        }
    }
}

impl ItemChange for Sentence {
    const FIELDS: &'static str = "`content`";

    fn change(&self) -> KnowledgeChange<'_> {
        KnowledgeChange { content: Some(&self.content), ..KnowledgeChange::default() }
    }
}

/// Checks the given texts.
///
/// # Errors
/// [`ApiError::InvalidRequest`] with the invalid field.
fn check(form: KnowledgeForm, title: Option<&str>, content: Option<&str>) -> Result<()> {
    if let Some(title) = title {
        check_line("/title", title, MAX_TITLE_CHARS)?;
        if title.contains(['\n', '\r']) {
            return Err(ApiError::field("/title", "must be one line"));
        }
    }
    let Some(content) = content else { return Ok(()) };
    check_text("/content", content)?;
    if content.trim().is_empty() {
        return Err(ApiError::field("/content", "must not be empty"));
    }
    check_size("/content", content.len(), form.max_bytes())
}

/// The agentable that an item belongs to.
fn agentable(item: &KnowledgeItem) -> AgentableOwner {
    AgentableOwner { kind: item.owner_kind.clone().unwrap_or_default(), id: item.owner.into() }
}
