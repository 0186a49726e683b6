//! Calls that a provider answers later, for less: OpenAI's completion windows and Anthropic's batches.
//!
//! | | submitted by | looked at by | answer |
//! |---|---|---|---|
//! | windows | `POST /responses` with `background`, and 2 or 8 hours | `GET /responses/{id}` | the same |
//! | batches | `POST /messages/batches` with one request | `GET /messages/batches/{id}` | `…/{id}/results` |
//!
//! Nothing is kept here: who submits a call remembers its id ([`SubmittedCall`]). OpenAI stores a call in the background until it is
//! fetched, so that `store` is set.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{future, stream};
use houston_domain::model::{ModelError, Tier};
use houston_domain::model_policy::Latency;
use houston_domain::submission::SubmittedCall;
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{Attempt, CallContext, HttpModel, LONGEST_BODY, Refused, decoded, finished, read, sent};
use crate::error;
use crate::model::{Event, EventStream, Request, Submitting};
use crate::profile::{Profile, Submits};
use crate::protocol::Wire;
use crate::wire::object::Object;

/// Longest id of a call, in bytes: several times those of today.
const LONGEST_ID: usize = 256;

/// How a call is submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// In the background, within this window.
    Window(&'static str, Tier),
    /// As a batch of one.
    Batch,
}

impl Profile {
    /// How this request is submitted, if it may be and the provider takes such calls.
    pub(super) fn submits_for(&self, request: &Request<'_>) -> Option<Way> {
        if !matches!(request.submitting, Submitting::Allowed) {
            return None;
        }
        match (self.submits, self.wire, request.latency) {
            (Submits::Windows, Wire::OpenAiResponses, Latency::Relaxed) => {
                Some(Way::Window("2h", Tier::TwoHours))
            }
            (Submits::Windows, Wire::OpenAiResponses, Latency::Batch) => {
                Some(Way::Window("8h", Tier::EightHours))
            }
            (Submits::Batches, Wire::Anthropic, Latency::Batch) => Some(Way::Batch),
            _ => None,
        }
    }
}

/// The fields of a request that are replaced.
type Fields<'b> = BTreeMap<String, &'b RawValue>;

/// What both say of a call.
#[derive(Deserialize)]
struct State<'b> {
    id: Option<String>,
    /// OpenAI.
    status: Option<&'b str>,
    /// Anthropic.
    processing_status: Option<&'b str>,
}

/// A line of the results of a batch.
#[derive(Deserialize)]
struct BatchResult<'b> {
    #[serde(borrow)]
    result: Outcome<'b>,
}

#[derive(Deserialize)]
struct Outcome<'b> {
    #[serde(rename = "type")]
    kind: &'b str,
    #[serde(borrow)]
    message: Option<&'b RawValue>,
}

impl Way {
    fn tier(self) -> Tier {
        match self {
            Self::Window(_, tier) => tier,
            Self::Batch => Tier::Batch,
        }
    }

    /// The body of the request that submits what `encoded` would ask for at once.
    ///
    /// # Errors
    /// `INVALID_RESPONSE` if it is no object: never.
    fn body(self, encoded: &[u8]) -> Result<Vec<u8>, ModelError> {
        let mut fields: Fields<'_> =
            serde_json::from_slice(encoded).map_err(|error| error::invalid(error.to_string()))?;
        for replaced in ["stream", "store", "service_tier"] {
            fields.remove(replaced);
        }
        Ok(match self {
            Self::Window(window, _) => fields
                .iter()
                .fold(Object::new(), |object, (name, value)| object.with(name, value))
                .with("stream", false)
                .with("store", true)
                .with("background", true)
                .with("background_options", json!({"completion_window": window}))
                .end(),
            Self::Batch => {
                let request = Object::new().with("custom_id", "answer").with("params", fields);
                Object::new().all("requests", [request.end()]).end()
            }
        })
    }

    /// Where calls are submitted, and the address of one of them.
    fn url(self, url: &Url, rest: &[&str]) -> Url {
        let mut url = url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.extend((self == Self::Batch).then_some("batches")).extend(rest);
        }
        url
    }

    fn of(call: &SubmittedCall) -> Self {
        match call.tier {
            Tier::EightHours => Self::Window("8h", call.tier),
            Tier::TwoHours => Self::Window("2h", call.tier),
            _ => Self::Batch,
        }
    }

    /// Whether the provider does not know this way: it has no such address, allows it to nobody with this key, or names the field.
    pub(super) fn is_unknown_to(self, refused: &Refused) -> bool {
        let text = String::from_utf8_lossy(&refused.body).to_lowercase();
        match refused.status {
            403 | 404 | 405 | 501 => true,
            400 | 422 => ["background", "completion_window", "batch"].iter().any(|word| text.contains(word)),
            _ => false,
        }
    }
}

fn only(event: Event) -> EventStream {
    Box::pin(stream::once(future::ready(Ok(event))))
}

