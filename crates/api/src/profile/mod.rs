//! `/v1/users/{id}/profile`: lists of short sentences about a user. Every user has a profile from the beginning; it is not
//! created.

pub(crate) mod change;
pub(crate) mod delete;
pub(crate) mod get;
