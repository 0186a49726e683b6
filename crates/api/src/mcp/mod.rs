//! `POST /mcp`: Houston as an MCP server over streamable HTTP, for desktop assistants: its tools read threads, post to them,
//! and list and answer questions.
//!
//! Each tool ([`tools`]) sends requests of the REST API ([`rest`]) with the key of the client: what a key may do, limits and
//! errors are those of the API, and are decided there. Nothing is remembered between two requests ([`endpoint`]).
//!
//! A call that waits reports its progress, if the client asks for it ([`progress`]).
//!
//! Not in the OpenAPI document: the protocol describes itself (`tools/list`).

mod calls;
mod endpoint;
mod progress;
mod rest;
mod tools;

pub(crate) use endpoint::over;
