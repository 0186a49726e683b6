//! `/v1/usage`: what the runs of the tenant cost.

pub(crate) mod get;
