//! `/compat/openai/v1/conversations`: conversations are threads, and `…/{id}/items` their messages. What a client adds to them is
//! read by the agent with the next message; it starts no run.

use std::collections::BTreeMap;

use axum::extract::{Path, RawQuery};
use axum::http::{HeaderValue, header};
use houston_domain::agentable::AgentType;
use houston_domain::id::{MessageId, RunId};
use houston_domain::message::{Message, Source};
use houston_protocol::openai::request::{ChangeConversation, CreateConversation, CreateItems};
use houston_protocol::openai::response::list;
use houston_protocol::openai::stored_item::{FIELD, StoredItem};
use houston_store::conversation::client_items::{ClientMetadata, ItemPage, NewItem, Removed};
use houston_store::erasure::Target;
use houston_store::rate::Whose;
use serde_json::{Value, json};

use super::begin::{Named, check_metadata, thread, with_ignored};
use super::id::{agentable_of, conversation_id};
use crate::dialects::threads::{Asker, Thread, find};
use crate::request::auth::uuid_of;
use crate::request::idempotency::{respond, text_of};
use crate::request::prelude::*;
use crate::request::rates::ask;
use crate::resources::erasures;

const NOT_FOUND: ApiError = ApiError::NotFound("conversation");

/// `POST /conversations`.
pub(super) async fn create(
    asker: Asker,
    OptionalBody(creation): OptionalBody<CreateConversation>,
) -> Result<Response> {
    let body = creation.value;
    check_metadata(&body.metadata)?;
    let items = read(&body.items)?;
    let model = body.model.as_deref().or(body.metadata.get("model").map(String::as_str));
    let types = Arc::clone(&asker.ctx.state.agent_types);
    let model = model.map_or_else(|| usual_kind(&types), Ok)?;
    let in_metadata = body.metadata.get("user").map(String::as_str);
    let mut asker = asker;
    for (pointer, user) in [
        ("/safety_identifier", body.safety_identifier.as_deref()),
        ("/user", body.user.as_deref()),
        ("/metadata/user", in_metadata),
    ] {
        asker = asker.for_user((pointer, user)).await?;
    }
    let key = asker.own_key(creation.key).await?;
    let thread = thread(&asker, model, Named::New, key.as_ref()).await?;
    let store = || thread.ctx.store();
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
fn usual_kind(types: &BTreeMap<String, AgentType>) -> Result<&str> {
    let usable = || types.values().filter(|kind| kind.conversational && kind.user_creatable());
    let usual = usable().find(|kind| kind.titles).or_else(|| usable().next());
    let missing =
        || ApiError::field("/model", "is missing, and there is no kind whose conversations clients create");
    usual.map(|kind| kind.kind.as_str()).ok_or_else(missing)
}

async fn object(thread: &Thread) -> Result<Response> {
    let ClientMetadata { created_at, metadata } = thread.ctx.store().client_metadata(thread.path.id).await?;
    let (id, created_at) = (conversation_id(&thread.path.public_id()), created_at.timestamp());
    let object = json!({"id": id, "object": "conversation", "created_at": created_at, "metadata": metadata});
    Ok(Json(object).into_response())
}

/// The thread of a conversation's id.
async fn named(asker: &Asker, id: &str) -> Result<Thread> {
    let public_id = agentable_of(id).ok_or(NOT_FOUND)?;
    let (kind, _) = public_id.rsplit_once('_').ok_or(NOT_FOUND)?;
    match find(asker, kind, ("/id", public_id)).await {
        Ok(found) => {
            let thread = found.ok_or(NOT_FOUND)?;
            // Houston's own ids are taken as they are.
            let agentable = thread.ctx.store().agentable(&thread.path.kind, thread.path.id).await;
            if_found(agentable)?.ok_or(NOT_FOUND)?;
            Ok(thread)
        }
        Err(ApiError::NotFound(_) | ApiError::InvalidRequest(_)) => Err(NOT_FOUND),
        Err(error) => Err(error),
    }
}

/// `GET /conversations/{id}`.
pub(super) async fn get(asker: Asker, Path(id): Path<String>) -> Result<Response> {
    object(&named(&asker, &id).await?).await
}

/// `POST /conversations/{id}`.
pub(super) async fn change(
    asker: Asker,
    Path(id): Path<String>,
    Creation { value: body, .. }: Creation<ChangeConversation>,
) -> Result<Response> {
    check_metadata(&body.metadata)?;
    let thread = named(&asker, &id).await?;
    thread.ctx.store().set_client_metadata(thread.path.id, &body.metadata).await?;
    object(&thread).await
}

/// `DELETE /conversations/{id}`.
pub(super) async fn delete(asker: Asker, Path(id): Path<String>) -> Result<Response> {
    let Thread { ctx, path } = named(&asker, &id).await?;
    erasures::request(&ctx, Target::Agentable(&path.kind, path.id)).await?;
    Ok(Json(json!({"id": id, "object": "conversation.deleted", "deleted": true})).into_response())
}

/// The most items of one request.
const MAX_ITEMS: usize = 20;

const NO_ITEM: ApiError = ApiError::NotFound("item");

/// Reads the items of a request.
///
/// # Errors
/// [`ApiError::InvalidRequest`] at the first that is none.
fn read(items: &[Value]) -> Result<Vec<StoredItem>> {
    if items.len() > MAX_ITEMS {
        return Err(ApiError::field("/items", format!("must have at most {MAX_ITEMS} items")));
    }
    let read = |(nth, item): (usize, &Value)| {
        let at = format!("/items/{nth}");
        check_storable_value(&at, item)?;
        Ok(StoredItem::read(item).map_err(|wrong| wrong.below(&at))?)
    };
    items.iter().enumerate().map(read).collect()
}

/// Adds items to a thread. Returns the body of the response, and whether they were added before.
///
/// # Errors
/// That a run is open, or the store's.
async fn add(thread: &Thread, items: &[StoredItem], key: Option<&Key>) -> Result<(Value, bool)> {
    let Thread { ctx, path } = thread;
    ask(ctx, Whose::Agentable(path.id), key).await?;
    let run: RunId = ctx.state.ids.beside(path.id);
    let mut ids: Vec<MessageId> = items.iter().map(|_| ctx.state.ids.beside(path.id)).collect();
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
    let written =
        |item: &NewItem<'_>| StoredItem::write(item.id, item.content, &json!({FIELD: {"role": item.role}}));
    let written: Vec<Value> = new.iter().filter_map(written).collect();
    let body = stored_body(&list(&written, false));
    let done = ctx.store().add_client_items(path.id, (run, &new), (key.map(Key::as_stored), &body)).await?;
    unless_key_reused(done)
}

/// The header for what a client wants to have besides (`include`), if it does: items have what they have.
fn ignored(query: Option<&str>) -> Option<HeaderValue> {
    let names = |pair: &&str| pair.starts_with("include");
    query?.split('&').find(names).map(|_| HeaderValue::from_static("include"))
}

/// `POST /conversations/{id}/items`.
pub(super) async fn create_items(
    asker: Asker,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    Creation { value: body, key }: Creation<CreateItems>,
) -> Result<Response> {
    let items = read(&body.items)?;
    ensure!(!items.is_empty(), ApiError::field("/items", "must have at least one item"));
    let thread = named(&asker, &id).await?;
    let key = asker.own_key(key).await?;
    let (body, replayed) = add(&thread, &items, key.as_ref()).await?;
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok(with_ignored(respond((headers, text_of(body)), replayed), ignored(query.as_deref())))
}

/// The parameters of a list.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ItemsQuery {
    limit: Option<u8>,
    after: Option<String>,
    order: Option<String>,
}

