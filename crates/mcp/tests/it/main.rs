//! Tests with processes: a hostile server, and real ones.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails when its surroundings are not as expected"
)]

mod asking;
mod catalogue;
mod guest;
mod hostile;
mod http;
mod http_server;
mod npm;
mod own;
mod pip;
