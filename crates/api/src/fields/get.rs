//! `GET /v1/fields/{entity}`: what may be changed of a thing, to what, and by whom.

use axum::Json;
use axum::extract::Path;
use axum::response::IntoResponse;
use houston_domain::field::{Entity, Field, Max};
use houston_protocol::field::{FieldResponse, FieldsResponse};

use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;

endpoint! {
    GET: get "/v1/fields/{entity}" => get,
    tag = "fields",
    operation_id = "get_fields",
    summary = "List the fields of a thing that may be changed, to what, and by whom.",
    params(
        ("entity" = String, Path, description = "`goal`, `task`, `agent`, `team`, `user`, `profile`, `todo`, `note`, `feed_item`, `webhook` or `trigger`.", example = "note")
    ),
    responses(
        (status = 200, description = "The fields.", body = FieldsResponse)
    ),
}

pub(crate) async fn get(_caller: Caller, Path(entity): Path<String>) -> Result<impl IntoResponse, ApiError> {
    let entity = Entity::from_name(&entity).ok_or(ApiError::NotFound { what: "entity" })?;
    let data = entity.fields().iter().map(response).collect();
    Ok(Json(FieldsResponse { entity: entity.as_str().to_owned(), data }))
}

fn response(field: &Field) -> FieldResponse {
    let max = field.max.map(|max| match max {
        Max::Chars(most) => ("chars", most),
        Max::Bytes(most) => ("bytes", most),
        Max::Items(most) => ("items", most),
    });
    FieldResponse {
        name: field.name.to_owned(),
        kind: field.kind.as_str().to_owned(),
        values: field.values.iter().map(|value| (*value).to_owned()).collect(),
        max: max.map(|(unit, most)| [(unit.to_owned(), most)].into()),
        required: field.required,
        nullable: field.nullable,
        updatable_by: field.updatable_by.as_str().to_owned(),
        description: field.description.to_owned(),
    }
}
