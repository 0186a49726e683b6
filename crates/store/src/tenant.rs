//! What a tenant owns besides its conversations: keys, users, agents, teams, agentables; creating and erasing them.

pub mod agent;
pub mod agentable;
pub mod answer;
pub mod api_key;
pub mod approval_links;
pub(crate) mod bound;
pub mod client_token;
pub mod copies;
pub mod creation;
pub mod directory;
pub mod erasure;
pub mod grants;
pub mod guards;
pub mod idempotency;
pub mod mcp_account;
pub mod mcp_server;
pub mod owner;
pub mod read_mark;
pub mod serving;
pub mod skill;
pub(crate) mod state;
pub mod stats;
pub mod team;
pub mod tool_source;
pub mod user;
