//! `GET /v1/{kinds}/{id}/events`: what happens to an agentable, as it happens, without a gap.
//!
//! [`render`] turns durable events into AG-UI; [`cursor`] decides what one client must be sent next;
//! [`stream`] feeds it from Postgres and the bus and is the body of the response; [`streams`] looks after all of
//! them. The position of a client is the `id` of the last frame it has ([`position`]); nothing is kept for it
//! between connections.

pub(crate) mod cursor;
pub(crate) mod fact;
pub(crate) mod get;
pub(crate) mod position;
pub(crate) mod render;
pub(crate) mod snapshot;
pub(crate) mod stream;
pub(crate) mod streams;
