//! [`ServerRows`]: what this crate asks to be stored of servers of tenants and users. It does not know the store, so the process
//! that wires it passes an implementation.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use houston_domain::id::{TenantId, UserId};

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerKey {
    /// The tenant.
    pub tenant: TenantId,
    /// The user whose it is; `None`: the tenant's.
    pub owner: Option<UserId>,
    /// Its name.
    pub name: String,
}

/// Stores what is found out about servers.
pub trait ServerRows: Send + Sync {
    /// Takes note that a server lists approved tools otherwise, so that they are not offered until a person approves them.
    /// `changed`: the hashes of the approved definitions, by the names that the server gives the tools.
    fn withhold(&self, server: ServerKey, changed: BTreeMap<String, String>) -> BoxFuture<'static, ()>;
}
