//! [`ForeignServers`]: what reaches MCP servers for requests. This crate does not know their protocol, so the process that
//! wires it passes an implementation.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::BoxFuture;
use houston_domain::id::{TenantId, UserId};
use houston_domain::mcp_server::ServerSettings;
use houston_domain::mcp_server::pin::ListedTool;
use secrecy::SecretString;

/// Reaches MCP servers of tenants and users.
pub trait ForeignServers: fmt::Debug + Send + Sync {
    /// What is wrong with an address or with headers: a JSON Pointer, and what is allowed. Nothing is sent.
    fn problem(&self, url: &str, headers: &BTreeMap<String, SecretString>) -> Option<(&'static str, String)>;

    /// The tools that a server lists now, within 8 s. The error says why not, without secrets.
    fn tools(&self, server: ForeignServer) -> BoxFuture<'static, Result<Vec<ListedTool>, String>>;

    /// Begins a login at a server that uses OAuth. `state`: what the browser brings back. The error says why not, without secrets.
    fn begin_login(
        &self,
        server: ForeignServer,
        state: String,
    ) -> BoxFuture<'static, Result<BegunForeignLogin, String>>;

    /// Ends a login: what is sealed as the account. The error says why not, without secrets.
    fn finish_login(&self, login: ReturnedLogin) -> BoxFuture<'static, Result<SecretString, String>>;
}

/// A login that has begun.
#[derive(Debug)]
pub struct BegunForeignLogin {
    /// What a person opens in a browser.
    pub url: String,
    /// What is kept, sealed, until the browser comes back.
    pub pending: SecretString,
}

/// A login whose browser has come back.
#[derive(Debug)]
pub struct ReturnedLogin {
    /// What was kept.
    pub pending: SecretString,
    /// The code that the authorization server has sent with the browser.
    pub code: SecretString,
    /// Who that server says it is.
    pub issuer: Option<String>,
}

/// A server to be asked for its tools.
#[derive(Debug, Clone)]
pub struct ForeignServer {
    /// The tenant.
    pub tenant: TenantId,
    /// The user whose it is; `None`: the tenant's.
    pub user: Option<UserId>,
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: String,
    /// What its owner says of it.
    pub settings: ServerSettings,
    /// The headers that it gets.
    pub headers: BTreeMap<String, SecretString>,
}
