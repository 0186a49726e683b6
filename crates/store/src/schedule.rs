//! What starts without a message: check-ins, feeds and triggers.

pub mod check_in;
pub mod feed;
pub mod trigger;
mod trigger_effect;
pub mod trigger_firing;
pub mod trigger_reader;