impl HttpModel {
    /// Submits a call.
    ///
    /// # Errors
    /// That of the connection. Inside: what the provider says against it.
    pub(super) async fn submit(
        &self,
        attempt: &Attempt<'_>,
        way: Way,
        encoded: &[u8],
        headers: &HeaderMap,
    ) -> Result<Result<EventStream, Refused>, ModelError> {
        let body = way.body(encoded)?;
        let submission = self.http.client.post(way.url(attempt.url, &[])).headers(headers.clone()).body(body);
        let response = sent(submission, self.http.timeouts.first_byte).await?;
        if !response.status().is_success() {
            return Ok(Err(self.refusal(response).await));
        }
        let body = read(response, LONGEST_BODY, self.http.timeouts.idle).await.map_err(|(error, _)| error)?;
        let id = serde_json::from_slice::<State<'_>>(&body).ok().and_then(|state| state.id);
        // It is stored, and is a part of addresses.
        let is_id = |id: &String| id.len() <= LONGEST_ID && id.bytes().all(|byte| byte.is_ascii_graphic());
        let Some(id) = id.filter(is_id) else {
            return Err(error::invalid("the provider named no id under which it will answer"));
        };
        let model = self.context.description.to_string();
        Ok(Ok(only(Event::Submitted(Box::new(SubmittedCall { model, id, tier: way.tier() })))))
    }

    /// Asks for the answer of a call that was submitted.
    ///
    /// # Errors
    /// Those of the connection and of the provider.
    pub(super) async fn fetch(
        &self,
        attempt: &Attempt<'_>,
        request: &Request<'_>,
        call: &SubmittedCall,
        (context, headers): (Arc<CallContext>, HeaderMap),
    ) -> Result<EventStream, ModelError> {
        let way = Way::of(call);
        let Some(found) = self.get(way.url(attempt.url, &[&call.id]), &headers).await? else {
            return Ok(only(Event::Gone));
        };
        let state: State<'_> = serde_json::from_slice(&found)
            .map_err(|error| error::invalid(format!("the state of a submitted call: {error}")))?;
        let answer = match (way, state.status, state.processing_status) {
            (Way::Window(..), Some("queued" | "in_progress"), _) => {
                return Ok(only(Event::Submitted(Box::new(call.clone()))));
            }
            (Way::Window(..), Some("cancelled" | "expired"), _) => return Ok(only(Event::Gone)),
            (Way::Window(..), ..) => found,
            (Way::Batch, _, Some("ended")) => {
                let results = self.get(way.url(attempt.url, &[&call.id, "results"]), &headers).await?;
                let Some(message) = results.and_then(|results| message(&results)) else {
                    return Ok(only(Event::Gone));
                };
                message
            }
            (Way::Batch, ..) => return Ok(only(Event::Submitted(Box::new(call.clone())))),
        };
        let profile = &attempt.profile;
        let decoder = profile.wire.decoder(&self.context.description.provider, profile.answer_end);
        let events = match decoded(&answer, profile.wire.framing(), decoder) {
            Ok(events) => events,
            Err(error) => {
                // Asked for anew, it is answered, or refused in words that say what to correct.
                let error = context.complete(error);
                tracing::warn!(call = call.id, %error, "a submitted call has failed");
                return Ok(only(Event::Gone));
            }
        };
        let events = stream::iter(events.into_iter().map(Event::into_storable).map(Ok));
        Ok(finished(Box::pin(events), Some(call.tier), request, profile))
    }

    /// Tells the provider that nobody waits for a call any more, which may come too late.
    pub(super) async fn withdraw(
        &self,
        attempt: &Attempt<'_>,
        call: &SubmittedCall,
        headers: HeaderMap,
    ) -> EventStream {
        let url = Way::of(call).url(attempt.url, &[&call.id, "cancel"]);
        let sent = timeout(self.http.timeouts.idle, self.http.client.post(url).headers(headers).send()).await;
        let is_withdrawn = matches!(&sent, Ok(Ok(response)) if response.status().is_success());
        tracing::info!(model = call.model, call = call.id, is_withdrawn, "a submitted call is withdrawn");
        only(Event::Gone)
    }

    /// What is at an address of the provider; `None`: nothing.
    async fn get(&self, url: Url, headers: &HeaderMap) -> Result<Option<Vec<u8>>, ModelError> {
        let question = self.http.client.get(url).headers(headers.clone());
        let response = sent(question, self.http.timeouts.first_byte).await?;
        match response.status().as_u16() {
            404 | 410 => Ok(None),
            200..=299 => {
                let body = read(response, LONGEST_BODY, self.http.timeouts.idle).await;
                body.map(Some).map_err(|(error, _)| error)
            }
            _ => Err(self.refusal(response).await.error),
        }
    }
}

/// The message among the results of a batch of one; `None`: it was refused or withdrawn, or has expired.
fn message(results: &[u8]) -> Option<Vec<u8>> {
    let line = results.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty())?;
    let Outcome { kind, message } = serde_json::from_slice::<BatchResult<'_>>(line).ok()?.result;
    let message = message.filter(|_| kind == "succeeded");
    if message.is_none() {
        tracing::warn!(kind, "a batch has no answer");
    }
    message.map(|message| message.get().into())
}
