//! The API over a real socket, a real Postgres and a real Redis. The tests act as the worker.

houston_testkit::shared_postgres!();

#[cfg(test)]
mod a2a;
#[cfg(test)]
mod a2a_push;
#[cfg(test)]
mod access;
#[cfg(test)]
mod agents;
#[cfg(test)]
mod all_events;
#[cfg(test)]
mod approval_links;
#[cfg(test)]
mod archived;
#[cfg(test)]
mod attachments;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod auth;
#[cfg(test)]
mod client_tokens;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod conversation;
#[cfg(test)]
mod cors;
#[cfg(test)]
mod creation;
#[cfg(test)]
mod deadline;
#[cfg(test)]
mod double_texting;
#[cfg(test)]
mod endpoints;
#[cfg(test)]
mod erasing;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod etags;
#[cfg(test)]
mod expired_events;
#[cfg(test)]
mod failure;
#[cfg(test)]
mod fields;
#[cfg(test)]
mod files;
#[cfg(test)]
mod finding;
#[cfg(test)]
mod guards;
#[cfg(test)]
mod heavy_requests;
#[cfg(test)]
mod http;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod images;
#[cfg(test)]
mod inbound_hooks;
#[cfg(test)]
mod issuers;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod kinds;
#[cfg(test)]
mod knowledge;
#[cfg(test)]
mod live;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod mcp_servers;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod models;
#[cfg(test)]
mod openai;
#[cfg(test)]
mod openai_access;
#[cfg(test)]
mod operators;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod probes;
#[cfg(test)]
mod proxied;
#[cfg(test)]
mod questions;
#[cfg(test)]
mod rates;
#[cfg(test)]
mod read_marks;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod resources;
#[cfg(test)]
mod run_list;
#[cfg(test)]
mod run_wait;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod shared_state;
#[cfg(test)]
mod skills;
#[cfg(test)]
mod snippets;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod test_api;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod triggers;
#[cfg(test)]
mod webhooks;
#[cfg(test)]
mod worker;
