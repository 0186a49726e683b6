//! What the hot queries cost among 100,000 agentables with 1,000,000 messages: the plan of each, also of the
//! statements inside functions, and what it touches. Never a time: a slow machine is no bad plan.
//!
//! Postgres' own `auto_explain` reports each plan as it was executed, the texts are those of the service
//! (`.sqlx`). Each query is planned for its values (as the first few times on a connection) and for any values
//! (as ever after).
//!
//! # Recipe: add a query, or change one
//!
//! A line in `case.rs`: its name, when it is asked, with what, which indexes it must use, and how many rows and
//! blocks it may touch: a handful more than it does, nothing that grows with a table.

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod archived;
#[cfg(test)]
mod begun;
#[cfg(test)]
mod case;
#[cfg(test)]
mod conversation;
#[cfg(test)]
mod long;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod scale;
