//! What the tests of this folder share: a process and a storage without servers.

pub(in crate::run) mod fixture;
mod memory_questions;
pub(in crate::run) mod memory_storage;
pub(in crate::run) mod memory_transaction;
pub(in crate::run) mod pausing_tool;
pub(in crate::run) mod scripted_code;
pub(in crate::run) mod scripted_model;
mod test_config;
