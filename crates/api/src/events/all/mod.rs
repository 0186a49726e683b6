//! `GET /v1/events` and `GET /v1/users/{id}/events`: the events of all agentables of a tenant, or of a user, as CloudEvents.
//!
//! One poll for each cell and process reads the new events of all tenants that have such a stream open ([`feeds`]), so that an
//! idle stream costs nothing. A stream that resumes first reads from its position to the present end by itself ([`stream`]).
//! Between both an event may arrive twice, and none is lost: events have ids.

pub(crate) mod feeds;
pub(crate) mod get;
mod position;
mod stream;
