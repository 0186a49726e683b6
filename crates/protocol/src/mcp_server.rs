//! MCP servers of tenants and users, and their tools.

use std::collections::BTreeMap;

pub use houston_domain::mcp_server::OAuthSettings as McpOAuth;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::Time;

/// An MCP server over HTTP: `{"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer …"}, "kinds": ["goal"]}`.
#[derive(Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutMcpServer {
    /// Its address: https, on the public internet.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub url: String,
    /// Headers that it gets, which cannot be read again. Given, they replace all that are stored; without, those stay if the
    /// address is the same.
    pub headers: Option<BTreeMap<String, String>>,
    /// Whether its tools are offered; by default true.
    pub enabled: Option<bool>,
    /// The kinds whose agents are offered its tools. Agents of other kinds name them under `tools`.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Which of its tools may be offered once they are approved, by the names that the server gives them; without, all.
    pub only: Option<Vec<String>>,
    /// Seconds of one call, from 1 to 600; by default 60.
    pub timeout_s: Option<u64>,
    /// What is said of single tools, by the names that the server gives them.
    #[serde(default)]
    pub tools: BTreeMap<String, McpToolSettings>,
    /// How people log in, if the server uses OAuth: `{}` is enough for most.
    pub oauth: Option<McpOAuth>,
    /// Not allowed: only the operator names programs.
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub transport: Option<String>,
    /// Not allowed, as the next two.
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub command: Option<IgnoredAny>,
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub args: Option<IgnoredAny>,
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub env: Option<IgnoredAny>,
}

/// What is said of a tool; what the server says of it can only make it stricter: `{"effect": "read", "risk": "read"}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct McpToolSettings {
    /// Whether a call may be repeated after a crash: `read`, `idempotent` or `effect`; by default `effect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// What may go wrong: `read`, `write`, `external`, `exec` or `destructive`, which is the default. It decides whether a call
    /// asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
}

/// What a person opens to log in: `{"url": "https://login.example.com/authorize?…"}`. It works for ten minutes, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpLoginResponse {
    pub url: String,
}

/// An MCP server, without its headers.
///
/// ```json
/// {"name": "crm", "url": "https://mcp.example.com/mcp", "headers": ["Authorization"], "enabled": true, "kinds": ["goal"],
///  "only": null, "timeout_s": 60, "tools": {"search": {"effect": "read", "risk": "read"}}, "oauth": null, "login": null,
///  "offered": ["crm__search"], "withheld": [], "created_at": "2026-11-25T09:00:00.000Z", "updated_at": "2026-11-25T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpServerResponse {
    pub name: String,
    pub url: String,
    /// The names of its headers.
    pub headers: Vec<String>,
    pub enabled: bool,
    pub kinds: Vec<String>,
    pub only: Option<Vec<String>>,
    pub timeout_s: u64,
    pub tools: BTreeMap<String, McpToolSettings>,
    pub oauth: Option<McpOAuth>,
    /// Of a server with `oauth`: `logged_in` if its owner has an account there, else `needs_login`.
    pub login: Option<String>,
    /// The names under which its approved tools are offered.
    pub offered: Vec<String>,
    /// Tools that were approved and are not offered: the server has listed them with another definition since.
    pub withheld: Vec<String>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// All MCP servers of the tenant, or of a user, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpServerList {
    pub data: Vec<McpServerResponse>,
}

/// A tool that a server lists now, or that was approved before.
///
/// ```json
/// {"name": "search", "state": "changed", "sha256": "9f…", "description": "Searches, and steals.", "input_schema": {},
///  "hints": {"read_only": true}, "offered_as": null, "refused": null, "changed": ["description"],
///  "approved": {"sha256": "3a…", "description": "Searches.", "input_schema": {}, "hints": {"read_only": true}}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpToolResponse {
    /// The name that the server gives it.
    pub name: String,
    /// `approved`: it is the approved one; `new`: it was never approved; `changed`: it is another one than the one that was
    /// approved; `gone`: it was approved, and the server does not list it; `refused`: it cannot be offered to models.
    pub state: String,
    /// What is approved: the hash of its definition.
    pub sha256: String,
    pub description: String,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub input_schema: Value,
    /// What the server says of it: `read_only`, `destructive`, `idempotent`, `open_world`.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub hints: Value,
    /// The name under which agents are offered it.
    pub offered_as: Option<String>,
    /// Why it cannot be offered to models.
    pub refused: Option<String>,
    /// What has changed since it was approved: `description`, `input_schema`, `hints`, or `other`.
    pub changed: Vec<String>,
    /// The definition that was approved, if it is another one.
    pub approved: Option<McpToolDefinition>,
}

/// The definition of a tool as it was approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpToolDefinition {
    pub sha256: String,
    pub description: String,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub input_schema: Value,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub hints: Value,
}

/// The tools of a server, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpToolList {
    pub data: Vec<McpToolResponse>,
}

/// Tools that a person has read and approves: `{"tools": {"search": "9f…"}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ApproveMcpTools {
    /// The `sha256` of each, by the names that the server gives them. If the server lists another definition by now, none is
    /// approved.
    pub tools: BTreeMap<String, String>,
}
