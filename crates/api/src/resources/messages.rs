//! Messages of a thread, what users and agents write to each other: reading them, and posting one with its images and files.
//!
//! `POST /v1/{kinds}/{id}/messages`: commits the message, then publishes its events to open streams and sends a hint to
//! workers, without waiting for either, and responds. A lost hint costs seconds, because the sweep finds the message.
//! If the commit also started the run on a worker of this process ([`houston_store::direct_start`]), that worker publishes
//! the events, and no hint is needed.
//!
//! `double_texting` is what the message does to an open run; without it the setting of the agent type applies:
//! - `enqueue`: the run reads the message at its next step.
//! - `interrupt`: the run is cancelled, and the message opens the next one. What the run did stays; messages it had
//!   not read yet are cancelled with it.
//! - `reject`: 409 `run_in_progress`, and nothing is stored, not even the idempotency key.
//! - `rollback`: like `interrupt`, and the run is removed from what the model reads. Its messages stay in the thread
//!   with `"rolled_back": true` in their metadata. What its tools did (notes, learnings, mails, …) is not undone.
//!
//! `run_id` of the response is the run that will answer the message: the one that is open now, or if that is being cancelled the one
//! that opens when it has ended ([`RunId::successor`](houston_domain::id::RunId::successor)). `GET /v1/runs/{id}` knows it until then
//! as queued.

use std::collections::HashMap;
use std::convert::identity as response;
use std::io;
use std::time::Duration;

use axum::http::header;
use futures_util::future::try_join_all;
use houston_domain::agentable::{DoubleTexting, Urgency};
use houston_domain::attachment::{self, reference};
use houston_domain::client_offer::ClientOffer;
use houston_domain::event::Live;
use houston_domain::id::{AttachmentId, ImageId, MessageId};
use houston_domain::image::{self, ImageHeader, MAX_IMAGE_BYTES, from_base64};
use houston_domain::message::{
    MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, Message, MessageStatus, MessageType, Source,
};
use houston_protocol::message::{AcceptedMessageResponse, CreateMessage, MessageImage};
use houston_store::image::NewImage;
use houston_store::message::{NewPost, Posted};
use houston_store::rate::Whose;
use houston_web::{Client, ContentTypes, Limits, Request, Tls};
use serde_json::{Map, Value};

use crate::admission;
use crate::request::agentable_path::Owner;
use crate::request::checks::check_storable;
use crate::request::idempotency::respond;
use crate::request::prelude::*;
use crate::request::rates::ask;
use crate::request::request_trace::Posting;
use crate::resources::models::sampling;
use crate::state::documents::DocumentPermit;

endpoints! {
    get "/v1/messages/{id}" for ROW => async |ctx: Ctx, Id(id): Id<MessageId>| found(ctx.store().message(id).await),
    "get_message" in "messages": "Get a message and its status.",
    200 "The message." [houston_domain::message::Message];

    get "/v1/{kinds}/{id}/messages" for AGENTABLE => list,
    "list_messages" in "messages": "List the messages of a thread, newest first.",
    params(
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; `server.thread_messages` (50) by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page."),
    ),
    200 "A page of messages." [Page<houston_domain::message::Message>];

    post "/v1/{kinds}/{id}/messages" for AGENTABLE => post,
    "create_message" in "messages": "Post a message: it is stored, and a run is queued or the open run reads it.",
    params(Keyed),
    body [CreateMessage],
    202 "The message is stored, and a run is queued or open." [AcceptedMessageResponse],
    409 "`run_in_progress`: a run is open and `double_texting` is `reject`.",
    429 "`rate_limited`: the user sends too many requests. `too_many_pending`: the user has too many unread messages.";
}

async fn list(ctx: Ctx, path: AgentablePath, query: PageQuery) -> Result<impl IntoResponse> {
    let usual = ctx.state.config.thread_messages;
    let (limit, before) = (query.limit_or(usual)?, query.position(List::Messages)?);
    ctx.confirm(&path).await?;
    let messages = ctx.store().messages(path.id, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Messages, limit, messages, |row| row.seq, response)))
}

