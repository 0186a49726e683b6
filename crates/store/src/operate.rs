//! What operators look at and change: queues, workers, and the runs of a tenant.

pub mod lane_work;
pub mod worker_list;
