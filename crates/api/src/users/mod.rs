//! `/v1/users`: the people a tenant's agents work for.

pub(crate) mod change;
pub(crate) mod costs;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;

use houston_domain::id::{AgentableId, UserId};
use houston_protocol::time::Time;
use houston_protocol::user::UserResponse;
use houston_store::Error;
use houston_store::user::User;

use crate::auth::Caller;
use crate::body::check_line;
use crate::error::ApiError;
use crate::state::App;

/// The response for a user, with the agentables that were created with the user.
fn response<'k>(user: User, own: impl IntoIterator<Item = (&'k str, AgentableId)>) -> UserResponse {
    let made_with_user =
        own.into_iter().map(|(kind, id)| (format!("{kind}_id"), id.public_id(kind))).collect();
    UserResponse {
        id: user.id,
        external_id: user.external_id,
        name: user.name,
        time_zone: user.time_zone,
        total_llm_cost: user.cost.total.map(|cost| cost.normalize()),
        unpriced_calls: user.cost.unpriced_calls,
        made_with_user,
        created_at: Time(user.created_at),
    }
}

/// Reads a user of the caller's tenant, with the agentables that were created with the user.
async fn read(app: &App, caller: Caller, id: UserId) -> Result<UserResponse, ApiError> {
    let user = app.store(caller).user(id).await?;
    let own = app.store(caller).own_agentables_of(&[id]).await?;
    Ok(response(user, own.iter().map(|(_, kind, id)| (kind.as_str(), *id))))
}

fn check_name(at: &str, name: &str) -> Result<(), ApiError> {
    check_line(&format!("{at}/name"), name, 200)
}

fn check_external_id(at: &str, external_id: &str) -> Result<(), ApiError> {
    check_line(&format!("{at}/external_id"), external_id, 255)
}

fn check_time_zone(at: &str, zone: &str) -> Result<(), ApiError> {
    match zone.parse::<chrono_tz::Tz>() {
        Ok(_) => Ok(()),
        Err(_) => {
            let detail = "must be an IANA time zone, e.g. `Europe/Berlin`";
            Err(ApiError::field(&format!("{at}/time_zone"), detail))
        }
    }
}

/// Converts a store error; a duplicate external id becomes [`ApiError::AlreadyExists`].
pub(crate) fn external_id_taken(error: Error) -> ApiError {
    match error {
        Error::Exists { what, existing } => ApiError::AlreadyExists { what, field: "external_id", existing },
        error => error.into(),
    }
}
