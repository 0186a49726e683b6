//! Begins a response: finds the thread, posts or answers, and says where its stream begins.

use std::collections::BTreeMap;

use axum::http::{HeaderName, HeaderValue};
use houston_domain::agentable::DoubleTexting;
use houston_domain::client_offer::ClientOffer;
use houston_domain::id::{RunId, shard};
use houston_domain::run::RunStatus;
use houston_protocol::openai::input::Input;
use houston_protocol::openai::parameters::{Endpoint, IGNORED_HEADER, judge};
use houston_store::client_thread::ThreadTarget;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::answers::checked;
use super::id::{ResponseId, agentable_of, question_of};
use super::offer::parameter;
use super::replay::Said;
use super::responses::Found;
use super::translate::Translator;
use crate::dialects::threads::{Asker, NewMessage, Thread, find, find_or_create};
use crate::events::position::Position;
use crate::request::prelude::*;
use crate::resources::messages::check_content;
use crate::resources::models::sampling;

/// What a request says of the thread.
#[derive(Debug, Clone, Copy)]
pub(super) enum Named<'r> {
    /// Nothing: it is a new one.
    New,
    /// The conversation, by its id or the client's own name. The pointer says where.
    Conversation(&'r str, &'r str),
    /// The response before.
    After(&'r str),
    /// What is answered: an `approval_request_id` or a `call_id`.
    Asked(&'r str),
}

impl<'r> Named<'r> {
    /// For a client that remembers everything itself: the answers name the thread.
    pub(super) fn nothing(input: &'r Input) -> Self {
        input.answers.first().map_or(Self::New, |answer| Self::Asked(&answer.to))
    }
}

/// The most pairs of `metadata`, and the most characters of a name and of a value.
const METADATA: (usize, usize, usize) = (16, 64, 512);

/// Checks `metadata` as OpenAI does.
///
/// # Errors
/// [`ApiError::InvalidRequest`].
pub(super) fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<()> {
    let (pairs, name, value) = METADATA;
    let fits = |(n, v): (&String, &String)| {
        n.chars().count() <= name && v.chars().count() <= value && !n.contains('\0') && !v.contains('\0')
    };
    if metadata.len() <= pairs && metadata.iter().all(fits) {
        return Ok(());
    }
    let allowed =
        format!("must have at most {pairs} pairs, names of {name} and values of {value} characters");
    Err(ApiError::field("/metadata", allowed))
}

/// A response that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) thread: Thread,
    pub(super) translator: Translator,
    /// The position before the first event of the run.
    pub(super) base: i64,
    pub(super) at: Position,
    /// Whether an earlier request with the same key has begun it.
    pub(super) replayed: bool,
}

/// The kind or agent of a `model`.
pub(super) fn target(model: &str) -> &str {
    model.strip_prefix("agent/").unwrap_or(model)
}

fn says_something(input: &Input) -> bool {
    !input.text.trim().is_empty() || !input.images.is_empty()
}

/// Judges the parameters that Houston does not read. Returns the header that names those without effect, if there are any.
///
/// # Errors
/// [`ApiError::InvalidRequest`] for the first that would change the answer, or that the endpoint does not have.
pub(super) fn ignored(endpoint: Endpoint, others: &Map<String, Value>) -> Result<Option<HeaderValue>> {
    let ignored = judge(endpoint, others)?;
    // Names of the table, which are ASCII.
    Ok((!ignored.is_empty()).then(|| HeaderValue::from_str(&ignored.join(", "))).and_then(Result::ok))
}

/// The response, with that header.
pub(super) fn with_ignored(mut response: Response, ignored: Option<HeaderValue>) -> Response {
    if let Some(ignored) = ignored {
        response.headers_mut().insert(HeaderName::from_static(IGNORED_HEADER), ignored);
    }
    response
}

/// Checks an input before a thread is made for it.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when it says nothing, [`ApiError::MessageTooLarge`], or that its text cannot be stored.
pub(super) fn check(input: &Input, pointer: &str) -> Result<()> {
    if says_something(input) {
        return check_content(&format!("{pointer}{}", input.at), &input.text, !input.images.is_empty());
    }
    if input.answers.is_empty() {
        let reason = "has nothing new from the user: no text, no image and no answer";
        return Err(ApiError::field(pointer, reason));
    }
    Ok(())
}

/// Finds the thread of a request that is to be answered, whose model must be able to do what is offered.
///
/// # Errors
/// Those of [`thread`]; [`ApiError::InvalidRequest`] at a setting that the model does not have.
pub(super) async fn thread_for(
    asker: &Asker,
    model: &str,
    named: Named<'_>,
    key: Option<&Key>,
    (endpoint, offer): (Endpoint, &ClientOffer),
) -> Result<Thread> {
    let at = |setting: &str| parameter(endpoint, setting);
    let is_new = matches!(named, Named::New);
    if is_new {
        // Before a thread is made that would stay empty.
        sampling::check_target(&asker.ctx, target(model), &offer.sampling, at).await?;
    }
    let thread = thread(asker, model, named, key).await?;
    if !is_new {
        sampling::check(&thread.ctx, &thread.path, &offer.sampling, at).await?;
    }
    Ok(thread)
}

