//! The system prompt: XML sections by agent type, stable ones first, so that provider prompt caches hit.
//!
//! # Add a section
//! A function in [`sections`] that writes its XML, and a line in [`compose::compose`] at the place its volatility
//! allows: what changes seldom comes before what changes often.

pub mod agent_history;
pub mod compose;
pub mod sections;
