//! `/v1/overview`: what an operator sees first.

pub(crate) mod ended;
pub(crate) mod get;
