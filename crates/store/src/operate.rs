//! What operators look at and change: queues, workers, and the runs of a tenant.

pub mod audit;
pub mod cell_move;
pub mod ended;
pub mod lane_work;
pub mod moves;
pub mod paused_lane;
pub mod run_error;
pub mod run_list;
pub mod run_retry;
pub mod server_settings;
pub mod usage;
mod why;
pub mod worker_list;
