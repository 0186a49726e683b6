//! `GET /v1/{kinds}/{id}/events`: the live event stream of an agentable, without gaps.
//!
//! [`render`] converts durable events to AG-UI; [`cursor`] decides what one client must be sent next; [`dialect`] writes
//! it in the protocol of the endpoint; [`stream`] is the body of the response and feeds the cursor from Postgres and the
//! bus; [`open`] opens one; [`streams`] is the registry of all open streams. The position of a client is the `id` of the last frame it has ([`position`]); the server stores nothing
//! about a client between connections.
//!
//! [`ag_ui`] is the endpoint for AG-UI clients, which post a message or answers and read the stream of what follows.

pub(crate) mod abort;
pub(crate) mod ag_ui;
pub(crate) mod all;
pub(crate) mod cursor;
pub(crate) mod dialect;
pub(crate) mod fact;
pub(crate) mod get;
pub(crate) mod heartbeat;
pub(crate) mod interrupt;
pub(crate) mod open;
pub(crate) mod plan;
pub(crate) mod position;
pub(crate) mod render;
pub(crate) mod snapshot;
pub(crate) mod stream;
pub(crate) mod streams;
