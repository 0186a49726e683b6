//! `GET /v1/users/{id}/costs`: what a user's model calls cost, in all and day by day.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use chrono::NaiveDate;
use houston_domain::id::UserId;
use rust_decimal::Decimal;
use serde::Serialize;

use crate::auth::Caller;
use crate::cost::Cost;
use crate::error::ApiError;
use crate::place::Id;
use crate::state::App;

/// Days that are shown: a month and a day, so that a month can be compared with itself.
const DAYS: i64 = 32;

#[derive(Debug, Serialize)]
struct Costs {
    user_id: UserId,
    total_llm_cost: Option<Decimal>,
    unpriced_calls: i32,
    /// Those on which models were called, newest first.
    days: Vec<Day>,
}

#[derive(Debug, Serialize)]
struct Day {
    /// UTC.
    day: NaiveDate,
    #[serde(flatten)]
    cost: Cost,
    model_calls: i32,
}

pub(crate) async fn costs(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
) -> Result<impl IntoResponse, ApiError> {
    let (total, days) = app.store().user_costs(caller.tenant, id, DAYS).await?;
    let day = |day: houston_store::cost::Day| Day {
        day: day.day,
        cost: day.cost.into(),
        model_calls: day.model_calls,
    };
    Ok(Json(Costs {
        user_id: id,
        total_llm_cost: total.known.map(|cost| cost.normalize()),
        unpriced_calls: total.unpriced_calls,
        days: days.into_iter().map(day).collect(),
    }))
}
