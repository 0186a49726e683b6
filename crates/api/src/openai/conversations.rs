//! `/compat/openai/v1/conversations`: conversations are threads.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use houston_domain::message::{MessageType, Source};
use houston_protocol::openai::item::{ItemStatus, OutputItem, Part, Role};
use houston_protocol::openai::list::{ConversationObject, Deleted, InputMessage, Item, List};
use houston_protocol::openai::request::CreateConversation;
use houston_store::erasure::Target;
use houston_store::message::ThreadMessage;
use serde::Deserialize;

use super::begin::{Named, thread};
use super::id::{agentable_of, conversation_id};
use crate::body::OptionalBody;
use crate::erasures;
use crate::error::ApiError;
use crate::query::Query;
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
    if !body.items.is_empty() {
        return Err(ApiError::field(
            "/items",
            "must be empty: send what the user says with `POST /responses`",
        ));
    }
    let model = body.model.as_deref().or(body.metadata.get("model").map(String::as_str));
    let missing = "is missing: which agent the conversation is with, as in `POST /responses`; clients that do not know it send it in \
                   `metadata`";
    let model = model.ok_or_else(|| ApiError::field("/model", missing))?;
    let asker = asker.for_user(&app, ("/user", body.user.as_deref())).await?;
    let in_metadata = body.metadata.get("user").map(String::as_str);
    let asker = asker.for_user(&app, ("/metadata/user", in_metadata)).await?;
    let key = asker.own_key(creation.key);
    let thread = thread(&app, &asker, model, Named::New, key.as_ref()).await?;
    object(&thread).await
}

async fn object(thread: &Thread) -> Result<Response, ApiError> {
    let agentable = thread.app.store(thread.caller).agentable(&thread.path.kind, thread.path.id).await?;
    let object = ConversationObject {
        id: conversation_id(&thread.path.public_id()),
        object: "conversation",
        created_at: agentable.created_at.timestamp(),
        metadata: serde_json::Map::new(),
    };
    Ok(Json(object).into_response())
}

/// The thread of a conversation's id.
async fn named(app: &Arc<App>, asker: &Asker, id: &str) -> Result<Thread, ApiError> {
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

/// The parameters of a list.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Page {
    limit: Option<u8>,
    after: Option<String>,
    order: Option<String>,
}

/// `GET /conversations/{id}/items`: the messages, newest first.
pub(super) async fn items(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(id): Path<String>,
    Query(page): Query<Page>,
) -> Result<Response, ApiError> {
    let limit = page.limit.unwrap_or(20);
    if !(1..=100).contains(&limit) {
        return Err(ApiError::parameter("limit", "must be 1 to 100"));
    }
    if page.order.is_some_and(|order| order != "desc") {
        return Err(ApiError::parameter("order", "must be `desc`: the newest item is first"));
    }
    let Thread { app, caller, path } = named(&app, &asker, &id).await?;
    let store = app.store(caller);
    let unknown = || ApiError::parameter("after", "is no item of this conversation");
    let before = match page.after {
        None => None,
        Some(after) => {
            let message = store.message(after.parse().map_err(|_| unknown())?).await;
            let message = message.ok().filter(|message| message.agentable == path.id);
            Some(message.ok_or_else(unknown)?.message.seq)
        }
    };
    let mut messages = store.messages(path.id, before, i64::from(limit) + 1).await?;
    let has_more = messages.len() > usize::from(limit);
    messages.truncate(usize::from(limit));
    let items = messages.into_iter().map(item).collect();
    Ok(Json(List::new(items, has_more, |item: &Item| item.id().to_owned())).into_response())
}

/// A message as an item. Calls of tools are described by text, as in the thread.
fn item(message: ThreadMessage) -> Item {
    let message = message.message;
    let id = message.id.to_string();
    match (message.source, message.message_type) {
        (Source::User, _) => Item::Input(InputMessage::new(id, Role::User, message.content)),
        (Source::System, _) => Item::Input(InputMessage::new(id, Role::System, message.content)),
        (Source::Agent | Source::Error, MessageType::Text | MessageType::Tool) => {
            let content = vec![Part::output(message.content)];
            let (status, role) = (ItemStatus::Completed, Role::Assistant);
            Item::Output(OutputItem::Message { id, status, role, content })
        }
    }
}
