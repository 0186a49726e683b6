//! What a request is to every handler: whose it is and what it may do ([`auth`], [`access`]), what its path, query and body say,
//! its idempotency key and its rate limit; and how an [`endpoint`] is declared and described.
//!
//! Nothing here knows a resource: a check that two resources share is here, and what one resource alone needs is in its file.

pub(crate) mod access;
pub(crate) mod agentable_path;
pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod checks;
pub(crate) mod endpoint;
pub(crate) mod idempotency;
pub(crate) mod missing_cells;
pub(crate) mod named_user;
pub(crate) mod page;
pub(crate) mod prelude;
pub(crate) mod query;
pub(crate) mod rates;
pub(crate) mod request_trace;
