//! `POST /v1/users/{id}/feed/generate`: a feed now, whatever is due when. 202 with the run that writes it, be it one
//! that is writing already; 200 when nothing happened since the latest, and nothing is written. Under an
//! `Idempotency-Key` that was answered so, the same again, whatever has happened since.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use houston_domain::id::{AgentableId, MessageId, RunId, UserId};
use houston_domain::mode::Mode;
use houston_protocol::feed::{FeedGenerationResponse, GenerateFeed};
use houston_protocol::schema;
use houston_store::feed::{Asked, Begun, FeedIds};
use serde::{Deserialize, Serialize};

use crate::auth::Caller;
use crate::body::{Creation, OptionalBody};
use crate::error::ApiError;
use crate::idempotency::{Key, answer, stored_answer};
use crate::agentable_path::{Id, Owner};
use crate::state::App;

/// What became of the request, as it is kept under its key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Outcome {
    /// It is being written; `message_id`: what its agent was told, if this is the feed it began with.
    Accepted { run_id: RunId, message_id: Option<MessageId>, kind: String, agentable: AgentableId },
    /// Nothing is.
    NothingHappened,
}

impl Outcome {
    /// None of what is no answer to come back to.
    fn of(begun: &Begun, ids: FeedIds) -> Option<Self> {
        match begun {
            Begun::Told { agentable, kind } => Some(Self::Accepted {
                run_id: ids.run,
                message_id: Some(ids.message),
                kind: kind.clone(),
                agentable: *agentable,
            }),
            Begun::Busy { agentable, kind, run, is_feed: true } => Some(Self::Accepted {
                run_id: *run,
                message_id: None,
                kind: kind.clone(),
                agentable: *agentable,
            }),
            Begun::NothingHappened => Some(Self::NothingHappened),
            Begun::Busy { .. } | Begun::NoAgent | Begun::NotDue => None,
        }
    }
}

impl From<Outcome> for (StatusCode, Json<FeedGenerationResponse>) {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Accepted { run_id, message_id, kind, agentable: id } => {
                let events_url = format!("/v1/{kind}s/{}/events", id.shown(&kind));
                let shown = FeedGenerationResponse::Accepted {
                    run_id,
                    message_id,
                    owner: Owner { kind, id },
                    events_url,
                };
                (StatusCode::ACCEPTED, Json(shown))
            }
            Outcome::NothingHappened => (StatusCode::OK, Json(FeedGenerationResponse::NothingHappened)),
        }
    }
}

#[utoipa::path(
    post,
    path = "/v1/users/{id}/feed/generate",
    tag = "feed",
    operation_id = "generate_feed",
    summary = "Asks for a feed now",
    params(
        ("id" = schema::UserId, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same request under the same key is answered the same, and creates nothing twice. 1 to 255 visible ASCII characters, kept for a day.")
    ),
    request_body = Option<GenerateFeed>,
    responses(
        (status = 202, description = "It is being written", body = FeedGenerationResponse),
        (status = 200, description = "Nothing happened since the latest, and nothing is written", body = FeedGenerationResponse),
        (status = 409, description = "`no_feed_agent`, `run_in_progress`, `full`"),
        (status = 429, description = "`too_many_pending`")
    ),
)]
pub(crate) async fn generate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    OptionalBody(request): OptionalBody<GenerateFeed>,
) -> Result<Response, ApiError> {
    let Creation { value: GenerateFeed {}, key } = request;
    let kinds: Vec<String> = app
        .state
        .agent_types
        .values()
        .filter(|kind| kind.modes.contains(&Mode::FeedGeneration))
        .map(|kind| kind.kind.clone())
        .collect();
    let ids = FeedIds { message: app.state.ids.next(), run: app.state.ids.next() };
    let ask = async || {
        let kept = |begun: &Begun| serde_json::to_value(Outcome::of(begun, ids)?).ok();
        let key = key.as_ref().map(Key::as_stored);
        app.store().ask_for_feed((caller.tenant, user), &kinds, &app.state.feed, ids, key, kept).await
    };
    // A run that began in the same instant is found at the second try.
    let mut asked = ask().await?;
    if asked == Asked::Now(Begun::NotDue) {
        asked = ask().await?;
    }
    let begun = match asked {
        Asked::Now(begun) => begun,
        Asked::Before(answered) => {
            let outcome: Outcome = stored_answer(answered)?;
            return Ok(answer(<(StatusCode, Json<FeedGenerationResponse>)>::from(outcome), true));
        }
        Asked::KeyReused => return Err(ApiError::IdempotencyKeyReused),
    };
    if let Begun::Told { agentable, kind } = &begun {
        app.nudge(*agentable);
        app.ring(*agentable, app.urgency(kind));
    }
    match (Outcome::of(&begun, ids), begun) {
        (Some(outcome), _) => Ok(answer(<(StatusCode, Json<FeedGenerationResponse>)>::from(outcome), false)),
        (None, Begun::Busy { run, .. }) => Err(ApiError::FeedAgentBusy { run }),
        (None, Begun::NoAgent) => Err(ApiError::NoFeedAgent),
        (None, _) => Err(ApiError::Unavailable(None)),
    }
}
