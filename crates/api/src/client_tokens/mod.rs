//! Client tokens: what a backend gives to the browser or the phone of one of its users.

pub(crate) mod create;
pub(crate) mod delete;
