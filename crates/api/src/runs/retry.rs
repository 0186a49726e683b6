//! Changes one of many runs. `Ok(Err(reason))`: nothing was done, because of this.

use std::sync::Arc;

use houston_domain::id::{AgentableId, RunId, shard};
use houston_store::run_retry::{DOUBLE_TEXTING, Retry};
use serde_json::json;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::idempotency::Key;
use crate::messages::post::store_offering;
use crate::plans::create::make_again;
use crate::state::App;

pub(crate) type Done = Result<(), &'static str>;

/// Requests the cancellation of a run.
pub(crate) async fn cancel_one(app: &Arc<App>, caller: Caller, run: RunId) -> Result<Done, ApiError> {
    let app = app.with_shard(shard(run.0));
    match app.store(caller).cancel_run(run).await {
        Ok(Some((agentable, kind))) => {
            app.publish_cancel(agentable, run);
            app.send_hint(agentable, app.urgency(&kind));
            Ok(Ok(()))
        }
        Ok(None) => Ok(Err("ended")),
        Err(houston_store::Error::NotFound { .. }) => Ok(Err("not_found")),
        Err(error) => Err(error.into()),
    }
}

/// Tries a run again.
pub(crate) async fn retry_one(app: &Arc<App>, caller: Caller, run: RunId) -> Result<Done, ApiError> {
    let app = app.with_shard(shard(run.0));
    match app.store(caller).retry_run(run).await {
        Ok(Retry::Due { agentable, kind }) => {
            let urgency = app.urgency(&kind);
            app.state.hints.send(urgency.into(), houston_queue::Hint::run(agentable));
            Ok(Ok(()))
        }
        Ok(Retry::Repeat { agentable, kind, content }) => {
            repeat(&app, caller, run, (&kind, agentable), &content).await
        }
        Ok(Retry::MakeAgain { plan }) => {
            let made = make_again(&app, caller, plan, &Key::of_retry(run)).await?;
            Ok(made.ok_or("refused"))
        }
        Ok(Retry::No(reason)) => Ok(Err(reason.as_str())),
        Err(houston_store::Error::NotFound { .. }) => Ok(Err("not_found")),
        Err(error) => Err(error.into()),
    }
}

/// Posts the message again, once for each failed run.
async fn repeat(
    app: &Arc<App>,
    caller: Caller,
    run: RunId,
    (kind, agentable): (&str, AgentableId),
    content: &str,
) -> Result<Done, ApiError> {
    let path = AgentablePath::of_kind(&app.state.agent_types, kind, agentable);
    let Some(path) = path.filter(|path| path.conversational) else { return Ok(Err("not_conversational")) };
    let key = Key::of_retry(run);
    let metadata = json!({"retry_of": run});
    let post = (content, &metadata, DOUBLE_TEXTING);
    match store_offering(app, caller, &path, post, None, Some(&key)).await {
        Ok(_) => Ok(Ok(())),
        Err(ApiError::RateLimited { .. } | ApiError::TooManyPending { .. }) => Ok(Err("refused")),
        Err(error) => Err(error),
    }
}