async fn post(ctx: Ctx, path: AgentablePath, request: WithImages<CreateMessage>) -> Result<Response> {
    let WithImages { creation: Creation { value: body, key }, permit: _permit } = request;
    ensure!(path.conversational, ApiError::NotFound("conversation"));
    let has_files = !(body.images.is_empty() && body.attachments.is_empty());
    check_content("/content", &body.content, has_files)?;
    check_metadata("/metadata", &body.metadata)?;
    let offer = ClientOffer {
        focus: body.context,
        output: body.output,
        sampling: body.sampling,
        limits: body.limits,
        model_policy: body.model_policy,
        ..ClientOffer::default()
    };
    check_offer(&offer)?;
    sampling::check(&ctx, &path, &offer.sampling, |setting| format!("/sampling/{setting}")).await?;
    if !body.images.is_empty() {
        // Before images are fetched and stored.
        ask(&ctx, Whose::Agentable(path.id), key.as_ref()).await?;
    }
    let mut content = with_images(&ctx, &path, "/images", (body.content, &body.images), key.as_ref()).await?;
    content = with_attachments(&ctx, &path, (content, &body.attachments), key.as_ref()).await?;
    let mut post = new_post(&ctx, &path, content, Value::Object(body.metadata), body.double_texting);
    let offer = Some(&offer).filter(|offer| !offer.is_empty());
    let (posted, replayed) = store_offering(&ctx, &path, &mut post, offer, key.as_ref()).await?;
    if replayed && has_files {
        // An address may have another image now, and a file another name.
        post.content = ctx.store().message(posted.id).await?.content;
    }
    let location = [(header::LOCATION, format!("/v1/messages/{}", posted.id))];
    let body = accepted(&path, &posted, post);
    Ok(respond((StatusCode::ACCEPTED, location, Json(body)), replayed))
}

/// A message that was checked, for the agentable of `path`. `double_texting`: what it does to an open run; `None`: what its kind
/// says.
pub(crate) fn new_post(
    app: &App,
    path: &AgentablePath,
    content: String,
    metadata: Value,
    double_texting: Option<DoubleTexting>,
) -> NewPost {
    let mut post =
        NewPost::new(app.state.ids.beside(path.id), app.state.ids.beside(path.id), content, metadata);
    post.double_texting = double_texting.unwrap_or(path.double_texting);
    post.starts = path.urgency == Urgency::Interactive;
    post
}

/// Stores a message that was checked, with what its client offers the run that answers it, and publishes it; whether it was
/// stored before under the same key.
pub(crate) async fn store_offering(
    ctx: &Ctx,
    path: &AgentablePath,
    post: &mut NewPost,
    offer: Option<&ClientOffer>,
    key: Option<&Key>,
) -> Result<(Posted, bool)> {
    ask(ctx, Whose::Agentable(path.id), key).await?;
    let is_confirmed = ctx.agentables.is_confirmed(ctx.caller.tenant(), &path.kind, path.id);
    // The statement checks it, unless an earlier post has.
    post.kind = (!is_confirmed).then(|| path.kind.clone());
    let posting = Posting::begin(path.urgency);
    post.traceparent.clone_from(&posting.traceparent);
    let key = key.map(Key::as_stored);
    houston_faults::fault!("C1").map_err(houston_store::Error::from)?;
    let created = match offer {
        None => ctx.store().post_message(path.id, post, key).await?,
        Some(offer) => ctx.store().post_message_with_offer(path.id, post, offer, key).await?,
    };
    let (posted, replayed) = unless_key_reused(created)?;
    posting.end(posted.id, posted.run);
    if post.kind.is_some() {
        ctx.agentables.remember(ctx.caller.tenant(), &path.kind, path.id);
    }
    houston_faults::fault!("C3").map_err(houston_store::Error::from)?;
    if !replayed && posted.opened {
        ctx.state.metrics.runs.enqueued(path.urgency.into());
    }
    if !replayed && !posted.is_started {
        ctx.state.bus.publish(path.id, Live::Committed(post.events(&posted)));
        if post.double_texting.cancels() && !posted.opened {
            ctx.publish_cancel(path.id, posted.run);
        }
        if posted.needs_hint {
            ctx.send_hint(path.id, path.urgency);
        }
    }
    houston_faults::fault!("C2").map_err(houston_store::Error::from)?;
    Ok((posted, replayed))
}

