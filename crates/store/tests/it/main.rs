//! Tests of the store on a real Postgres.

houston_testkit::shared_postgres!();

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod application;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod bytes;
#[cfg(test)]
mod cell_moves;
#[cfg(test)]
mod client_offers;
#[cfg(test)]
mod compression;
#[cfg(test)]
mod context_cache;
#[cfg(test)]
mod conversation;
#[cfg(test)]
mod cost;
#[cfg(test)]
mod deaths;
#[cfg(test)]
mod direct_start;
#[cfg(test)]
mod equality;
#[cfg(test)]
mod erasing;
#[cfg(test)]
mod event_position;
#[cfg(test)]
mod exported_approvals;
#[cfg(test)]
mod fairness;
#[cfg(test)]
mod files;
#[cfg(test)]
mod lease;
#[cfg(test)]
mod paused_calls;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod post;
#[cfg(test)]
mod prepared;
#[cfg(test)]
mod primary;
#[cfg(test)]
mod rates;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod restored;
#[cfg(test)]
mod row_security;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod session_search;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod shards;
#[cfg(test)]
mod step;
#[cfg(test)]
mod system_messages;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod tenants;
#[cfg(test)]
mod test_store;
#[cfg(test)]
mod texting;
#[cfg(test)]
mod trigger_bus;
#[cfg(test)]
mod trigger_effects;
#[cfg(test)]
mod triggers;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod webhooks;
