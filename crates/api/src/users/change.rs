//! `PATCH /v1/users/{id}`: changes name, time zone and external id. `"external_id": null` removes the external id.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::{Shard, UserId, shard};
use houston_protocol::user::UpdateUser;
use houston_store::user::UserChange;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::fields::Change;
use crate::state::App;
use crate::users::{check_external_id, check_name, check_time_zone, external_id_taken, read};

endpoint! {
    CHANGE: patch "/v1/users/{id}" => change,
    tag = "users",
    operation_id = "update_user",
    summary = "Change the name, time zone or external id of a user; fields not given stay as they are.",
    params(("id" = houston_protocol::schema::UserId, Path, description = "Id of the user.")),
    request_body = UpdateUser,
    responses(
        (status = 200, description = "The changed user.", body = houston_protocol::user::UserResponse),
        (status = 409, description = "`already_exists`: another user has the external id.")
    ),
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
    Change(UpdateUser { name, time_zone, external_id }): Change<UpdateUser>,
) -> Result<impl IntoResponse, ApiError> {
    if name.is_none() && time_zone.is_none() && external_id.is_none() {
        return Err(ApiError::field(
            "",
            "nothing to change: give at least one of name, time_zone, external_id",
        ));
    }
    if external_id.is_some() && caller.user().is_some() {
        // It is by its external id that a backend finds a user.
        return Err(ApiError::BoundKey);
    }
    name.as_deref().map_or(Ok(()), |name| check_name("", name))?;
    time_zone.as_deref().map_or(Ok(()), |zone| check_time_zone("", zone))?;
    external_id.as_ref().and_then(Option::as_deref).map_or(Ok(()), |id| check_external_id("", id))?;
    if let Some(Some(external_id)) = &external_id {
        let place = Shard::of_external_id(caller.tenant(), external_id);
        if !Arc::ptr_eq(&app.with_shard(place), &app.with_shard(shard(id))) {
            let detail =
                "a user with this external id is stored in another cell: create the user with it instead";
            return Err(ApiError::field("/external_id", detail));
        }
    }
    let change = UserChange { name, time_zone, external_id };
    app.store(caller).change_user(id, &change).await.map_err(external_id_taken)?;
    Ok(Json(read(&app, caller, id).await?))
}
