//! `/compat/openai/v1/responses`: responses are runs. By its id, [`Found`] says whose one is, what it is, and where
//! its stream goes on.

use axum::http::{HeaderValue, header};
use houston_domain::event::{Committed, Event as Durable};
use houston_domain::id::shard;
use houston_domain::message::Source;
use houston_domain::run::{Run, RunStatus};
use houston_protocol::openai::input::Input;
use houston_protocol::openai::parameters::Endpoint;
use houston_protocol::openai::request::CreateResponse;
use houston_protocol::openai::response::{Status, list};
use houston_protocol::openai::stored_item::StoredItem;
use serde_json::Value;
use tokio::time::Instant;

use super::begin::{Begun, Named, begin, check, check_metadata, ignored, thread_for, with_ignored};
use super::id::ResponseId;
use super::offer;
use super::replay::{Next, Replay, Said};
use super::stream::{Place, ResponseEvents, Waiting};
use super::translate::Translator;
use crate::dialects::threads::Asker;
use crate::events::cursor::Needed;
use crate::events::position::Position;
use crate::events::stream::PAGE;
use crate::events::{Options, open_as};
use crate::request::idempotency::respond;
use crate::request::prelude::*;

/// `POST /responses`.
pub(super) async fn create(asker: Asker, request: WithImages<CreateResponse>) -> Result<Response> {
    let WithImages { creation: Creation { value: body, key }, permit: _permit } = request;
    let ignored = ignored(Endpoint::Responses, &body.others)?;
    let mut input = read(&body)?;
    let named = match (&body.conversation, &body.previous_response_id) {
        (Some(_), Some(_)) => {
            let reason = "cannot be combined with `conversation`";
            return Err(ApiError::field("/previous_response_id", reason));
        }
        (Some(conversation), None) => Named::Conversation("/conversation", conversation.id()),
        (None, Some(previous)) => Named::After(previous),
        (None, None) => Named::nothing(&input),
    };
    let is_new = matches!(named, Named::New);
    let offer = offer::read(Endpoint::Responses, &body.tools, &body.others, &input.instructions)?;
    let asker = asker.for_user(("/safety_identifier", body.safety_identifier.as_deref())).await?;
    let asker = asker.for_user(("/user", body.user.as_deref())).await?;
    let key = asker.own_key(key).await?;
    if body.stream || !body.background {
        asker.ctx.streams.reserve(asker.caller())?;
    }
    let for_offer = (Endpoint::Responses, &offer);
    let thread = thread_for(&asker, &body.model, named, key.as_ref(), for_offer).await?;
    let said = Said {
        model: body.model,
        previous: body.previous_response_id,
        background: body.background,
        metadata: body.metadata,
        functions: Vec::new(),
    };
    if is_new {
        input.tell_earlier();
    }
    let begun = begin(thread, input, ("/input", said), &offer, key.as_ref()).await?;
    let replayed = begun.replayed;
    let response = if body.stream {
        streamed(begun).await?
    } else if body.background {
        Json(begun.translator.response()).into_response()
    } else {
        awaited(begun).await?
    };
    Ok(with_ignored(respond(response, replayed), ignored))
}

fn read(body: &CreateResponse) -> Result<Input> {
    check_metadata(&body.metadata)?;
    let mut input = Input::of_response(&body.input).map_err(|invalid| invalid.below("/input"))?;
    match &body.instructions {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => input.instructions.insert(0, text.clone()),
        Some(_) => return Err(ApiError::field("/instructions", "must be a text")),
    }
    check(&input, "/input")?;
    Ok(input)
}

async fn streamed(begun: Begun) -> Result<Response> {
    let Begun { thread, translator, base, at, .. } = begun;
    let url = url(&translator);
    let events = ResponseEvents::new(translator, base, 0);
    thread.open(Some(at), &Options::with_interrupts(), (events, |_| url)).await
}

fn url(translator: &Translator) -> String {
    format!("{}/responses/{}?stream=true", super::BASE, translator.head.id)
}