/// Checks ranges and sizes, and that Postgres can store its values.
fn check_offer(offer: &ClientOffer) -> Result<()> {
    offer.check(|_| false)?;
    let ClientOffer { focus, output, .. } = offer;
    if let Some(data) = focus.as_ref().and_then(|focus| focus.data.as_ref()) {
        check_storable_value("/context/data", data)?;
    }
    output.as_ref().map_or(Ok(()), |output| check_storable_value("/output/schema", &output.schema))
}

/// `may_be_empty`: there are images.
///
/// # Errors
/// [`ApiError::MessageTooLarge`], [`ApiError::EmptyMessage`], or [`ApiError::InvalidRequest`] when Postgres could not store
/// the text.
pub(crate) fn check_content(pointer: &str, content: &str, may_be_empty: bool) -> Result<()> {
    let bytes = content.len();
    ensure!(bytes <= MAX_MESSAGE_BYTES, ApiError::MessageTooLarge { bytes, limit: MAX_MESSAGE_BYTES });
    if !may_be_empty && content.trim().is_empty() {
        return Err(ApiError::EmptyMessage);
    }
    check_text(pointer, content)
}

/// # Errors
/// [`ApiError::InvalidRequest`] when it is too large, or Postgres could not store it.
pub(crate) fn check_metadata(pointer: &str, metadata: &Map<String, Value>) -> Result<()> {
    // The size first: the next check, and counting all bytes, would take long for large metadata.
    if serde_json::to_writer(AtMost(MAX_METADATA_BYTES), metadata).is_err() {
        let detail = format!("is too large as JSON; at most {MAX_METADATA_BYTES} bytes are allowed");
        return Err(ApiError::field(pointer, detail));
    }
    check_storable(pointer, metadata)
}

/// A writer that counts bytes and fails when there are more than this.
struct AtMost(usize);

impl io::Write for AtMost {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The body of the response; a replay gets the same, whatever the message's status is now.
pub(crate) fn accepted(path: &AgentablePath, posted: &Posted, post: NewPost) -> AcceptedMessageResponse {
    let message = Message {
        result: None,
        id: posted.id,
        owner: Owner { kind: path.kind.clone(), id: path.id },
        source: Source::User,
        message_type: MessageType::Text,
        content: post.content,
        metadata: post.metadata,
        status: Some(MessageStatus::Pending),
        run_id: Some(posted.answered_by),
        seq: posted.seq,
        created_at: Time(posted.created_at),
        processed_at: None,
    };
    AcceptedMessageResponse {
        message,
        events_url: format!("{}/events?after={}", path.url_path(), posted.run_seq - 1),
    }
}

/// What servers say that images are; the bytes decide.
const IMAGE_TYPES: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/gif",
    "application/octet-stream",
    "binary/octet-stream",
];

/// The text of a message with references to its images, which are stored. Without images nothing is done. If the message was
/// posted before under `key`, its text is returned: the images are not fetched again, and may not be there any more.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when an image is not accepted, [`ApiError::Full`] when the user has too many bytes of images,
/// [`ApiError::NotFound`] when there is no such agentable, [`ApiError::MessageTooLarge`], [`ApiError::TooManyDocuments`] when there
/// is no memory for images that are fetched.
pub(crate) async fn with_images(
    ctx: &Ctx,
    path: &AgentablePath,
    pointer: &str,
    (content, images): (String, &[MessageImage]),
    key: Option<&Key>,
) -> Result<String> {
    if images.is_empty() {
        return Ok(content);
    }
    let limits = ctx.state.config.images;
    let most = limits.max_per_message;
    if images.len() > most {
        let why = format!("has {} images; at most {most} are allowed in one message", images.len());
        return Err(ApiError::field(pointer, why));
    }
    if let Some(key) = key
        && let Some(text) = ctx.store().text_posted_before(key.as_stored()).await?
    {
        return Ok(text);
    }
    let user = ctx.store().agentable(&path.kind, path.id).await?.user;
    // Those in the body have their memory already.
    let fetched = images.iter().filter(|image| image.url.is_some()).count();
    let _permit = match fetched * MAX_IMAGE_BYTES {
        0 => None,
        bytes => Some(DocumentPermit::new(&ctx.documents, ctx.caller.tenant(), bytes).await?),
    };
    let read =
        images.iter().enumerate().map(|(nth, image)| read_image(ctx, format!("{pointer}/{nth}"), image));
    let read = try_join_all(read).await?;
    let new: Vec<NewImage<'_>> = read
        .iter()
        .map(|(header, data)| NewImage { id: ImageId::of(user, data), header: *header, data })
        .collect();
    let content = image::with_references(&content, new.iter().map(|image| image.id));
    check_content(pointer, &content, false)?;
    ctx.store().put_images((path.id, user), &new, limits.max_bytes_of_user).await?;
    Ok(content)
}

