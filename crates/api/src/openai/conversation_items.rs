//! `/compat/openai/v1/conversations/{id}/items`: the messages of a thread, and what its client adds to them. What is added is read
//! by the agent with the next message; it starts no run.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use houston_domain::id::{MessageId, RunId};
use houston_domain::message::{MessageType, Source};
use houston_protocol::openai::item::{ItemStatus, OutputItem, Part, Role};
use houston_protocol::openai::list::{InputMessage, Item, List};
use houston_protocol::openai::request::CreateItems;
use houston_protocol::openai::stored_item::{FIELD, StoredItem};
use houston_store::Error;
use houston_store::conversation::client_items::{ItemPage, NewItem, Removed, ThreadItem};
use houston_store::message::ThreadMessage;
use houston_store::rate::Whose;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::begin::with_ignored;
use super::conversations::{named, object};
use crate::body::{Creation, check_text};
use crate::error::ApiError;
use crate::idempotency::{Key, respond, stored_body, unless_key_reused};
use crate::messages::post::check_storable_value;
use crate::query::Query;
use crate::rates::ask;
use crate::state::App;
use crate::threads::{Asker, Thread};

/// The most items of one request.
const MAX_ITEMS: usize = 20;

const NOT_FOUND: ApiError = ApiError::NotFound { what: "item" };

/// Reads the items of a request.
///
/// # Errors
/// [`ApiError::InvalidRequest`] at the first that is none.
pub(super) fn read(items: &[Value]) -> Result<Vec<StoredItem>, ApiError> {
    if items.len() > MAX_ITEMS {
        return Err(ApiError::field("/items", format!("must have at most {MAX_ITEMS} items")));
    }
    let read = |(nth, item): (usize, &Value)| {
        let at = format!("/items/{nth}");
        check_storable_value(&at, item)?;
        StoredItem::read(item)
            .map_err(|wrong| ApiError::field(&format!("{at}{}", wrong.pointer), wrong.reason))
    };
    items.iter().enumerate().map(read).collect()
}

/// Adds items to a thread. Returns the body of the response, and whether they were added before.
///
/// # Errors
/// That a run is open, or the store's.
pub(super) async fn add(
    thread: &Thread,
    items: &[StoredItem],
    key: Option<&Key>,
) -> Result<(Value, bool), ApiError> {
    let Thread { app, caller, path } = thread;
    ask(app, *caller, Whose::Agentable(path.id), key).await?;
    let run: RunId = app.state.ids.beside(path.id);
    let mut ids: Vec<MessageId> = items.iter().map(|_| app.state.ids.beside(path.id)).collect();
    ids.sort_unstable_by_key(|id| id.0);
    let new: Vec<NewItem<'_>> = items
        .iter()
        .zip(&ids)
        .map(|(item, id)| NewItem {
            id: *id,
            source: item.source,
            content: &item.content,
            role: item.role,
            remembered: item.remembered.as_deref(),
        })
        .collect();
    let written = new.iter().filter_map(|item| {
        StoredItem::write(item.id, item.content, &json!({FIELD: {"role": item.role}})).map(Item::Added)
    });
    let body = stored_body(&List::new(written.collect(), false, |item: &Item| item.id().to_owned()));
    let done =
        app.store(*caller).add_client_items(path.id, (run, &new), key.map(Key::as_stored), &body).await?;
    unless_key_reused(done)
}

/// The header for what a client wants to have besides (`include`), if it does: items have what they have.
fn ignored(query: Option<&str>) -> Option<HeaderValue> {
    let names = |pair: &&str| pair.starts_with("include");
    query?.split('&').find(names).map(|_| HeaderValue::from_static("include"))
}

