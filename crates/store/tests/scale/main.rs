//! What the hot queries cost among 100,000 agentables with 1,000,000 messages: the plan of each, also of the
//! statements inside functions, and what it touches. Times are not measured, since a slow machine does not mean a bad plan.
//!
//! Postgres' own `auto_explain` reports each plan as it was executed, the texts are those of the service
//! (`.sqlx`). Each query is planned twice: for its values (a custom plan, as in its first executions
//! on a connection) and for any values (a generic plan, as later); those of requests once more, under row-level security.
//!
//! # Recipe: add a query, or change one
//!
//! Add a line to `case.rs` or the file of its subject: the name, the situation, the arguments, the indexes it must use, and the maximum numbers
//! of rows and blocks: slightly more than it touches, and nothing that grows with a table.

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod archived;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod begun;
#[cfg(test)]
mod case;
#[cfg(test)]
mod conversation;
#[cfg(test)]
mod focus;
#[cfg(test)]
mod long;
#[cfg(test)]
mod operate;
#[cfg(test)]
mod phone;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod scale;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod triggers;
#[cfg(test)]
mod waiting;
