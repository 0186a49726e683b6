//! Driving one claimed run. Four parts, each of which uses only those below it:
//!
//! ```text
//!            driver           RunDriver: asks `AgentRun` what is next, and lets the others do it
//!      ┌───────┴───────┐
//!  model_turn     tool_runner   one model call; the tool calls of one turn
//!      └───────┬───────┘
//!           journal           the fence: steps, retries, events to streams
//!      ┌───────┴───────┐
//!   storage         signals     Postgres; what interrupts a wait
//! ```

pub(crate) mod driver;
pub(crate) mod journal;
pub(crate) mod model_turn;
pub(crate) mod services;
pub(crate) mod signals;
pub(crate) mod storage;
pub(crate) mod tool_runner;

#[cfg(test)]
mod tests;
