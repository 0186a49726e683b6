//! `/v1/users/{id}/profile`: what is known of a user, in lists of short sentences. Everybody has one; nobody makes it.

pub(crate) mod change;
pub(crate) mod delete;
pub(crate) mod get;

use houston_domain::id::UserId;
use houston_domain::knowledge::Profile;
use serde::Serialize;

use crate::rfc3339::Time;

/// A profile as clients see it.
#[derive(Debug, Serialize)]
struct Shown {
    user_id: UserId,
    #[serde(flatten)]
    profile: Profile,
    /// Null until somebody writes it.
    updated_at: Option<Time>,
}
