//! `DELETE /v1/check-ins/{id}`: takes one back. 404 when its time has come.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::CheckInId;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Id;
use crate::state::App;

pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<CheckInId>,
) -> Result<StatusCode, ApiError> {
    app.store().cancel_check_in(caller.tenant, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
