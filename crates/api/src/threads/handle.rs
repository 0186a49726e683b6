//! What an endpoint does with a thread.

use std::sync::Arc;

use axum::response::Response;
use houston_domain::agentable::DoubleTexting;
use houston_domain::client_offer::ClientOffer;
use houston_domain::id::QuestionId;
use houston_protocol::message::MessageImage;
use houston_protocol::run::CancelledRunsResponse;
use houston_store::message::Posted;
use houston_store::rate::Whose;
use serde_json::{Map, Value};

use crate::agentable_path::AgentablePath;
use crate::agentables::notify_workers;
use crate::auth::Caller;
use crate::body::check_text;
use crate::error::ApiError;
use crate::events::dialect::Dialect;
use crate::events::get::Options;
use crate::events::open::open_as;
use crate::events::position::Position;
use crate::idempotency::Key;
use crate::messages::images::with_images;
use crate::messages::post::{check_content, check_storable_value, store_offering};
use crate::questions::closed_otherwise;
use crate::rates::ask;
use crate::state::App;

/// A thread that the caller may read and post to. `app` is that of its cell.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) path: AgentablePath,
}

/// A message to a thread.
#[derive(Debug)]
pub(crate) struct NewMessage<'a> {
    /// Where the request has the text and the images, for errors: JSON Pointers.
    pub(crate) pointers: (&'a str, &'a str),
    pub(crate) content: String,
    pub(crate) images: &'a [MessageImage],
    pub(crate) metadata: Map<String, Value>,
    /// What it does to an open run; `None`: what its kind says.
    pub(crate) double_texting: Option<DoubleTexting>,
    /// What the client offers the run that answers it, if anything; checked ([`Thread::check_offer`]).
    pub(crate) offer: Option<&'a ClientOffer>,
    /// Makes it safe to repeat ([`Key::of_message`]).
    pub(crate) key: Option<&'a Key>,
}

impl Thread {
    /// Posts a message, as `POST /v1/{kinds}/{id}/messages` does. Its run is open or queued then; its stream begins after
    /// `run_seq - 1`. Also whether it was posted before.
    ///
    /// # Errors
    /// Those of a message that is not accepted.
    pub(crate) async fn post(&self, message: NewMessage<'_>) -> Result<(Posted, bool), ApiError> {
        let NewMessage {
            pointers: (at_text, at_images),
            content,
            images,
            metadata,
            double_texting,
            offer,
            key,
        } = message;
        check_content(at_text, &content, !images.is_empty())?;
        let Self { app, caller, path } = self;
        if !images.is_empty() {
            // Before images are fetched and stored.
            ask(app, *caller, Whose::Agentable(path.id), key).await?;
        }
        let content = with_images(app, *caller, path, at_images, (content, images), key).await?;
        let double_texting = double_texting.unwrap_or(path.double_texting);
        let post = (content.as_str(), &Value::Object(metadata), double_texting);
        let offer = offer.filter(|offer| !offer.is_empty());
        store_offering(app, *caller, path, post, offer, key).await
    }

    /// Checks what a client offers: counts, sizes, names, and that the agent has no tool with one of the names.
    ///
    /// # Errors
    /// [`ApiError::InvalidRequest`] with the JSON Pointer.
    pub(crate) fn check_offer(&self, offer: &ClientOffer) -> Result<(), ApiError> {
        if offer.is_empty() {
            return Ok(());
        }
        let own = self.app.state.agent_types.get(&self.path.kind).map_or(&[][..], |kind| &kind.tools);
        let all = &self.app.state.agents.tools;
        let is_taken = |name: &str| own.iter().chain(all).any(|tool| tool == name);
        offer.check(is_taken).map_err(|wrong| ApiError::field(&wrong.pointer, wrong.reason))?;
        let storable = |text: &str| check_text("/tools", text);
        offer.tools.iter().try_for_each(|tool| {
            storable(&tool.description)?;
            check_storable_value("/tools", &tool.parameters)
        })?;
        if let Some(output) = &offer.output {
            check_storable_value("/output", &output.schema)?;
        }
        if let Some(data) = offer.focus.as_ref().and_then(|focus| focus.data.as_ref()) {
            check_storable_value("/context", data)?;
        }
        offer.context.iter().try_for_each(|item| {
            check_text("/context", &item.description)?;
            check_text("/context", &item.value)
        })
    }

    /// Answers questions of the thread, all of them or none; the same answer again is accepted. The answers were checked
    /// ([`check_answer`](houston_domain::question::NewQuestion::check_answer)), and that the questions are of this thread.
    ///
    /// # Errors
    /// [`ApiError::QuestionClosed`].
    pub(crate) async fn answer(&self, answers: &[(QuestionId, Value)]) -> Result<(), ApiError> {
        let Self { app, caller, path } = self;
        if let Some(closed) = app.store(*caller).answer_questions(answers).await? {
            return Err(closed_otherwise(closed));
        }
        app.publish_nudge(path.id);
        app.send_hint(path.id, path.urgency);
        Ok(())
    }

    /// Cancels the open run, and those of its tasks. Without one it does nothing.
    ///
    /// # Errors
    /// The store's errors.
    pub(crate) async fn cancel(&self) -> Result<CancelledRunsResponse, ApiError> {
        let Self { app, caller, path } = self;
        let cancelled = app.store(*caller).cancel_agentable(&path.kind, path.id, false).await?;
        Ok(notify_workers(app, cancelled))
    }

    /// Opens a stream in the protocol of the endpoint; see [`open_as`].
    ///
    /// # Errors
    /// As [`open_as`].
    pub(crate) async fn open<D: Dialect>(
        self,
        at: Option<Position>,
        options: &Options,
        written: (D, impl FnOnce(Position) -> String),
    ) -> Result<Response, ApiError> {
        open_as(self.app, self.caller, self.path, at, options, written).await
    }
}
