//! The ten sections, and those of hooks, one file each: pure functions that return a [`Section`](super::section::Section).

pub mod added;
pub mod automation;
pub mod autonomy;
pub mod base;
pub mod capabilities;
pub mod conversation;
pub mod custom_instructions;
pub mod profile;
pub mod skills;
pub mod time;
pub mod tools;
pub mod workspace;
