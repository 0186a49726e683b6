//! `PATCH /v1/users/{id}/profile`: replaces the given lists.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_domain::profile::{MAX_PROFILE_ENTRY_BYTES, ProfileList};
use houston_protocol::time::Time;
use houston_protocol::user::{ProfileResponse, UpdateProfile};

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::{check_size, check_text};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::fields::Change;
use crate::state::App;

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
    CHANGE: patch "/v1/users/{id}/profile" => change,
    tag = "users",
    operation_id = "update_profile",
    summary = "Replace the given lists of a user's profile; the other lists stay as they are.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user.")
    ),
    request_body = UpdateProfile,
    responses(
        (status = 200, description = "The changed profile.", body = ProfileResponse)
    ),
}

pub(crate) async fn change(
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
