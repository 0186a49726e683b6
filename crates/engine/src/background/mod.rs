//! Work that no user waits for: titles, summaries of closed sessions, and the models that write them.

pub mod sessions;
pub(crate) mod side_model;
pub mod titles;
