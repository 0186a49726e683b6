//! `GET /v1/users/{id}`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Id;
use crate::state::App;
use crate::users::Shown;

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
) -> Result<impl IntoResponse, ApiError> {
    let user = app.store().user(caller.tenant, id).await?;
    let own = app.store().made_with_user(caller.tenant, id).await?;
    Ok(Json(Shown::new(user, own.iter().map(|(kind, id)| (kind.as_str(), *id)))))
}