/// `GET /conversations/{id}/items`: the messages, newest first unless the order is said.
pub(super) async fn list_items(
    asker: Asker,
    Path(id): Path<String>,
    Query(page): Query<ItemsQuery>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let limit = page.limit.unwrap_or(20);
    ensure!((1..=100).contains(&limit), ApiError::parameter("limit", "must be 1 to 100"));
    let ascending = match page.order.as_deref() {
        None | Some("desc") => false,
        Some("asc") => true,
        Some(_) => return Err(ApiError::parameter("order", "must be `asc` or `desc`")),
    };
    let thread = named(&asker, &id).await?;
    let after = match page.after {
        None => None,
        Some(after) => {
            let unknown = || ApiError::parameter("after", "is no item of this conversation");
            let found = message(&thread, &after).await?.ok_or_else(unknown)?;
            Some(found.seq)
        }
    };
    let wanted = ItemPage { ascending, after, limit: i64::from(limit) + 1 };
    let mut messages = thread.ctx.store().thread_items(thread.path.id, wanted).await?;
    let has_more = messages.len() > usize::from(limit);
    messages.truncate(usize::from(limit));
    let items = messages.iter().map(|it| item(it.id, it.source, &it.content, &it.metadata));
    let items: Vec<Value> = items.collect();
    Ok(with_ignored(Json(list(&items, has_more)).into_response(), ignored(query.as_deref())))
}

/// The message of an item's id, if it is one of the thread.
async fn message(thread: &Thread, item: &str) -> Result<Option<Message>> {
    let Some(id) = uuid_of(item) else { return Ok(None) };
    let found = if_found(thread.ctx.store().message(MessageId(id)).await)?;
    Ok(found.filter(|message| message.owner.id == thread.path.id))
}

/// `GET /conversations/{id}/items/{item}`.
pub(super) async fn get_item(asker: Asker, Path((id, wanted)): Path<(String, String)>) -> Result<Response> {
    let thread = named(&asker, &id).await?;
    let found = message(&thread, &wanted).await?.ok_or(NO_ITEM)?;
    ensure!(found.metadata[FIELD]["removed"] != true, NO_ITEM);
    Ok(Json(item(found.id, found.source, &found.content, &found.metadata)).into_response())
}

/// `DELETE /conversations/{id}/items/{item}`.
pub(super) async fn delete_item(
    asker: Asker,
    Path((id, wanted)): Path<(String, String)>,
) -> Result<Response> {
    check_text("", &wanted)?;
    let thread = named(&asker, &id).await?;
    let item = MessageId(uuid_of(&wanted).ok_or(NO_ITEM)?);
    match thread.ctx.store().remove_client_item(thread.path.id, item).await? {
        Removed::Yes => object(&thread).await,
        Removed::OfRun => {
            let reason = "was said in a response: what the agent has read and said cannot be taken out in parts. Items that were added \
                          by `POST /conversations/{id}/items` can";
            Err(ApiError::field("/item_id", reason))
        }
    }
}

/// A message as an item. Calls of tools are described by text, as in the thread.
fn item(id: MessageId, source: Source, text: &str, metadata: &Value) -> Value {
    StoredItem::write(id, text, metadata).unwrap_or_else(|| match source {
        Source::User => StoredItem::message(id, "user", text),
        Source::System => StoredItem::message(id, "system", text),
        Source::Agent | Source::Error => StoredItem::message(id, "assistant", text),
    })
}
