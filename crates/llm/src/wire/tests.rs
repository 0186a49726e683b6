//! What all wires encode.

mod context;
mod forced;
