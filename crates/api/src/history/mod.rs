//! The history, i.e. what the model reads, for debugging. It is not part of the thread.

pub(crate) mod list;
