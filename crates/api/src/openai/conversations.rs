//! `/compat/openai/v1/conversations`: conversations are threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use houston_domain::agentable::AgentType;
use houston_protocol::openai::list::{ConversationObject, Deleted};
use houston_protocol::openai::request::{ChangeConversation, CreateConversation};
use houston_store::erasure::Target;

use super::begin::{Named, check_metadata, thread};
use super::conversation_items::{add, read};
use super::id::{agentable_of, conversation_id};
use crate::body::{Creation, OptionalBody};
use crate::erasures;
use crate::error::ApiError;
use crate::state::App;
use crate::threads::{Asker, Thread, find};

const NOT_FOUND: ApiError = ApiError::NotFound { what: "conversation" };

/// `POST /conversations`.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    asker: Asker,
    OptionalBody(creation): OptionalBody<CreateConversation>,
) -> Result<Response, ApiError> {
    let body = creation.value;
    check_metadata(&body.metadata)?;
    let items = read(&body.items)?;
    let model = body.model.as_deref().or(body.metadata.get("model").map(String::as_str));
    let model = model.map_or_else(|| usual_kind(&app.state.agent_types), Ok)?;
    let in_metadata = body.metadata.get("user").map(String::as_str);
    let mut asker = asker;
    for (pointer, user) in [
        ("/safety_identifier", body.safety_identifier.as_deref()),
        ("/user", body.user.as_deref()),
        ("/metadata/user", in_metadata),
    ] {
        asker = asker.for_user(&app, (pointer, user)).await?;
    }
    let key = asker.own_key(creation.key);
    let thread = thread(&app, &asker, model, Named::New, key.as_ref()).await?;
    let store = || thread.app.store(thread.caller);
    store().set_client_metadata(thread.path.id, &body.metadata).await?;
    // A request that is repeated finds them.
    let is_new =
        || async { Ok::<_, ApiError>(store().runs(thread.path.id, None, None, 1).await?.is_empty()) };
    if !items.is_empty() && is_new().await? {
        add(&thread, &items, None).await?;
    }
    object(&thread).await
}

/// The kind of a conversation whose request names none, as clients of OpenAI do: the first by name that gives titles by itself, or
/// else the first.
fn usual_kind(types: &BTreeMap<String, AgentType>) -> Result<&str, ApiError> {
    let usable = || types.values().filter(|kind| kind.conversational && kind.user_creatable());
    let usual = usable().find(|kind| kind.titles).or_else(|| usable().next());
    let missing =
        || ApiError::field("/model", "is missing, and there is no kind whose conversations clients create");
    usual.map(|kind| kind.kind.as_str()).ok_or_else(missing)
}

pub(super) async fn object(thread: &Thread) -> Result<Response, ApiError> {
    let (created_at, metadata) = thread.app.store(thread.caller).client_metadata(thread.path.id).await?;
    let object = ConversationObject {
        id: conversation_id(&thread.path.public_id()),
        object: "conversation",
        created_at: created_at.timestamp(),
        metadata,
    };
    Ok(Json(object).into_response())
}

/// The thread of a conversation's id.
pub(super) async fn named(app: &Arc<App>, asker: &Asker, id: &str) -> Result<Thread, ApiError> {
    let public_id = agentable_of(id).ok_or(NOT_FOUND)?;
    let (kind, _) = public_id.rsplit_once('_').ok_or(NOT_FOUND)?;
    match find(app, asker, kind, ("/id", public_id)).await {
        Ok(found) => {
            let thread = found.ok_or(NOT_FOUND)?;
            // Houston's own ids are taken as they are.
            thread.app.confirm(thread.caller, &thread.path).await.map_err(|error| match error {
                ApiError::NotFound { .. } => NOT_FOUND,
                error => error,
            })?;
            Ok(thread)
        }
        Err(ApiError::NotFound { .. } | ApiError::InvalidRequest { .. }) => Err(NOT_FOUND),
        Err(error) => Err(error),
    }
}

/// `GET /conversations/{id}`.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    object(&named(&app, &asker, &id).await?).await
}

/// `POST /conversations/{id}`.
pub(super) async fn change(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(id): Path<String>,
    Creation { value: body, .. }: Creation<ChangeConversation>,
) -> Result<Response, ApiError> {
    check_metadata(&body.metadata)?;
    let thread = named(&app, &asker, &id).await?;
    thread.app.store(thread.caller).set_client_metadata(thread.path.id, &body.metadata).await?;
    object(&thread).await
}

/// `DELETE /conversations/{id}`.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let Thread { app, caller, path } = named(&app, &asker, &id).await?;
    erasures::request(&app, caller, Target::Agentable(&path.kind, path.id)).await?;
    Ok(Json(Deleted { id, object: "conversation.deleted", deleted: true }).into_response())
}
