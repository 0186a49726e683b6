//! `GET /v1/users/{id}/costs`: what a user's model calls cost, in total and per day.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_protocol::user::{DayCostResponse, UserCostsResponse};

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

/// Number of days in the response: a month and a day, so that a date can be compared with the same date a month
/// earlier.
const DAYS: i64 = 32;

endpoint! {
    COSTS: get "/v1/users/{id}/costs" => costs,
    tag = "users",
    operation_id = "get_user_costs",
    summary = "Get the cost of a user's model calls, in total and per day.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user.")
    ),
    responses(
        (status = 200, description = "The total and the last 32 days.", body = UserCostsResponse)
    ),
}

pub(crate) async fn costs(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
) -> Result<impl IntoResponse, ApiError> {
    let (total, days) = app.store(caller).user_costs(id, DAYS).await?;
    let day = |day: houston_store::cost::Day| DayCostResponse {
        day: day.day,
        cost: day.cost.total.map(|cost| cost.normalize()),
        unpriced_calls: day.cost.unpriced_calls,
        model_calls: day.model_calls,
    };
    Ok(Json(UserCostsResponse {
        user_id: id,
        total_llm_cost: total.total.map(|cost| cost.normalize()),
        unpriced_calls: total.unpriced_calls,
        days: days.into_iter().map(day).collect(),
    }))
}