/// The response when it is over, or after the longest time. Nothing is held meanwhile but a stream.
async fn awaited(begun: Begun) -> Result<Response> {
    let Begun { thread, translator, at, .. } = begun;
    let until = Instant::now() + thread.ctx.state.config.wait();
    let url = url(&translator);
    let waiting = (Waiting { translator, until, is_written: false }, |_| url);
    let mut response = thread.open(Some(at), &Options::with_interrupts(), waiting).await?;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The parameters of `GET /responses/{id}`; the others say what a client wants to have besides.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Retrieval {
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    starting_after: u64,
}

/// `GET /responses/{id}`: the response, or its events after `starting_after`.
pub(super) async fn get(
    ctx: Ctx,
    Id(id): Id<ResponseId>,
    Query(query): Query<Retrieval>,
) -> Result<Response> {
    let found = Found::new(&ctx, id).await?;
    if !query.stream {
        return Ok(Json(found.read().await?.response()).into_response());
    }
    let (mut events, at) = found.resume(query.starting_after).await?;
    if events.translator.is_over() {
        let headers = [(header::CONTENT_TYPE, "text/event-stream")];
        return Ok((headers, events.take_missing()).into_response());
    }
    let Found { ctx, path, .. } = found;
    let url = url(&events.translator);
    open_as(ctx, path, Some(at), &Options::with_interrupts(), (events, |_| url)).await
}

/// `POST /responses/{id}/cancel`.
pub(super) async fn cancel(ctx: Ctx, Id(id): Id<ResponseId>) -> Result<Response> {
    let found = Found::new(&ctx, id).await?;
    let is_asked = found.ctx.cancel_run(id.run).await?;
    let mut translator = found.read().await?;
    if is_asked && !translator.is_over() {
        // Nothing stops it any more.
        translator.status = Status::Cancelled;
    } else if !is_asked && found.run.status != RunStatus::Cancelled {
        return Err(ApiError::InvalidState(found.run.status));
    }
    Ok(Json(translator.response()).into_response())
}

/// `DELETE /responses/{id}`: the model reads the whole thread, so a part of it cannot be taken out.
pub(super) async fn delete(ctx: Ctx, Id(id): Id<ResponseId>) -> Result<Response> {
    Found::new(&ctx, id).await?;
    let reason =
        "a response cannot be deleted by itself, only its conversation: `DELETE /conversations/{id}`";
    Err(ApiError::field("", reason))
}

/// `GET /responses/{id}/input_items`.
pub(super) async fn input_items(ctx: Ctx, Id(id): Id<ResponseId>) -> Result<Response> {
    let found = Found::new(&ctx, id).await?;
    let items = found.input().await?.into_iter().filter_map(|event| {
        let (id, body) = (event.event.message_id()?, event.body?);
        let role = if body.source == Source::User { "user" } else { "system" };
        Some(StoredItem::message(id, role, &body.content))
    });
    Ok(Json(list(&items.collect::<Vec<_>>(), false)).into_response())
}

const NOT_FOUND: ApiError = ApiError::NotFound("response");

/// A response of the caller's tenant. Whose it is besides was checked by the route, or is by its thread.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) ctx: Ctx,
    pub(super) path: AgentablePath,
    pub(super) run: Run,
    id: ResponseId,
}

impl Found {
    /// Reads the run of a response.
    ///
    /// # Errors
    /// [`ApiError::NotFound`], or the store's errors.
    pub(super) async fn new(ctx: &Ctx, id: ResponseId) -> Result<Self> {
        let ctx = ctx.with_shard(shard(id.run));
        let run = if_found(ctx.store().run(id.run).await)?.ok_or(NOT_FOUND)?;
        let path = AgentablePath::of_kind(&ctx.state.agent_types, &run.owner.kind, run.owner.id);
        let path = path.ok_or(NOT_FOUND)?;
        Ok(Self { ctx, path, run, id })
    }

    /// The position before the first event of the run.
    fn base(&self) -> i64 {
        self.run.first_seq - 1
    }

    /// The response as it is.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when the run has not waited there, or the store's errors.
    pub(super) async fn read(&self) -> Result<Translator> {
        Ok(self.replay(None).await?.translator)
    }

    /// The stream after the event with this number, and where it goes on.
    pub(super) async fn resume(&self, number: u64) -> Result<(ResponseEvents, Position)> {
        let mut place = Place::of(number);
        if place.at.seq <= self.id.after {
            place = Place { at: Position::after(self.id.after), follow: 0, voided: 0 };
        }
        let events = self.replay(Some((number, place))).await?;
        Ok((events, Position { seq: place.at.seq + self.base(), ..place.at }))
    }

    /// Reads the events of the response: all of them, or those that the client has.
    async fn replay(&self, has: Option<(u64, Place)>) -> Result<ResponseEvents> {
        let store = || self.ctx.store();
        let (thread, mut seq) = (self.path.public_id(), self.base());
        let mut replay = Replay::new((&thread, &self.path.kind), self.id, seq, has);
        loop {
            let page = store().events_after(self.path.id, seq, PAGE).await?;
            for (nth, event) in page.iter().enumerate() {
                let mut needed = Needed::default();
                if replay.needs_questions(event) {
                    needed.questions = store().questions_at_wait(self.path.id, event.seq).await?;
                }
                match replay.step(&page[nth..], &needed) {
                    Next::More => {}
                    Next::Missing => return Err(NOT_FOUND),
                    Next::Over => return replay.finish().ok_or(NOT_FOUND),
                    Next::Reached => {
                        let iteration = store().open_iteration_at(self.path.id, event.seq - 1).await?;
                        return replay.up_to(event, iteration, &needed).ok_or(NOT_FOUND);
                    }
                }
                seq = event.seq;
            }
            if i64::try_from(page.len()).is_ok_and(|read| read < PAGE) {
                return replay.finish().ok_or(NOT_FOUND);
            }
        }
    }

    /// The messages that were posted to the response.
    pub(super) async fn input(&self) -> Result<Vec<Committed>> {
        let from = self.base() + self.id.after;
        let events = self.ctx.store().events_after(self.path.id, from, PAGE).await?;
        let of_run = events.into_iter().take_while(|event| event.run_id == self.run.id);
        Ok(of_run.filter(|event| matches!(event.event, Durable::MessagePosted { .. })).collect())
    }
}
