//! `/v1/images`: images that were posted with messages.

pub(crate) mod delete;
pub(crate) mod get;
