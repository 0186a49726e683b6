//! Which model answers a call, and what happens when it fails.
//!
//! | module | what it does |
//! |---|---|
//! | [`router`] | selects and orders the models suitable for a request |
//! | [`fallback`] | asks the next model when one fails |
//! | [`guard`] | wraps a model with the following |
//! | [`retry`] | repeats a failed call at once, within the limit of retries that a provider is sent |
//! | [`breaker`] | circuit breaker: stops calling a model that keeps failing |
//! | [`latency`] | measures how fast models answer |
//! | `meter` | counts requests for Prometheus |

pub mod breaker;
pub mod fallback;
pub mod guard;
pub mod latency;
mod meter;
pub mod retry;
pub mod router;
mod window;
