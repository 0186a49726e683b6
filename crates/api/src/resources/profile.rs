//! `/v1/users/{id}/profile`: lists of short sentences about a user. Every user has a profile from the beginning; it is not
//! created.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_domain::profile::{MAX_PROFILE_ENTRY_BYTES, ProfileList};
use houston_protocol::time::Time;
use houston_protocol::user::{ProfileResponse, UpdateProfile};

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::Id;
use crate::request::checks::{check_size, check_text};
use crate::request::endpoint::{Endpoint, endpoint};
use crate::resources::fields::Change;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[GET, CHANGE, DELETE];

endpoint! {
    GET: get "/v1/users/{id}/profile" for USER => get,
    tag = "users",
    operation_id = "get_profile",
    summary = "Get the profile of a user.",
    params(
        ("id" = houston_domain::id::UserId, Path, description = "Id of the user.")
    ),
    responses(
        (status = 200, description = "The profile.", body = ProfileResponse)
    ),
}

async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user_id): Id<UserId>,
) -> Result<impl IntoResponse, ApiError> {
    let (profile, updated_at) = app.store(caller).profile(user_id).await?;
    Ok(Json(ProfileResponse { user_id, profile, updated_at: updated_at.map(Time) }))
}

endpoint! {
    CHANGE: patch "/v1/users/{id}/profile" for USER => change,
    tag = "users",
    operation_id = "update_profile",
    summary = "Replace the given lists of a user's profile; the other lists stay as they are.",
    params(
        ("id" = houston_domain::id::UserId, Path, description = "Id of the user.")
    ),
    request_body = UpdateProfile,
    responses(
        (status = 200, description = "The changed profile.", body = ProfileResponse)
    ),
}

async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user_id): Id<UserId>,
    Change(body): Change<UpdateProfile>,
) -> Result<impl IntoResponse, ApiError> {
    let lists = lists(body);
    if lists.is_empty() {
        let names = ProfileList::ALL.map(|list| format!("`{}`", list.as_str())).join(", ");
        return Err(ApiError::field("", format!("nothing to change: give at least one of {names}")));
    }
    let max_entries = app.store(caller).knowledge_limits().max_profile_entries;
    for (list, entries) in &lists {
        check(*list, entries, max_entries)?;
    }
    let (profile, at) = app.store(caller).change_profile(user_id, lists).await?;
    Ok(Json(ProfileResponse { user_id, profile, updated_at: Some(Time(at)) }))
}

fn check(list: ProfileList, entries: &[String], max_entries: u32) -> Result<(), ApiError> {
    let list = list.as_str();
    if entries.len() > max_entries as usize {
        let detail = format!("has {} entries; at most {max_entries} are allowed", entries.len());
        return Err(ApiError::field(&format!("/{list}"), detail));
    }
    for (nth, entry) in entries.iter().enumerate() {
        let pointer = format!("/{list}/{nth}");
        check_text(&pointer, entry)?;
        if entry.trim().is_empty() {
            return Err(ApiError::field(&pointer, "must not be empty"));
        }
        check_size(&pointer, entry.len(), MAX_PROFILE_ENTRY_BYTES)?;
    }
    Ok(())
}

/// The lists that are given in `body`.
fn lists(body: UpdateProfile) -> Vec<(ProfileList, Vec<String>)> {
    let given = |list, entries: Option<Vec<String>>| entries.map(|entries| (list, entries));
    [
        given(ProfileList::Facts, body.facts),
        given(ProfileList::Preferences, body.preferences),
        given(ProfileList::CommunicationStyle, body.communication_style),
        given(ProfileList::Interests, body.interests),
        given(ProfileList::Aims, body.aims),
    ]
    .into_iter()
    .flatten()
    .collect()
}

endpoint! {
    DELETE: delete "/v1/users/{id}/profile" for USER => delete,
    tag = "users",
    operation_id = "delete_profile",
    summary = "Empty all lists of a user's profile.",
    params(
        ("id" = houston_domain::id::UserId, Path, description = "Id of the user.")
    ),
    responses(
        (status = 204, description = "The profile is empty.")
    ),
}

async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_profile(user).await?;
    Ok(StatusCode::NO_CONTENT)
}
