//! `/v1/errors`: failed runs of the tenant, grouped by their cause.

pub(crate) mod list;
