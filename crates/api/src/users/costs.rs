//! `GET /v1/users/{id}/costs`: what a user's model calls cost, in all and day by day.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_protocol::schema;
use houston_protocol::user::{DayCostResponse, UserCostsResponse};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::Id;
use crate::state::App;

/// Days that are shown: a month and a day, so that a month can be compared with itself.
const DAYS: i64 = 32;

#[utoipa::path(
    get,
    path = "/v1/users/{id}/costs",
    tag = "users",
    operation_id = "get_user_costs",
    summary = "What the model calls of a user cost",
    params(
        ("id" = schema::UserId, Path)
    ),
    responses(
        (status = 200, description = "In all, and day by day", body = UserCostsResponse)
    ),
)]
pub(crate) async fn costs(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
) -> Result<impl IntoResponse, ApiError> {
    let (total, days) = app.store().user_costs(caller.tenant, id, DAYS).await?;
    let day = |day: houston_store::cost::Day| DayCostResponse {
        day: day.day,
        cost: day.cost.known.map(|cost| cost.normalize()),
        unpriced_calls: day.cost.unpriced_calls,
        model_calls: day.model_calls,
    };
    Ok(Json(UserCostsResponse {
        user_id: id,
        total_llm_cost: total.known.map(|cost| cost.normalize()),
        unpriced_calls: total.unpriced_calls,
        days: days.into_iter().map(day).collect(),
    }))
}
