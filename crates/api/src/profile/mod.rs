//! `/v1/users/{id}/profile`: what is known of a user, in lists of short sentences. Everybody has one; nobody makes it.

pub(crate) mod change;
pub(crate) mod delete;
pub(crate) mod get;
