//! What operators look at and change: queues, workers, and the runs of a tenant.

pub mod lane_work;
pub mod run_error;
pub mod run_list;
pub mod run_retry;
pub mod worker_list;
