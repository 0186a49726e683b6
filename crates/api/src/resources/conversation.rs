//! Whole conversations: export, import, fork, reset, statistics.

use axum::body::Body;
use axum::http::header;
use houston_domain::agentable::{AgentType, MAX_TITLE_CHARS};
use houston_domain::conversation::Conversation;
use houston_domain::id::{AgentableId, RunId, UserId, shard};
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::conversation::{
    ForkConversation, ImportConversation, ResetConversation, ResetConversationResponse,
};
use houston_store::agentable::NewAgentable;
use houston_store::conversation::{ExportOptions, NewConversation, Origin};

use crate::request::access::NAMED;
use crate::request::body::ReceivedDocument;
use crate::request::endpoint::undocumented;
use crate::request::prelude::*;
use crate::resources::agentables::create::{check_creatable, made};
use crate::resources::agentables::tools;
use crate::state::documents::{DocumentBody, DocumentPermit};

endpoints! {
    post "/v1/import/{kinds}" for NAMED => import,
    "import_conversation" in "conversations": "Create an agentable from an exported document.",
    params(Keyed),
    body [ImportConversation],
    201 "The new agentable." [houston_protocol::agentable::AgentableResponse],
    409 "`not_creatable`: agentables of this kind are created by agents or with their user.";

    get "/v1/{kinds}/{id}/export" for AGENTABLE.unshown() => export,
    "export_conversation" in "conversations": "Export a conversation as one document.",
    200 "The document." [houston_domain::conversation::Conversation],
    413 "`too_large`: the conversation is larger than `server.conversation.max_bytes`.";

    post "/v1/{kinds}/{id}/fork" for AGENTABLE => fork,
    "fork_conversation" in "conversations": "Copy a conversation, up to a position if one is given.",
    params(Keyed),
    body [Option<ForkConversation>],
    201 "The copy." [houston_protocol::agentable::AgentableResponse],
    409 "`not_creatable`: agentables of this kind are created by agents or with their user.";

    post "/v1/{kinds}/{id}/reset" for AGENTABLE => reset,
    "reset_conversation" in "conversations": "Close the session, so that the next message starts with an empty history.",
    body [Option<ResetConversation>],
    200 "The number of closed entries and deleted items." [ResetConversationResponse],
    409 "`run_in_progress`: a run is open.";

    get "/v1/{kinds}/{id}/stats" for AGENTABLE => stats,
    "get_statistics" in "conversations": "Get statistics of a conversation.",
    200 "The statistics." [houston_protocol::schema::Statistics];
}

/// Creates an agentable that continues where `conversation` ends, and returns the 201 response. `digest`: of the document as it
/// was received; `None` for a fork.
async fn create(
    ctx: &Ctx,
    kind: &AgentType,
    user: UserId,
    (conversation, digest): (&Conversation, Option<[u8; 32]>),
    origin: Option<Origin>,
    key: Option<Key>,
) -> Result<Response> {
    let (id, run): (AgentableId, RunId) = (ctx.state.ids.beside(user), ctx.state.ids.beside(user));
    let agentable = NewAgentable {
        id,
        user,
        kind: &kind.kind,
        title: &conversation.title,
        description: &conversation.description,
        status: kind.initial_status(),
        tools: conversation.tools.as_deref(),
        created_at: ctx.now(),
    };
    let served_by = origin.map(|origin| origin.served_by).unwrap_or_default();
    let response = AgentableResponse { run_id: Some(run), ..made(&agentable, served_by) };
    let new = NewConversation { agentable, conversation, digest, run, origin };
    let (key, body) = once(&key, &response);
    let done = ctx.store().create_conversation(&new, &ctx.state.ids, (key, &body)).await?;
    created(unless_key_reused(done)?, &format!("/v1/{}s", kind.kind))
}

