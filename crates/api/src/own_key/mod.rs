//! `/v1/key`: the key of the request itself.

pub(crate) mod get;
