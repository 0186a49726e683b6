//! [`ServerRows`]: what this crate asks to be stored of servers of tenants and users. It does not know the store, so the process
//! that wires it passes an implementation.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use houston_domain::id::{TenantId, UserId};
use secrecy::SecretString;

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

/// An account at a server that uses OAuth.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AccountKey {
    /// The server.
    pub server: ServerKey,
    /// Who has logged in; `None`: the tenant, for all its users.
    pub user: Option<UserId>,
}

/// What is stored of an account.
#[derive(Debug, Clone)]
pub struct StoredAccount {
    /// The address of the server that the login was for.
    pub url: String,
    /// Counts what was stored.
    pub version: i64,
    /// What the login has given; `None`: it was refused.
    pub grant: Option<SecretString>,
}

/// How a renewal has ended.
#[derive(Debug)]
pub enum Renewal {
    /// With this grant.
    Done(SecretString),
    /// It was refused for good: a person must log in again.
    Refused,
    /// It has failed, and may work later.
    Left,
}

/// Stores what is found out about servers, and reads accounts. The errors are for models and people.
pub trait ServerRows: Send + Sync {
    /// Takes note that a server lists approved tools otherwise, so that they are not offered until a person approves them.
    /// `changed`: the hashes of the approved definitions, by the names that the server gives the tools.
    fn withhold(&self, server: ServerKey, changed: BTreeMap<String, String>) -> BoxFuture<'static, ()>;

    /// An account; `None`: there was no login.
    fn account(&self, of: AccountKey) -> BoxFuture<'static, Result<Option<StoredAccount>, String>>;

    /// Takes the right to renew this version of an account, under a number; `false`: another process has it, or has used it.
    fn take_renewal(
        &self,
        of: AccountKey,
        version: i64,
        number: i64,
    ) -> BoxFuture<'static, Result<bool, String>>;

    /// Ends the renewal with this number.
    fn end_renewal(
        &self,
        of: AccountKey,
        number: i64,
        end: Renewal,
    ) -> BoxFuture<'static, Result<(), String>>;
}
