//! What agents know, as REST resources: `/v1/{kinds}/{id}/notes`, `…/learnings`, `/v1/users/{id}/memories`,
//! `…/custom-instructions`, `…/feed`, and each item under its own id (`/v1/notes/{id}`). The five operations are generic
//! over [`KnowledgeResource`].
//!
//! # Add a kind
//! 1. A [`KnowledgeKind`] with its rules (`domain::knowledge`: names, owner, form, limit in `jobs/knowledge.toml`) and an
//!    id (`domain::id`). It needs no table and no query.
//! 2. Its response (`protocol::knowledge`), its cursor prefix in `page::List`, its `knowledge!` here, its name in `router`: some 20
//!    lines.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use houston_domain::id::{CustomInstructionId, FeedItemId, LearningId, MemoryId, NoteId, UserId};
use houston_domain::knowledge::{KnowledgeForm, KnowledgeKind, MAX_TITLE_CHARS};
use houston_protocol::knowledge::{
    CreateDocument, CustomInstructionResponse, FeedItemResponse, LearningResponse, MemoryResponse,
    NoteResponse, Sentence, UpdateFeedItem, UpdateNote,
};
use houston_protocol::owner::Owner as AgentableOwner;
use houston_store::knowledge_item::{KnowledgeChange, KnowledgeItem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::request::checks::check_one_line;
use crate::request::prelude::*;

/// The types of one kind.
trait KnowledgeResource: 'static {
    /// Id of an item.
    type Id: Copy + Send + Into<Uuid> + FromStr;
    /// Body of a POST.
    type New: NewItem + DeserializeOwned + Send;
    /// Body of a PATCH.
    type Change: ItemChange + crate::request::body::Changes + DeserializeOwned + Send + Sync;
    /// An item in a response.
    type Response: Serialize + Send + Sync;

    /// What the items are.
    const KIND: KnowledgeKind;
    /// Prefix of its cursors.
    const LIST: List;
    /// The path of an item, e.g. `/v1/feed-items/{id}`.
    const ITEM: &'static str;

    /// The response for a stored item.
    fn response(item: KnowledgeItem) -> Self::Response;
}

/// The owner of a collection, extracted from the path.
enum Owner {
    Agentable(AgentablePath),
    User(UserId),
}

impl FromRequestParts<Arc<App>> for Owner {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        match param(parts, "kinds") {
            Some(_) => AgentablePath::from_request_parts(parts, app).await.map(Self::Agentable),
            None => Id::from_request_parts(parts, app).await.map(|Id(user)| Self::User(user)),
        }
    }
}

impl Owner {
    fn id(&self) -> Uuid {
        match self {
            Self::Agentable(path) => path.id.0,
            Self::User(user) => user.0,
        }
    }

    /// Checks that the owner exists and belongs to the caller's tenant.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when it does not; the store's errors.
    async fn confirm(&self, ctx: &Ctx) -> Result<()> {
        match self {
            Self::Agentable(path) => ctx.confirm(path).await,
            Self::User(user) => Ok(ctx.store().user(*user).await.map(drop)?),
        }
    }
}

