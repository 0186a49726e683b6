//! What starts without a message: check-ins and feeds.

pub mod check_in;
pub mod feed;