/// `POST /conversations/{id}/items`.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    Creation { value: body, key }: Creation<CreateItems>,
) -> Result<Response, ApiError> {
    let items = read(&body.items)?;
    if items.is_empty() {
        return Err(ApiError::field("/items", "must have at least one item"));
    }
    let thread = named(&app, &asker, &id).await?;
    let key = match asker.own_key(key) {
        Some(key) => Some(key.of_attempt(&app, asker.caller()).await?),
        None => None,
    };
    let (body, replayed) = add(&thread, &items, key.as_ref()).await?;
    let text = match body {
        Value::String(text) => text,
        json => json.to_string(),
    };
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    Ok(with_ignored(respond((headers, text), replayed), ignored(query.as_deref())))
}

/// The parameters of a list.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Page {
    limit: Option<u8>,
    after: Option<String>,
    order: Option<String>,
}

/// `GET /conversations/{id}/items`: the messages, newest first unless the order is said.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(id): Path<String>,
    Query(page): Query<Page>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let limit = page.limit.unwrap_or(20);
    if !(1..=100).contains(&limit) {
        return Err(ApiError::parameter("limit", "must be 1 to 100"));
    }
    let ascending = match page.order.as_deref() {
        None | Some("desc") => false,
        Some("asc") => true,
        Some(_) => return Err(ApiError::parameter("order", "must be `asc` or `desc`")),
    };
    let thread = named(&app, &asker, &id).await?;
    let after = match page.after {
        None => None,
        Some(after) => {
            let unknown = || ApiError::parameter("after", "is no item of this conversation");
            let found = message(&thread, &after).await?.ok_or_else(unknown)?;
            Some(found.message.seq)
        }
    };
    let wanted = ItemPage { ascending, after, limit: i64::from(limit) + 1 };
    let mut messages = thread.app.store(thread.caller).thread_items(thread.path.id, wanted).await?;
    let has_more = messages.len() > usize::from(limit);
    messages.truncate(usize::from(limit));
    let items = messages.into_iter().map(item).collect();
    let list = List::new(items, has_more, |item: &Item| item.id().to_owned());
    Ok(with_ignored(Json(list).into_response(), ignored(query.as_deref())))
}

/// The message of an item's id, if it is one of the thread.
async fn message(thread: &Thread, item: &str) -> Result<Option<ThreadMessage>, ApiError> {
    let Some(id) = message_of(item) else { return Ok(None) };
    match thread.app.store(thread.caller).message(id).await {
        Ok(message) => Ok(Some(message).filter(|message| message.agentable == thread.path.id)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn message_of(item: &str) -> Option<MessageId> {
    let (_, digits) = item.rsplit_once('_')?;
    (digits.len() == 32).then(|| Uuid::try_parse(digits).ok()).flatten().map(MessageId)
}

/// `GET /conversations/{id}/items/{item}`.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path((id, wanted)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let thread = named(&app, &asker, &id).await?;
    let found = message(&thread, &wanted).await?.ok_or(NOT_FOUND)?.message;
    if found.metadata[FIELD]["removed"] == true {
        return Err(NOT_FOUND);
    }
    let found = ThreadItem {
        id: found.id,
        seq: found.seq,
        source: found.source,
        message_type: found.message_type,
        content: found.content,
        metadata: found.metadata,
    };
    Ok(Json(item(found)).into_response())
}

/// `DELETE /conversations/{id}/items/{item}`.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path((id, wanted)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    check_text("", &wanted)?;
    let thread = named(&app, &asker, &id).await?;
    let removed = thread.app.store(thread.caller);
    let removed = removed.remove_client_item(thread.path.id, message_of(&wanted).ok_or(NOT_FOUND)?).await?;
    match removed {
        Removed::Yes => object(&thread).await,
        Removed::OfRun => {
            let reason = "was said in a response: what the agent has read and said cannot be taken out in parts. Items that were added \
                          by `POST /conversations/{id}/items` can";
            Err(ApiError::field("/item_id", reason))
        }
    }
}

/// A message as an item. Calls of tools are described by text, as in the thread.
fn item(message: ThreadItem) -> Item {
    if let Some(added) = StoredItem::write(message.id, &message.content, &message.metadata) {
        return Item::Added(added);
    }
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
