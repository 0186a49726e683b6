//! Tests of clients: `houston chat`, and stream clients from npm.
//!
//! The scripts (`*.test.mjs`) run against any Houston with the simulated model: set `HOUSTON_URL` and
//! `HOUSTON_API_KEY`, then `npm ci && npm test` here. `resumable_fetch.mjs` may be used in any AG-UI client.

houston_testkit::shared_postgres!();

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod chat;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod conversation;
#[cfg(test)]
mod dev;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod embedded;
#[cfg(test)]
mod npm;
