//! [`OwnServers`]: what makes tools of the MCP servers of tenants and users. This crate and the engine do not know the
//! protocol, so the process that wires them passes an implementation.

use std::collections::BTreeMap;

use houston_domain::id::{TenantId, UserId};
use houston_domain::mcp_server::ServerSettings;
use houston_domain::mcp_server::pin::Pin;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::tool::SharedTool;

/// Makes tools of servers.
pub trait OwnServers: Send + Sync {
    /// The tools of a server that were approved. Nothing is sent before one of them is called.
    fn tools(&self, server: OwnServer) -> Vec<SharedTool>;
}

/// An MCP server of a tenant or a user.
#[derive(Debug, Clone)]
pub struct OwnServer {
    /// The tenant.
    pub tenant: TenantId,
    /// The user whose it is; `None`: the tenant's.
    pub user: Option<UserId>,
    /// Its name.
    pub name: String,
    /// Changes with the document and the headers.
    pub version: String,
    /// What is stored of it.
    pub document: ServerDocument,
    /// The headers that it gets.
    pub headers: BTreeMap<String, SecretString>,
}

/// What is stored of a server, without its secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerDocument {
    /// Its address.
    pub url: String,
    /// What its owner says of it.
    pub settings: ServerSettings,
    /// The approved tools, by the names that the server gives them.
    pub pins: BTreeMap<String, Pin>,
}