async fn export(ctx: Ctx, path: AgentablePath) -> Result<impl IntoResponse> {
    let agentable = ctx.store().agentable(&path.kind, path.id).await?;
    let max_bytes = ctx.state.config.conversation.max_bytes;
    let permit = DocumentPermit::new(&ctx.documents, ctx.caller.tenant(), max_bytes).await?;
    let options = ExportOptions { until: None, knowledge: true, max_bytes };
    let exporting = ctx.clone();
    let export = async move {
        let conversation = exporting.store().conversation(&agentable, &options).await?;
        // Serialising strings, numbers and maps with string keys cannot fail.
        Ok(DocumentBody::new(serde_json::to_vec(&conversation).unwrap_or_default(), permit))
    };
    let sent = ctx.offload.drive(export).await?;
    let name = format!("attachment; filename=\"{}.json\"", path.public_id());
    let headers =
        [(header::CONTENT_DISPOSITION, name), (header::CONTENT_TYPE, "application/json".to_owned())];
    Ok((headers, Body::new(sent)))
}

/// The path that it has had before. In a document it would be ambiguous: `/v1/agents/{id}` could be the same.
pub(crate) const EARLIER_PATH: &str = "/v1/{kinds}/import";

undocumented! { post EARLIER_PATH for NAMED => import; }

pub(crate) async fn import(
    ctx: Ctx,
    KindPath(kind): KindPath,
    received: ReceivedDocument,
) -> Result<Response> {
    check_creatable(&kind)?;
    let importing = ctx.clone();
    ctx.offload.drive(async move { parse_and_create(&importing, &kind, received).await }).await
}

async fn parse_and_create(ctx: &Ctx, kind: &AgentType, received: ReceivedDocument) -> Result<Response> {
    let (Creation { value: ImportConversation { user_id, title, mut conversation }, key }, _permit) =
        received.read()?;
    ctx.caller.check_user(user_id)?;
    let ctx = &ctx.with_shard(shard(user_id));
    if conversation.kind != kind.kind {
        let other = &conversation.kind;
        let detail = format!("is `{other}`; import it at /v1/import/{other}s");
        return Err(ApiError::field("/conversation/kind", detail));
    }
    let digest = conversation.digest();
    if let Some(title) = title {
        check_line("/title", &title, MAX_TITLE_CHARS)?;
        conversation.title = title;
    }
    if conversation.title.is_empty() && !kind.titles {
        return Err(ApiError::field("/conversation/title", "must not be empty"));
    }
    conversation
        .check()
        .and_then(|()| conversation.check_counts(&ctx.store().knowledge_limits))
        .map_err(|wrong| wrong.below("/conversation"))?;
    if let Some(names) = &conversation.tools {
        tools::check(ctx, &kind.kind, "/conversation/tools", names).await?;
    }
    create(ctx, kind, user_id, (&conversation, Some(digest)), None, key).await
}

async fn fork(
    ctx: Ctx,
    KindPath(kind): KindPath,
    path: AgentablePath,
    OptionalBody(request): OptionalBody<ForkConversation>,
) -> Result<Response> {
    let Creation { value: ForkConversation { position, title, knowledge }, key } = request;
    check_creatable(&kind)?;
    title.as_deref().map_or(Ok(()), |title| check_line("/title", title, MAX_TITLE_CHARS))?;
    let original = ctx.store().agentable(&path.kind, path.id).await?;
    let max_bytes = ctx.state.config.conversation.max_bytes;
    let options = ExportOptions { until: position, knowledge, max_bytes };
    let permit = DocumentPermit::new(&ctx.documents, ctx.caller.tenant(), max_bytes).await?;
    let forking = ctx.clone();
    let fork = async move {
        let _permit = permit;
        let mut conversation = forking.store().conversation(&original, &options).await?;
        if let Some(title) = title {
            conversation.title = title;
        }
        let origin = Origin { id: original.id, served_by: original.served_by };
        create(&forking, &kind, original.user, (&conversation, None), Some(origin), key).await
    };
    ctx.offload.drive(fork).await
}

async fn reset(
    ctx: Ctx,
    path: AgentablePath,
    OptionalBody(request): OptionalBody<ResetConversation>,
) -> Result<impl IntoResponse> {
    ctx.confirm(&path).await?;
    let session = ctx.state.ids.beside(path.id);
    let done = ctx.store().reset(path.id, request.value.knowledge, session).await;
    let done = done.map_err(|error| match error {
        houston_store::Error::RunInProgress { run } => ApiError::RunInProgress(run),
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

async fn stats(ctx: Ctx, path: AgentablePath) -> Result<impl IntoResponse> {
    ctx.confirm(&path).await?;
    let bounds = ctx.state.config.conversation.bounds();
    Ok(Json(ctx.store().statistics(path.id, bounds).await?))
}
