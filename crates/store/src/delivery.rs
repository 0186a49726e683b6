//! What leaves Houston, and what comes in: events for webhooks, and the messages of inbound hooks.

pub mod fan_out;
pub mod inbound_hook;
pub mod outbox;
pub mod replay;
pub mod task_push;
pub mod webhook;
