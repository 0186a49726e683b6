//! Requests to addresses that a tenant, a page or a model names: one guarded client, and what is built on it.
//!
//! | module | purpose |
//! |---|---|
//! | [`address`] | which IP addresses are on the public internet: a pure function |
//! | [`target`] | which URLs may be asked for: a pure function |
//! | [`client`] | [`Client`]: sends requests within limits, follows redirects. [`TenantReach`]: which one an address of a tenant gets |
//! | [`search`] | [`search::Search`]: the providers of [`search::Provider`] |
//! | [`webhook`] | signatures of Standard Webhooks |
//! | [`sink`] | receivers of webhooks: their addresses, and one signed request |
//! | [`json_api`] | a customer's endpoints as tools, from a TOML file or an OpenAPI document |
//!
//! A request passes five checks: the URL, when it is sent and after each redirect (`target`); each address that the
//! resolver answers and each address in a URL, where the connection is opened (`connector`); the other end of the open
//! connection, before the first byte is sent; redirects (`request`); and the limits of time and size (`client`, `body`).
//!
//! # Invariants
//! - A client opens connections in `connector` only, to addresses that were judged there. There is no second look-up
//!   that could answer differently. No proxy is used, whatever the environment says.
//! - A client from [`Client::guarded`] reaches the public internet, without the operator's own ranges; one from
//!   [`Client::listed`] reaches the hosts that the operator lists, and nothing else. The two share no connections.
//! - Redirects: at most five, each judged like a first request, never from https to http. Another origin receives no
//!   header of the caller but `accept`, `accept-language` and `user-agent`. A request that writes is not repeated.
//! - A request ends within [`Limits::whole`], and no more than [`Limits::body`] bytes of a body are
//!   decompressed.
//! - Secrets are in headers with sensitive values. They are sent to public hosts over https only, and no error and no
//!   `Debug` output contains one. Errors contain no query of a URL and no address behind a name.
//! - Arguments of a model fill in values of a [`json_api::Endpoint`]: they change neither its host, nor the structure of
//!   its path, nor the names of its headers.
//! - All content of answers is written by others: it must be marked as untrusted where a model reads it.
//!
//! # Deliberately absent
//! - `reqwest`: its resolver is not asked for addresses in URLs, the other end of a connection can be seen only after the
//!   answer has arrived, and its connector cannot be replaced by one that counts. This client is hyper with a connector
//!   of ours, whose every dependency reqwest has too.
//! - HTTP/2, cookies, caches, and compression other than gzip: each is a way to more state or larger bombs.
//! - The conversion of HTML and PDF, which runs in the sandbox; character sets other than UTF-8.
//! - Retries: the run decides what may be repeated. [`WebError::may_have_been_sent`] says whether it may have happened.
//! - Rates per tool, and which hosts an agent may reach: guards decide that before a tool runs.
//! - YAML: OpenAPI documents in JSON can be read.
//!
//! # Add a rule
//! Rules for URLs are in `target`, for addresses in `address`, each a pure function; add the vectors that it refuses to
//! `tests/web/vectors.rs`.
//!
//! # Add a search provider
//! 1. Add a file to `search/` with the address of the provider's documentation, its parameters and limits on top, and a
//!    function `ask`: by `exchange::ask` if the answer has `results`, as most have; else by `exchange::json`, `exchange::hit`
//!    and `exchange::found`, with types of its own, whose list is required and every other field optional that the
//!    documentation does not promise. Add a variant of [`search::Provider`] with its name, key variable and address.
//! 2. What it cannot do becomes a line of [`search::Found::ignored`]; domain filters, if it has none of its own, become `site:`
//!    terms (`domains::with_terms`). If it has no pages, use `Query::window`.
//! 3. Name it and its key in `jobs/web.toml`, and add it to `tests/web/search.rs`: a variant of `Which` with an answer in its
//!    form, the request it sends, and what it ignores.

pub mod address;
mod body;
pub mod client;
mod connector;
pub mod error;
pub mod json_api;
pub mod network;
pub mod request;
pub mod response;
pub mod search;
pub mod sink;
pub mod target;
pub mod webhook;

pub use client::{Client, SystemTls, TenantReach};
pub use connector::Tls;
pub use error::{Failure, Fault, Phase, Refusal, WebError};
pub use request::{ContentTypes, Limits, Request};
pub use response::{Answer, Response};
pub use sink::Sinks;
pub use target::{ListedHost, Reach, Target};
