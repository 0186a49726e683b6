//! `POST /v1/users/{id}/feed/generate`: generates a feed now, independent of the schedule. 202 with the run that writes
//! it, which may have been started before; 200 when nothing happened since the last feed, and none is written. A
//! repeated `Idempotency-Key` gets the first response again, whatever has happened since. The items of a feed are in
//! `knowledge`.

use houston_domain::id::{AgentableId, MessageId, RunId, UserId};
use houston_domain::mode::Mode;
use houston_protocol::feed::{FeedGenerationResponse, GenerateFeed};
use houston_protocol::problem::ProblemCode;
use houston_store::feed::{FeedIds, FeedOutcome, FeedRequestOutcome};
use houston_store::rate::Whose;
use serde::{Deserialize, Serialize};

use crate::request::agentable_path::Owner;
use crate::request::idempotency::{parse_stored_response, respond};
use crate::request::prelude::*;
use crate::request::rates::ask as ask_limits;

endpoints! {
    post "/v1/users/{id}/feed/generate" for USER => generate,
    "generate_feed" in "feed": "Generate a feed now, independent of the schedule.",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, stored for a day.")),
    body [Option<GenerateFeed>],
    202 "The run that writes the feed." [FeedGenerationResponse],
    200 "Nothing happened since the last feed, so none is written." [FeedGenerationResponse],
    409 "`no_feed_agent`: the user has no agent that writes feeds; `run_in_progress`: the agent is busy with another run; `full`: the user has the maximum number of feed items.",
    429 "`rate_limited`: the user sends too many requests. `too_many_pending`: the user has too many unread messages.";
}

/// The result of the request, as stored under its idempotency key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Outcome {
    /// A feed is being written. `message_id` is the message that started it; `None` if it was started before.
    Accepted { run_id: RunId, message_id: Option<MessageId>, kind: String, agentable: AgentableId },
    /// Nothing happened since the last feed, so none is written.
    NothingHappened,
}

impl Outcome {
    /// `None` for results that are not stored: a repeated request tries again.
    fn of(begun: &FeedOutcome, ids: FeedIds) -> Option<Self> {
        let (agentable, kind, run_id, message_id) = match begun {
            FeedOutcome::Started { agentable, kind } => (*agentable, kind, ids.run, Some(ids.message)),
            FeedOutcome::Busy { agentable, kind, run, is_feed: true } => (*agentable, kind, *run, None),
            FeedOutcome::NothingHappened => return Some(Self::NothingHappened),
            FeedOutcome::Busy { .. } | FeedOutcome::NoAgent | FeedOutcome::NotDue => return None,
        };
        Some(Self::Accepted { run_id, message_id, kind: kind.clone(), agentable })
    }
}

impl IntoResponse for Outcome {
    fn into_response(self) -> Response {
        match self {
            Self::Accepted { run_id, message_id, kind, agentable: id } => {
                let events_url = format!("/v1/{kind}s/{}/events", id.public_id(&kind));
                let owner = Owner { kind, id };
                let response = FeedGenerationResponse::Accepted { run_id, message_id, owner, events_url };
                (StatusCode::ACCEPTED, Json(response)).into_response()
            }
            Self::NothingHappened => Json(FeedGenerationResponse::NothingHappened).into_response(),
        }
    }
}

async fn generate(
    ctx: Ctx,
    Id(user): Id<UserId>,
    OptionalBody(request): OptionalBody<GenerateFeed>,
) -> Result<Response> {
    let Creation { value: GenerateFeed {}, key } = request;
    ask_limits(&ctx, Whose::User(user), key.as_ref()).await?;
    let kinds: Vec<String> = ctx
        .state
        .agent_types
        .values()
        .filter(|kind| kind.modes.contains(&Mode::FeedGeneration))
        .map(|kind| kind.kind.clone())
        .collect();
    let ids = FeedIds { message: ctx.state.ids.beside(user), run: ctx.state.ids.beside(user) };
    let ask = async || {
        let stored = |begun: &FeedOutcome| serde_json::to_value(Outcome::of(begun, ids)?).ok();
        let key = key.as_ref().map(Key::as_stored);
        ctx.store().request_feed(user, &kinds, &ctx.state.feed, ids, key, stored).await
    };
    // A run that began concurrently is found by the second attempt.
    let mut asked = ask().await?;
    if asked == FeedRequestOutcome::Now(FeedOutcome::NotDue) {
        asked = ask().await?;
    }
    let begun = match asked {
        FeedRequestOutcome::Now(begun) => begun,
        FeedRequestOutcome::Replayed(answered) => {
            return Ok(respond(parse_stored_response::<Outcome>(answered)?, true));
        }
        FeedRequestOutcome::KeyReused => return Err(ApiError::IdempotencyKeyReused),
    };
    if let FeedOutcome::Started { agentable, kind } = &begun {
        ctx.publish_nudge(*agentable);
        ctx.send_hint(*agentable, ctx.urgency(kind));
    }
    match (Outcome::of(&begun, ids), begun) {
        (Some(outcome), _) => Ok(respond(outcome, false)),
        (None, FeedOutcome::Busy { run, .. }) => Err(ApiError::FeedAgentBusy(run)),
        (None, FeedOutcome::NoAgent) => {
            let why = "this user has no agent that writes feeds; only kinds with `modes = [\"feed_generation\"]` do";
            Err(ApiError::Refused(ProblemCode::NoFeedAgent, why.to_owned()))
        }
        (None, _) => Err(ApiError::Unavailable(None)),
    }
}
