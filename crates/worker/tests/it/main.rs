//! Workers with a real Postgres and a real Redis, without HTTP: tests post messages through the store.

houston_testkit::shared_postgres!();

// `cfg(test)` so that clippy treats these modules as tests.
#[cfg(test)]
mod agent_messages;
#[cfg(test)]
mod answer;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod erasing;
#[cfg(test)]
mod executor_limits;
#[cfg(test)]
mod failure;
#[cfg(test)]
mod fairness;
#[cfg(test)]
mod fallback;
#[cfg(test)]
mod focus;
#[cfg(test)]
mod guarded;
#[cfg(test)]
mod health;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod lease;
#[cfg(test)]
mod own_tools;
#[cfg(test)]
mod paid;
#[cfg(test)]
mod paused_lanes;
#[cfg(test)]
mod pauses;
#[cfg(test)]
mod plan_changes;
#[cfg(test)]
mod plan_tools;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod race;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod retry;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod sink;
#[cfg(test)]
mod spending;
#[cfg(test)]
mod stalled_plans;
#[cfg(test)]
mod storm;
#[cfg(test)]
mod sweeps;
#[cfg(test)]
mod task_push;
#[cfg(test)]
mod texting;
#[cfg(test)]
mod triggers;
#[cfg(test)]
mod typed;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod watchdog;
#[cfg(test)]
mod webhooks;
#[cfg(test)]
mod workers;
