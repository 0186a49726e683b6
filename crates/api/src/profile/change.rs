//! `PATCH /v1/users/{id}/profile`: each list that is given takes the place of the one there was.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_domain::knowledge::{MAX_PROFILE_ENTRIES, MAX_PROFILE_ENTRY_BYTES, ProfileList};
use serde::Deserialize;

use super::Shown;
use crate::auth::Caller;
use crate::body::{Creation, check_size, check_text};
use crate::error::ApiError;
use crate::place::Id;
use crate::rfc3339::Time;
use crate::state::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    facts: Option<Vec<String>>,
    preferences: Option<Vec<String>>,
    communication_style: Option<Vec<String>>,
    interests: Option<Vec<String>>,
    aims: Option<Vec<String>>,
}

impl Body {
    /// The lists that are given.
    fn lists(self) -> Vec<(ProfileList, Vec<String>)> {
        let given = |list, entries: Option<Vec<String>>| entries.map(|entries| (list, entries));
        [
            given(ProfileList::Facts, self.facts),
            given(ProfileList::Preferences, self.preferences),
            given(ProfileList::CommunicationStyle, self.communication_style),
            given(ProfileList::Interests, self.interests),
            given(ProfileList::Aims, self.aims),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user_id): Id<UserId>,
    // Sent twice, it changes nothing twice: a key has nothing to add.
    Creation { value: body, key: _ }: Creation<Body>,
) -> Result<impl IntoResponse, ApiError> {
    let lists = body.lists();
    if lists.is_empty() {
        let names = ProfileList::ALL.map(|list| format!("`{}`", list.as_str())).join(", ");
        return Err(ApiError::field("", format!("nothing changes: give at least one of {names}")));
    }
    for (list, entries) in &lists {
        check(*list, entries)?;
    }
    let (profile, at) = app.store().change_profile(caller.tenant, user_id, lists).await?;
    Ok(Json(Shown { user_id, profile, updated_at: Some(Time(at)) }))
}

fn check(list: ProfileList, entries: &[String]) -> Result<(), ApiError> {
    let list = list.as_str();
    if entries.len() > MAX_PROFILE_ENTRIES {
        let detail = format!("has {} entries; {MAX_PROFILE_ENTRIES} are allowed", entries.len());
        return Err(ApiError::field(&format!("/{list}"), detail));
    }
    for (nth, entry) in entries.iter().enumerate() {
        let pointer = format!("/{list}/{nth}");
        check_text(&pointer, entry)?;
        if entry.trim().is_empty() {
            return Err(ApiError::field(&pointer, "may not be empty"));
        }
        check_size(&pointer, entry.len(), MAX_PROFILE_ENTRY_BYTES)?;
    }
    Ok(())
}
