//! `GET /v1/runs/{id}/model_calls`: what each model call of a run used and cost. Calls whose answer was lost with
//! their worker are not among them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::RunId;
use houston_domain::model::Usage;
use houston_store::cost::CountedCall;
use rust_decimal::Decimal;
use serde::Serialize;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Id;
use crate::rfc3339::Time;
use crate::state::App;

#[derive(Debug, Serialize)]
struct Calls {
    data: Vec<Shown>,
}

#[derive(Debug, Serialize)]
struct Shown {
    iteration: u32,
    provider: String,
    model: String,
    usage: Usage,
    /// Null when nobody knows.
    cost: Option<Decimal>,
    /// `provider` when it said so itself, `list` when its list of prices says so.
    cost_source: Option<&'static str>,
    created_at: Time,
}

impl From<CountedCall> for Shown {
    fn from(CountedCall { call, at }: CountedCall) -> Self {
        let cost = call.usage.cost.map(|cost| cost.normalize());
        Self {
            iteration: call.iteration,
            provider: call.provider,
            model: call.model,
            usage: Usage { cost: None, ..call.usage },
            cost,
            cost_source: cost.map(|_| if call.reported { "provider" } else { "list" }),
            created_at: Time(at),
        }
    }
}

pub(crate) async fn calls(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RunId>,
) -> Result<impl IntoResponse, ApiError> {
    let calls = app.store().model_calls(caller.tenant, id).await?;
    Ok(Json(Calls { data: calls.into_iter().map(Shown::from).collect() }))
}
