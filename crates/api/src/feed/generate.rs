//! `POST /v1/users/{id}/feed/generate`: a feed now, whatever is due when. 202 with the run that writes it, be it one
//! that is writing already; 200 when nothing happened since the latest, and nothing is written.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use houston_domain::id::{AgentableId, MessageId, RunId, UserId};
use houston_domain::mode::Mode;
use houston_store::feed::{Begun, FeedIds, Occasion};
use serde::Serialize;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::{Id, Owner};
use crate::state::App;

/// What became of the request.
#[derive(Debug, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Shown {
    /// It is being written.
    Accepted {
        run_id: RunId,
        /// What its agent was told; none of a feed that was begun before.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<MessageId>,
        #[serde(flatten)]
        owner: Owner,
        /// Where it is streamed.
        events_url: String,
    },
    /// Nothing is.
    NothingHappened,
}

impl Shown {
    fn accepted(run_id: RunId, message_id: Option<MessageId>, kind: String, id: AgentableId) -> Self {
        let events_url = format!("/v1/{kind}s/{}/events", id.shown(&kind));
        Self::Accepted { run_id, message_id, owner: Owner { kind, id }, events_url }
    }
}

pub(crate) async fn generate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
) -> Result<impl IntoResponse, ApiError> {
    let kinds: Vec<String> = app
        .state
        .agent_types
        .values()
        .filter(|kind| kind.modes.contains(&Mode::FeedGeneration))
        .map(|kind| kind.kind.clone())
        .collect();
    let ids = FeedIds { message: app.state.ids.next(), run: app.state.ids.next() };
    let whose = (caller.tenant, user);
    // A run that began in the same instant is found at the second try.
    let mut begun = app.store().begin_feed(whose, Occasion::Asked, &kinds, &app.state.feed, ids).await?;
    if begun == Begun::NotDue {
        begun = app.store().begin_feed(whose, Occasion::Asked, &kinds, &app.state.feed, ids).await?;
    }
    match begun {
        Begun::Told { agentable, kind } => {
            app.nudge(agentable);
            app.ring(agentable, app.urgency(&kind));
            let shown = Shown::accepted(ids.run, Some(ids.message), kind, agentable);
            Ok((StatusCode::ACCEPTED, Json(shown)))
        }
        Begun::Busy { agentable, kind, run, is_feed: true } => {
            Ok((StatusCode::ACCEPTED, Json(Shown::accepted(run, None, kind, agentable))))
        }
        Begun::Busy { run, .. } => Err(ApiError::FeedAgentBusy { run }),
        Begun::NothingHappened => Ok((StatusCode::OK, Json(Shown::NothingHappened))),
        Begun::NoAgent => Err(ApiError::NoFeedAgent),
        Begun::NotDue => Err(ApiError::Unavailable(None)),
    }
}