/// One kind, in a module of its own: its variant of [`KnowledgeKind`], its id and its list of cursors; the paths of its collection and of
/// an item; the types of bodies; its response, whose other fields all kinds have; and each operation with its summary.
macro_rules! knowledge {
    (
        $module:ident: $kind:ident, $id:ident, $list:ident,
        $collection:literal for $access:expr, params($($of:tt)*), $item:literal,
        $new:ident, $change:ident, $response:ident |$stored:ident| { $($field:ident: $value:expr),+ },
        $lists:literal: $list_summary:literal,
        $creates:literal: $create_summary:literal,
        $gets:literal: $get_summary:literal,
        $updates:literal: $update_summary:literal,
        $deletes:literal: $delete_summary:literal,
    ) => {
        pub(crate) mod $module {
            use super::*;

            enum Kind {}

            impl KnowledgeResource for Kind {
                type Id = $id;
                type New = $new;
                type Change = $change;
                type Response = $response;

                const KIND: KnowledgeKind = KnowledgeKind::$kind;
                const LIST: List = List::$list;
                const ITEM: &'static str = $item;

                fn response($stored: KnowledgeItem) -> $response {
                    $response {
                        $($field: $value,)+
                        id: $id($stored.id),
                        content: $stored.content,
                        created_at: Time($stored.created_at),
                        updated_at: Time($stored.updated_at),
                    }
                }
            }

            endpoints! {
                get $collection for $access => list::<Kind>,
                $lists in "knowledge": $list_summary,
                params(
                    ("limit" = Option<usize>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
                    ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page."),
                    $($of)*
                ),
                200 "A page of items." [Page<$response>];

                post $collection for $access => create::<Kind>,
                $creates in "knowledge": $create_summary,
                params(KeyedText, $($of)*),
                body [$new],
                201 "The new item." [$response],
                409 "`full`: the maximum number of items exists.";

                get $item for ROW => async |ctx: Ctx, Id(id): Id<$id>| {
                    found(ctx.store().item((Kind::KIND, id.into())).await.map(Kind::response))
                },
                $gets in "knowledge": $get_summary,
                params(("id" = String, Path)),
                200 "The item." [$response];

                patch $item for ROW => change::<Kind>,
                $updates in "knowledge": $update_summary,
                params(("id" = String, Path)),
                body [$change],
                200 "The item." [$response];

                delete $item for ROW =>
                    async |ctx: Ctx, Id(id): Id<$id>| gone(ctx.store().delete_item((Kind::KIND, id.into())).await),
                $deletes in "knowledge": $delete_summary,
                params(("id" = String, Path)),
                204 "The item is deleted.";
            }
        }
    };
}

// Documents of an agentable, written by its agents or by users.
knowledge! {
    notes: Note, NoteId, Notes,
    "/v1/{kinds}/{id}/notes" for AGENTABLE, params(("kinds" = String, Path), ("id" = String, Path)), "/v1/notes/{id}",
    CreateDocument, UpdateNote, NoteResponse |item| { owner: agentable(&item), run_id: item.run, title: item.title.unwrap_or_default() },
    "list_notes": "List the notes, newest first.",
    "create_note": "Create a note.",
    "get_note": "Get a note.",
    "update_note": "Change a note; fields not given stay as they are.",
    "delete_note": "Delete a note.",
}

// What an agent learnt about its user or its task.
knowledge! {
    learnings: Learning, LearningId, Learnings,
    "/v1/{kinds}/{id}/learnings" for AGENTABLE, params(("kinds" = String, Path), ("id" = String, Path)), "/v1/learnings/{id}",
    Sentence, Sentence, LearningResponse |item| { owner: agentable(&item) },
    "list_learnings": "List the learnings, newest first.",
    "create_learning": "Create a learning.",
    "get_learning": "Get a learning.",
    "update_learning": "Change a learning; fields not given stay as they are.",
    "delete_learning": "Delete a learning.",
}

// Rules of a user that all their agents follow.
knowledge! {
    custom_instructions: CustomInstruction, CustomInstructionId, CustomInstructions,
    "/v1/users/{id}/custom-instructions" for USER, params(("id" = String, Path)), "/v1/custom-instructions/{id}",
    Sentence, Sentence, CustomInstructionResponse |item| { user_id: UserId(item.owner) },
    "list_custom_instructions": "List the custom instructions, newest first.",
    "create_custom_instruction": "Create a custom instruction.",
    "get_custom_instruction": "Get a custom instruction.",
    "update_custom_instruction": "Change a custom instruction; fields not given stay as they are.",
    "delete_custom_instruction": "Delete a custom instruction.",
}

// Facts that all agents of a user should remember.
knowledge! {
    memories: Memory, MemoryId, Memories,
    "/v1/users/{id}/memories" for USER, params(("id" = String, Path)), "/v1/memories/{id}",
    Sentence, Sentence, MemoryResponse |item| { user_id: UserId(item.owner), run_id: item.run },
    "list_memories": "List the memories, newest first.",
    "create_memory": "Create a memory.",
    "get_memory": "Get a memory.",
    "update_memory": "Change a memory; fields not given stay as they are.",
    "delete_memory": "Delete a memory.",
}

// What agents write for a user without being asked.
knowledge! {
    feed_items: FeedItem, FeedItemId, FeedItems,
    "/v1/users/{id}/feed" for USER, params(("id" = String, Path)), "/v1/feed-items/{id}",
    CreateDocument, UpdateFeedItem, FeedItemResponse |item| { user_id: UserId(item.owner), run_id: item.run, title: item.title.unwrap_or_default(), read_at: item.read_at.map(Time) },
    "list_feed_items": "List the feed items, newest first.",
    "create_feed_item": "Create a feed item.",
    "get_feed_item": "Get a feed item.",
    "update_feed_item": "Change a feed item; fields not given stay as they are.",
    "delete_feed_item": "Delete a feed item.",
}

/// `GET /v1/{kinds}/{id}/notes`: newest first.
async fn list<N: KnowledgeResource>(ctx: Ctx, owner: Owner, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, before) = (query.limit()?, query.id(N::LIST)?);
    owner.confirm(&ctx).await?;
    let items = ctx.store().list_items((N::KIND, owner.id()), before, rows(limit)).await?;
    let position = |item: &KnowledgeItem| item.id.as_u128();
    Ok(Json(Page::of(N::LIST, limit, items, position, N::response)))
}

/// `POST /v1/{kinds}/{id}/notes`.
async fn create<N: KnowledgeResource>(ctx: Ctx, owner: Owner, request: Creation<N::New>) -> Result<Response> {
    let Creation { value: new, key } = request;
    let (title, content) = new.texts();
    check(N::KIND.rules().form, title.as_deref(), Some(&content))?;
    owner.confirm(&ctx).await?;
    let (id, now): (Uuid, _) = (ctx.state.ids.beside(owner.id()), ctx.now());
    let item = KnowledgeItem {
        id,
        kind: N::KIND,
        owner: owner.id(),
        owner_kind: if let Owner::Agentable(path) = &owner { Some(path.kind.clone()) } else { None },
        run: None,
        title,
        content,
        untrusted: false,
        read_at: None,
        created_at: now,
        updated_at: now,
    };
    let (key, response) = once(&key, &N::response(item.clone()));
    let done = ctx.store().create_item(&item, (key, &response)).await?;
    created(unless_key_reused(done)?, N::ITEM.trim_end_matches("/{id}"))
}

/// `PATCH /v1/notes/{id}`: changes the given fields.
async fn change<N: KnowledgeResource>(
    ctx: Ctx,
    Id(id): Id<N::Id>,
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

/// Body of a POST.
trait NewItem {
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
trait ItemChange {
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
        KnowledgeChange { title: title.as_deref(), content: content.as_deref(), read: *read }
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
        check_one_line("/title", title, MAX_TITLE_CHARS)?;
    }
    let Some(content) = content else { return Ok(()) };
    check_text("/content", content)?;
    ensure!(!content.trim().is_empty(), ApiError::field("/content", "must not be empty"));
    check_size("/content", content.len(), form.max_bytes())
}

/// The agentable that an item belongs to.
fn agentable(item: &KnowledgeItem) -> AgentableOwner {
    AgentableOwner { kind: item.owner_kind.clone().unwrap_or_default(), id: item.owner.into() }
}
