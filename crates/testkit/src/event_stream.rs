//! The event streams of a database, for statements of tests.

/// A query for all events, with the columns of `houston.events`: also those that are not stored, because they follow
/// from messages and runs. To be put in parentheses after `from`.
pub const EVENTS: &str = include_str!("event_stream.sql");
