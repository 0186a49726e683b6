//! Whole conversations: export, import, fork, reset, statistics.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use houston_domain::conversation::Conversation;
use houston_domain::id::{AgentableId, RunId, UserId, shard};
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::conversation::{ResetConversation, ResetConversationResponse};
use houston_protocol::time::Time;
use houston_store::agentable::NewAgentable;
use houston_store::conversation::{ExportOptions, NewConversation, Origin};
use rust_decimal::Decimal;
use serde::Deserialize;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::{AgentablePath, KindPath};
use crate::request::body::{Creation, OptionalBody, ReceivedDocument};
use crate::request::checks::check_line;
use crate::request::endpoint::{Endpoint, endpoint};
use crate::request::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::resources::agentables::tools;
use crate::state::App;
use crate::state::documents::{DocumentBody, DocumentPermit};

pub(crate) const ENDPOINTS: &[Endpoint] = &[IMPORT, EXPORT, FORK, RESET, STATS];

/// Creates an agentable that continues where `conversation` ends, and returns the 201 response. `digest`: of the document as it
/// was received; `None` for a fork.
async fn create(
    app: &App,
    caller: Caller,
    kind: &KindPath,
    user: UserId,
    (conversation, digest): (&Conversation, Option<[u8; 32]>),
    origin: Option<Origin>,
    key: Option<Key>,
) -> Result<Response, ApiError> {
    let (id, run): (AgentableId, RunId) = (app.state.ids.beside(user), app.state.ids.beside(user));
    let agentable = NewAgentable {
        id,
        user,
        kind: &kind.name,
        title: &conversation.title,
        description: &conversation.description,
        status: kind.initial_status.as_deref(),
        tools: conversation.tools.as_deref(),
        created_at: app.now(),
    };
    let served_by = origin.map(|origin| origin.served_by).unwrap_or_default();
    let response = AgentableResponse {
        result: None,
        message: None,
        cost: Some(Decimal::ZERO),
        unpriced_calls: 0,
        last_seq: None,
        read_seq: None,
        unread: None,
        id: id.public_id(&kind.name),
        user_id: user,
        title: conversation.title.clone(),
        description: conversation.description.clone(),
        status: kind.initial_status.clone(),
        run_id: Some(run),
        parent_id: None,
        agent_id: served_by.agent,
        team_id: served_by.team,
        tools: conversation.tools.clone(),
        created_at: Time(agentable.created_at),
    };
    let body = stored_body(&response);
    let new = NewConversation { agentable, conversation, digest, run, origin };
    let key = key.as_ref().map(Key::as_stored);
    let done = app.store(caller).create_conversation(&new, &app.state.ids, key, &body).await?;
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, &format!("/v1/{}s", kind.name))
}

/// # Errors
/// [`ApiError::NotCreatable`] when users may not create agentables of the kind.
fn check_kind(kind: &KindPath) -> Result<(), ApiError> {
    if kind.user_creatable {
        return Ok(());
    }
    Err(ApiError::NotCreatable { kind: kind.name.clone(), made_with_user: kind.made_with_user })
}

endpoint! {
    EXPORT: get "/v1/{kinds}/{id}/export" for AGENTABLE.unshown() => export,
    tag = "conversations",
    operation_id = "export_conversation",
    summary = "Export a conversation as one document.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_domain::id::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The document.", body = houston_domain::conversation::Conversation),
        (status = 413, description = "`too_large`: the conversation is larger than `server.conversation.max_bytes`.")
    ),
}

async fn export(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    let agentable = app.store(caller).agentable(&path.kind, path.id).await?;
    let max_bytes = app.state.config.conversation.max_bytes;
    let permit = DocumentPermit::new(&app.documents, caller.tenant(), max_bytes).await?;
    let options = ExportOptions { until: None, knowledge: true, max_bytes };
    let exporting = Arc::clone(&app);
    let export = async move {
        let conversation = exporting.store(caller).conversation(&agentable, &options).await?;
        Ok(DocumentBody::new(&conversation, permit))
    };
    let sent = app.offload.drive(export).await?;
    let name = format!("attachment; filename=\"{}.json\"", path.public_id());
    let headers =
        [(header::CONTENT_DISPOSITION, name), (header::CONTENT_TYPE, "application/json".to_owned())];
    Ok((headers, Body::new(sent)))
}

/// The path that it has had before. In a document it would be ambiguous: `/v1/agents/{id}` could be the same.
pub(crate) const EARLIER_PATH: &str = "/v1/{kinds}/import";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "struct Body")]
struct Import {
    user_id: UserId,
    /// Title of the agentable; that of the document if not given.
    title: Option<String>,
    conversation: Conversation,
}

endpoint! {
    IMPORT: post "/v1/import/{kinds}" for NAMED => import,
    tag = "conversations",
    operation_id = "import_conversation",
    summary = "Create an agentable from an exported document.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = houston_protocol::conversation::ImportConversation,
    responses(
        (status = 201, description = "The new agentable.", body = houston_protocol::agentable::AgentableResponse),
        (status = 409, description = "`not_creatable`: agentables of this kind are created by agents or with their user.")
    ),
}

pub(crate) async fn import(
    State(app): State<Arc<App>>,
    caller: Caller,
    kind: KindPath,
    received: ReceivedDocument,
) -> Result<Response, ApiError> {
    check_kind(&kind)?;
    let importing = Arc::clone(&app);
    app.offload.drive(async move { parse_and_create(&importing, caller, &kind, received).await }).await
}

