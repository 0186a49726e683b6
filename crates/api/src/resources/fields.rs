//! Fields of what users can change: their tables, and which table the body of a PATCH ([`Change`]) belongs to.

use axum::extract::Path;
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

use crate::caller::Caller;
use crate::request::body::Changes;
use crate::request::prelude::*;

endpoints! {
    get "/v1/fields/{entity}" for NAMED => get,
    "get_fields" in "fields": "List the fields of a thing that may be changed, to what, and by whom.",
    params(("entity" = String, Path, description = "`goal`, `task`, `agent`, `team`, `user`, `profile`, `todo`, `note`, `feed_item`, `webhook` or `trigger`.", example = "note")),
    200 "The fields." [FieldsResponse];
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

async fn get(_caller: Caller, Path(entity): Path<String>) -> Result<impl IntoResponse> {
    let entity = Entity::from_name(&entity).ok_or(ApiError::NotFound("entity"))?;
    Ok(Json(FieldsResponse { entity, data: entity.fields().to_vec() }))
}