/// The bytes of an image, and what their header says.
async fn read_image(app: &Arc<App>, pointer: String, image: &MessageImage) -> Result<(ImageHeader, Vec<u8>)> {
    let refused = |why: String| ApiError::field(&pointer, why);
    let bytes = match image {
        MessageImage { data: Some(data), url: None } => {
            let data = data.clone();
            let decoded = app.offload.compute(move || from_base64(&data)).await?;
            decoded.map_err(refused)?
        }
        MessageImage { data: None, url: Some(url) } => fetch_image(app, url).await.map_err(refused)?,
        _ => return Err(refused("needs either `data` (Base64) or `url`".to_owned())),
    };
    let header = ImageHeader::read_whole(&bytes).map_err(refused)?;
    Ok((header, bytes))
}

/// Fetches an image from the public internet.
async fn fetch_image(app: &App, url: &str) -> Result<Vec<u8>, String> {
    let client = match app.images.get() {
        Some(client) => client,
        None => {
            let tls = Tls::system().map_err(|_| "images cannot be fetched: TLS does not start".to_owned())?;
            let limits = Limits {
                whole: Duration::from_secs(app.state.config.images.fetch_timeout_s.max(1)),
                body: MAX_IMAGE_BYTES + 1,
                ..Limits::default()
            };
            app.images.get_or_init(|| Client::guarded(tls).limits(limits).build())
        }
    };
    let mut request = Request::get(url);
    request.accepts = ContentTypes::TextAnd(IMAGE_TYPES);
    let response = admission::without_place(client.send(request)).await;
    let response = response.map_err(|error| format!("cannot be fetched: {error}"))?;
    if !response.status.is_success() {
        return Err(format!("cannot be fetched: its server answered {}", response.status));
    }
    Ok(response.body.to_vec())
}

/// The text of a message with references to its files. Without files nothing is done. If the message was posted before under
/// `key`, its text is returned: the files may not be there any more.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when the user has no such file, or there are too many, [`ApiError::NotFound`] when there is no
/// such agentable, [`ApiError::MessageTooLarge`].
async fn with_attachments(
    ctx: &Ctx,
    path: &AgentablePath,
    (content, ids): (String, &[AttachmentId]),
    key: Option<&Key>,
) -> Result<String> {
    if ids.is_empty() {
        return Ok(content);
    }
    let most = ctx.state.config.attachments.max_per_message;
    if ids.len() > most {
        let why = format!("has {} files; at most {most} are allowed in one message", ids.len());
        return Err(ApiError::field("/attachments", why));
    }
    if let Some(key) = key
        && let Some(text) = ctx.store().text_posted_before(key.as_stored()).await?
    {
        return Ok(text);
    }
    ctx.confirm(path).await?;
    let used = ctx.store().use_attachments(path.id, ids).await?;
    let used: HashMap<AttachmentId, String> =
        used.into_iter().map(|file| (file.id, reference(file.id, &file.name, file.kind))).collect();
    let mut lines = Vec::with_capacity(ids.len());
    for (nth, id) in ids.iter().enumerate() {
        let Some(line) = used.get(id) else {
            let why = "the user has no such file; post it to /v1/users/{id}/attachments first";
            return Err(ApiError::field(&format!("/attachments/{nth}"), why));
        };
        lines.push(line.clone());
    }
    let content = attachment::with_references(&content, lines);
    check_content("/content", &content, false)?;
    Ok(content)
}