async fn parse_and_create(
    app: &Arc<App>,
    caller: Caller,
    kind: &KindPath,
    received: ReceivedDocument,
) -> Result<Response, ApiError> {
    let (Creation { value: Import { user_id, title, mut conversation }, key }, _permit) = received.read()?;
    caller.check_user(user_id)?;
    let app = &app.with_shard(shard(user_id));
    if conversation.kind != kind.name {
        let other = &conversation.kind;
        let detail = format!("is `{other}`; import it at /v1/import/{other}s");
        return Err(ApiError::field("/conversation/kind", detail));
    }
    let digest = conversation.digest();
    if let Some(title) = title {
        crate::request::checks::check_line("/title", &title, houston_domain::agentable::MAX_TITLE_CHARS)?;
        conversation.title = title;
    }
    if conversation.title.is_empty() && !kind.titles {
        return Err(ApiError::field("/conversation/title", "must not be empty"));
    }
    conversation
        .check()
        .and_then(|()| conversation.check_counts(&app.store(caller).knowledge_limits()))
        .map_err(|invalid| ApiError::field(&format!("/conversation{}", invalid.pointer), invalid.detail))?;
    if let Some(names) = &conversation.tools {
        tools::check(app, caller, &kind.name, "/conversation/tools", names).await?;
    }
    create(app, caller, kind, user_id, (&conversation.upgraded(), Some(digest)), None, key).await
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "struct Body")]
struct Fork {
    /// Position of the last history entry to copy; the whole history if not given.
    position: Option<i64>,
    /// Title of the copy; that of the original if not given.
    title: Option<String>,
    /// Whether the notes and learnings of that time are copied, too.
    knowledge: bool,
}

impl Default for Fork {
    fn default() -> Self {
        Self { position: None, title: None, knowledge: true }
    }
}

endpoint! {
    FORK: post "/v1/{kinds}/{id}/fork" for AGENTABLE => fork,
    tag = "conversations",
    operation_id = "fork_conversation",
    summary = "Copy a conversation, up to a position if one is given.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_domain::id::AgentableId, Path, description = "Id of the agentable."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = Option<houston_protocol::conversation::ForkConversation>,
    responses(
        (status = 201, description = "The copy.", body = houston_protocol::agentable::AgentableResponse),
        (status = 409, description = "`not_creatable`: agentables of this kind are created by agents or with their user.")
    ),
}

async fn fork(
    State(app): State<Arc<App>>,
    caller: Caller,
    kind: KindPath,
    path: AgentablePath,
    OptionalBody(request): OptionalBody<Fork>,
) -> Result<Response, ApiError> {
    let Creation { value: Fork { position, title, knowledge }, key } = request;
    check_kind(&kind)?;
    title
        .as_deref()
        .map_or(Ok(()), |title| check_line("/title", title, houston_domain::agentable::MAX_TITLE_CHARS))?;
    let original = app.store(caller).agentable(&path.kind, path.id).await?;
    let max_bytes = app.state.config.conversation.max_bytes;
    let options = ExportOptions { until: position, knowledge, max_bytes };
    let permit = DocumentPermit::new(&app.documents, caller.tenant(), max_bytes).await?;
    let forking = Arc::clone(&app);
    let fork = async move {
        let _permit = permit;
        let mut conversation = forking.store(caller).conversation(&original, &options).await?;
        if let Some(title) = title {
            conversation.title = title;
        }
        let origin = Origin { id: original.id, served_by: original.served_by };
        create(&forking, caller, &kind, original.user, (&conversation, None), Some(origin), key).await
    };
    app.offload.drive(fork).await
}

endpoint! {
    RESET: post "/v1/{kinds}/{id}/reset" for AGENTABLE => reset,
    tag = "conversations",
    operation_id = "reset_conversation",
    summary = "Close the session, so that the next message starts with an empty history.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_domain::id::AgentableId, Path, description = "Id of the agentable.")
    ),
    request_body = Option<ResetConversation>,
    responses(
        (status = 200, description = "The number of closed entries and deleted items.", body = ResetConversationResponse),
        (status = 409, description = "`run_in_progress`: a run is open.")
    ),
}

async fn reset(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    OptionalBody(request): OptionalBody<ResetConversation>,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &path).await?;
    let session = app.state.ids.beside(path.id);
    let done = app.store(caller).reset(path.id, request.value.knowledge, session).await;
    let done = done.map_err(|error| match error {
        houston_store::Error::RunInProgress { run } => ApiError::RunInProgress { run },
        error => error.into(),
    })?;
    Ok(Json(ResetConversationResponse {
        id: path.public_id(),
        closed_entries: done.closed_entries,
        deleted_notes: done.notes,
        deleted_learnings: done.learnings,
        deleted_files: done.files,
    }))
}

endpoint! {
    STATS: get "/v1/{kinds}/{id}/stats" for AGENTABLE => stats,
    tag = "conversations",
    operation_id = "get_statistics",
    summary = "Get statistics of a conversation.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_domain::id::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The statistics.", body = houston_protocol::schema::Statistics)
    ),
}

async fn stats(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &path).await?;
    let bounds = app.state.config.conversation.bounds();
    Ok(Json(app.store(caller).statistics(path.id, bounds).await?))
}
