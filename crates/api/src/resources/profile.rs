//! `/v1/users/{id}/profile`: lists of short sentences about a user. Every user has a profile from the beginning; it is not
//! created.

use houston_domain::id::UserId;
use houston_domain::profile::{MAX_PROFILE_ENTRY_BYTES, ProfileList};
use houston_protocol::user::{ProfileResponse, UpdateProfile};

use crate::request::prelude::*;

endpoints! {
    get "/v1/users/{id}/profile" for USER => get,
    "get_profile" in "users": "Get the profile of a user.",
    200 "The profile." [ProfileResponse];

    patch "/v1/users/{id}/profile" for USER => change,
    "update_profile" in "users": "Replace the given lists of a user's profile; the other lists stay as they are.",
    body [UpdateProfile],
    200 "The changed profile." [ProfileResponse];

    delete "/v1/users/{id}/profile" for USER =>
        async |ctx: Ctx, Id(user): Id<UserId>| gone(ctx.store().delete_profile(user).await),
    "delete_profile" in "users": "Empty all lists of a user's profile.",
    204 "The profile is empty.";
}

async fn get(ctx: Ctx, Id(user_id): Id<UserId>) -> Result<impl IntoResponse> {
    let (profile, updated_at) = ctx.store().profile(user_id).await?;
    Ok(Json(ProfileResponse { user_id, profile, updated_at: updated_at.map(Time) }))
}

async fn change(
    ctx: Ctx,
    Id(user_id): Id<UserId>,
    Change(body): Change<UpdateProfile>,
) -> Result<impl IntoResponse> {
    let lists = lists(body);
    if lists.is_empty() {
        let names = ProfileList::ALL.map(|list| format!("`{}`", list.as_str())).join(", ");
        return Err(ApiError::field("", format!("nothing to change: give at least one of {names}")));
    }
    let max_entries = ctx.store().knowledge_limits.max_profile_entries;
    for (list, entries) in &lists {
        check(*list, entries, max_entries)?;
    }
    let (profile, at) = ctx.store().change_profile(user_id, lists).await?;
    Ok(Json(ProfileResponse { user_id, profile, updated_at: Some(Time(at)) }))
}

fn check(list: ProfileList, entries: &[String], max_entries: u32) -> Result<()> {
    let list = list.as_str();
    if entries.len() > max_entries as usize {
        let detail = format!("has {} entries; at most {max_entries} are allowed", entries.len());
        return Err(ApiError::field(&format!("/{list}"), detail));
    }
    for (nth, entry) in entries.iter().enumerate() {
        let pointer = format!("/{list}/{nth}");
        check_text(&pointer, entry)?;
        ensure!(!entry.trim().is_empty(), ApiError::field(&pointer, "must not be empty"));
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