/// Finds the thread that a request names.
///
/// # Errors
/// Those of [`find_or_create`]; [`ApiError::InvalidRequest`] when the conversation has gone on after the response that is named.
pub(super) async fn thread(
    asker: &Asker,
    model: &str,
    named: Named<'_>,
    key: Option<&Key>,
) -> Result<Thread> {
    let target = target(model);
    match named {
        Named::New => {
            // A request that is repeated finds the thread that it has created.
            let name = match key {
                Some(key) => format!("request {:x}", Sha256::digest(key.as_stored().key)),
                None => format!("request {}", asker.ctx.state.ids.next::<uuid::Uuid>().simple()),
            };
            find_or_create(asker, target, ("/conversation", &name)).await
        }
        Named::Conversation(pointer, conversation) => {
            let Some(id) = agentable_of(conversation) else {
                return find_or_create(asker, target, (pointer, conversation)).await;
            };
            let thread = find_or_create(asker, target, (pointer, id)).await?;
            if !asker.ctx.state.agent_types.contains_key(target) {
                let agent = target.parse().map_or(ThreadTarget::AgentNamed(target), ThreadTarget::Agent);
                thread.ctx.store().serve_first(thread.path.id, agent).await?;
            }
            Ok(thread)
        }
        Named::Asked(id) => {
            let unknown =
                || ApiError::field("", format!("`{id}` is not asked in a conversation of this user"));
            let question = question_of(id).ok_or_else(unknown)?;
            let asked = asker.ctx.with_shard(shard(question)).store().question(question).await;
            let asked = if_found(asked)?.ok_or_else(unknown)?;
            let public_id = asked.agentable.public_id(&asked.kind);
            own(find(asker, target, ("", &public_id)).await, unknown)
        }
        Named::After(previous) => {
            const POINTER: &str = "/previous_response_id";
            let unknown = || ApiError::field(POINTER, "is no response of this conversation's user");
            let id: ResponseId = previous.parse().map_err(|_| unknown())?;
            let found = match Found::new(&asker.ctx, id).await {
                Err(ApiError::NotFound(_)) => return Err(unknown()),
                found => found?,
            };
            let thread = own(find(asker, target, (POINTER, &found.path.public_id())).await, unknown)?;
            let store = thread.ctx.store();
            let latest = store.runs(thread.path.id, None, None, 1).await?;
            let is_repeated = match key {
                Some(key) => store.text_posted_before(key.as_stored()).await?.is_some(),
                None => false,
            };
            if !is_repeated && latest.first().is_some_and(|latest| latest.id != id.run) {
                let reason = "is not the latest response of its conversation, which does not branch; name the latest one, or fork \
                              the conversation (`POST /v1/{kinds}/{id}/fork`)";
                return Err(ApiError::field(POINTER, reason));
            }
            Ok(thread)
        }
    }
}

/// The thread, if it is one of the user whom the request is for: another one's is as unknown as one that does not exist.
fn own(found: Result<Option<Thread>>, unknown: impl Fn() -> ApiError) -> Result<Thread> {
    match found {
        Err(ApiError::NotFound(_)) => Err(unknown()),
        found => found?.ok_or_else(unknown),
    }
}

/// Posts the text and gives the answers. `pointer`: where the request has its items.
///
/// # Errors
/// Those of a message and of answers.
pub(super) async fn begin(
    thread: Thread,
    input: Input,
    (pointer, mut said): (&str, Said),
    offer: &ClientOffer,
    key: Option<&Key>,
) -> Result<Begun> {
    thread.check_offer(offer)?;
    said.functions = offer.tools.iter().map(|tool| tool.name.clone()).collect();
    let has_text = says_something(&input);
    let answers = checked(&thread, pointer, &input.answers).await?;
    if !answers.is_empty() {
        let store = thread.ctx.store();
        match offer.is_empty() {
            true => store.release_client_choice(thread.path.id).await?,
            false => store.change_client_offer(thread.path.id, offer).await?,
        }
    }
    let answered = thread.answer(&answers).await?;
    if has_text {
        let policy = if input.answers.is_empty() { DoubleTexting::Reject } else { DoubleTexting::Enqueue };
        let at = format!("{pointer}{}", input.at);
        let message = |double_texting| NewMessage {
            pointers: (&at, pointer),
            content: input.text.clone(),
            images: &input.images,
            metadata: said.to_metadata(),
            double_texting: Some(double_texting),
            offer: Some(offer),
            key,
        };
        let mut posted = thread.post(message(policy)).await;
        if let Err(ApiError::MessageRejected(run)) = posted
            && thread.ctx.store().run(run).await?.status == RunStatus::Waiting
        {
            // A message to a run that waits for a person takes the place of the answers.
            posted = thread.post(message(DoubleTexting::Enqueue)).await;
        }
        let (posted, replayed) = posted?;
        if posted.opened {
            let id = ResponseId { run: posted.run, after: 0 };
            let head = said.head(id, posted.created_at.timestamp(), &thread.path.public_id());
            let (translator, base) = (Translator::new(head), posted.run_seq - 1);
            return Ok(Begun { thread, translator, base, at: Position::after(base), replayed });
        }
        let wait = thread.ctx.store().wait_before(thread.path.id, posted.seq).await?;
        return joined(thread, posted.run, posted.run_seq - 1, wait, replayed).await;
    }
    let Some((question, _)) = answers.first() else {
        return Err(ApiError::field(pointer, "answers only what is not asked any more"));
    };
    let store = thread.ctx.store();
    let asked = store.question(*question).await?;
    let run = store.run(asked.run).await?;
    joined(thread, run.id, run.first_seq - 1, answered.wait, false).await
}

/// A run that had waited with its event `wait`.
async fn joined(thread: Thread, run: RunId, base: i64, wait: Option<i64>, replayed: bool) -> Result<Begun> {
    // Without a wait the answer came before the run had begun to wait: the response is the one that asked.
    let id = ResponseId { run, after: wait.map_or(0, |wait| wait - base) };
    let found = Found::new(&thread.ctx, id).await?;
    let (events, at) = found.resume(0).await?;
    Ok(Begun { thread, translator: events.translator, base, at, replayed })
}
