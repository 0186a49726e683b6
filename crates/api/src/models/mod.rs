//! Models: those that the operator has configured, with prices, limits and measured speed; and what a request would cost.

pub(crate) mod catalogue;
pub(crate) mod estimate;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod sampling;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use houston_domain::id::TenantId;
use houston_protocol::model::{MeasuredSpeed, ModelResponse, ModelsResponse};
use houston_store::model_speed::ModelSpeed;
use tokio::time::Instant;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

/// How long measured speeds are used again.
const FRESH: Duration = Duration::from_secs(60);
/// Maximum number of tenants whose speeds are cached. The cache is cleared when it is full.
const MAX_CACHED: usize = 1_000;

type Measured = (Instant, Arc<[ModelSpeed]>);

/// The measured speeds of each tenant, read once a minute.
#[derive(Debug, Default)]
pub(crate) struct Speeds(Mutex<HashMap<TenantId, Measured>>);

impl Speeds {
    async fn of(&self, app: &App, caller: Caller) -> Result<Arc<[ModelSpeed]>, ApiError> {
        let now = Instant::now();
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = lock().get(&caller.tenant()).cloned();
        if let Some((_, speeds)) = cached.filter(|(at, _)| now < *at + FRESH) {
            return Ok(speeds);
        }
        let speeds: Arc<[ModelSpeed]> = app.store(caller).model_speeds().await?.into();
        let mut cached = lock();
        if cached.len() >= MAX_CACHED {
            cached.clear();
        }
        cached.insert(caller.tenant(), (now, Arc::clone(&speeds)));
        Ok(speeds)
    }
}

/// The models, with how fast they answered the caller's tenant.
async fn all(app: &App, caller: Caller) -> Result<ModelsResponse, ApiError> {
    let mut models = app.state.models.models().await?;
    let speeds = app.speeds.of(app, caller).await?;
    models.data.iter_mut().for_each(|model| model.measured = measured(&speeds, model));
    Ok(models)
}

fn measured(speeds: &[ModelSpeed], model: &ModelResponse) -> Option<MeasuredSpeed> {
    let of = speeds.iter().find(|speed| speed.provider == model.provider && speed.model == model.model)?;
    let tenth = |value: f64| (value * 10.0).round() / 10.0;
    Some(MeasuredSpeed {
        calls: of.calls,
        first_event_ms: tenth(of.first_event_ms),
        tokens_per_s: of.tokens_per_s.map(tenth),
    })
}
