//! Fields of what users can change: their tables, and [`Change`], the body of a PATCH. The refusal of an unknown field names
//! what may be changed, and by whom.

use std::sync::Arc;

use axum::extract::{FromRequest, Path, Request};
use houston_domain::field::Entity;
use houston_domain::todo::UpdateTodo;
use houston_protocol::agent::AgentSettingsRequest;
use houston_protocol::agentable::UpdateAgentable;
use houston_protocol::field::FieldsResponse;
use houston_protocol::knowledge::{Sentence, UpdateFeedItem, UpdateNote};
use houston_protocol::team::TeamSettingsRequest;
use houston_protocol::trigger::UpdateTrigger;
use houston_protocol::user::{UpdateProfile, UpdateUser};
use houston_protocol::webhook::UpdateWebhook;
use serde::de::DeserializeOwned;

use crate::caller::Caller;
use crate::request::prelude::*;

pub(crate) const ENDPOINTS: &[Endpoint] = &[GET];

/// A body that changes the fields of an [`Entity`]. A PATCH is idempotent, so an Idempotency-Key is ignored.
#[derive(Debug)]
pub(crate) struct Change<T>(pub(crate) T);

/// What a body changes.
pub(crate) trait Changes {
    /// `None`: it has no table.
    const ENTITY: Option<Entity>;
}

impl<T: Changes + DeserializeOwned + Send + 'static> FromRequest<Arc<App>> for Change<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        let body = Creation::<T>::from_request(request, app).await;
        body.map(|body| Self(body.value)).map_err(|error| match T::ENTITY {
            Some(entity) => refusal(entity, error),
            None => error,
        })
    }
}

/// An error that says what may be changed, if an unknown field was to be.
fn refusal(entity: Entity, mut error: ApiError) -> ApiError {
    if let ApiError::InvalidRequest { errors } = &mut error {
        for error in errors.iter_mut().filter(|error| error.detail.starts_with("unknown field")) {
            error.detail += &format!("; {}; see GET /v1/fields/{}", entity.updatable(), entity.as_str());
        }
    }
    error
}

macro_rules! changes {
    ($($body:ty => $entity:ident),+ $(,)?) => {
        $(impl Changes for $body {
            const ENTITY: Option<Entity> = Some(Entity::$entity);
        })+
    };
}

changes! {
    UpdateAgentable => Goal,
    AgentSettingsRequest => Agent,
    TeamSettingsRequest => Team,
    UpdateUser => User,
    UpdateProfile => Profile,
    UpdateTodo => Todo,
    UpdateWebhook => Webhook,
    UpdateTrigger => Trigger,
    UpdateNote => Note,
    UpdateFeedItem => FeedItem,
}

impl Changes for Sentence {
    const ENTITY: Option<Entity> = None;
}

endpoint! {
    GET: get "/v1/fields/{entity}" for NAMED => get,
    "get_fields" in "fields": "List the fields of a thing that may be changed, to what, and by whom.",
    params(("entity" = String, Path, description = "`goal`, `task`, `agent`, `team`, `user`, `profile`, `todo`, `note`, `feed_item`, `webhook` or `trigger`.", example = "note")),
    200 "The fields." [FieldsResponse],
}

async fn get(_caller: Caller, Path(entity): Path<String>) -> Result<impl IntoResponse> {
    let entity = Entity::from_name(&entity).ok_or(ApiError::NotFound { what: "entity" })?;
    Ok(Json(FieldsResponse { entity, data: entity.fields().to_vec() }))
}
