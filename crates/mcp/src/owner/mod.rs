//! [`Own`]: what the server of a tenant or a user needs besides its settings: its headers, the account whose token is sent, and its
//! place among the connections of its tenant. And [`ServerRows`]: what this crate asks to be stored of such servers. It does not
//! know the store, so the process that wires it passes an implementation.

mod account;
mod rooms;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ::http::header::HeaderMap;
use futures_util::future::BoxFuture;
use houston_domain::id::{TenantId, UserId};
use houston_web::TenantReach;
use secrecy::SecretString;

pub(crate) use self::account::{Account, NoToken, Token, now, sealable};
pub(crate) use self::rooms::{Leavable, Place, Rooms};

/// Shorter values of headers are no secrets, and would cut other words.
const MIN_SECRET: usize = 6;

/// What the server of a tenant or a user needs besides its settings.
#[derive(Clone)]
pub(crate) struct Own {
    pub(crate) key: ServerKey,
    pub(crate) headers: HeaderMap,
    /// Whose token is sent, if the server uses OAuth.
    pub(crate) account: Option<Arc<Account>>,
    pub(crate) reach: Arc<TenantReach>,
    pub(crate) rooms: Arc<Rooms>,
    pub(crate) rows: Rows,
    /// Whether changed tools were reported: once is enough for a version of a server.
    pub(crate) has_reported: Arc<AtomicBool>,
}

/// Set when the process has opened its store.
pub(crate) type Rows = Arc<OnceLock<Arc<dyn ServerRows>>>;

impl Own {
    /// Stores that the server lists these approved tools otherwise.
    pub(crate) fn report(&self, changed: BTreeMap<String, String>) -> Option<BoxFuture<'static, ()>> {
        let rows = self.rows.get().filter(|_| !self.has_reported.swap(true, Ordering::Relaxed))?;
        Some(rows.withhold(self.key.clone(), changed))
    }

    /// The text without the values of the headers, which a server may repeat in its errors.
    pub(crate) fn without_secrets(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in self.headers.values().filter_map(|value| value.to_str().ok()) {
            // Of `Bearer abc` the second word.
            let key = value.split_once(' ').map_or(value, |(_, key)| key);
            for secret in [value, key].into_iter().filter(|secret| secret.len() >= MIN_SECRET) {
                text = text.replace(secret, "…");
            }
        }
        text
    }
}

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
    fn account(&self, of: AccountKey) -> BoxFuture<'_, Result<Option<StoredAccount>, String>>;

    /// Takes the right to renew this version of an account, under a number; `false`: another process has it, or has used it.
    fn take_renewal(&self, of: AccountKey, version: i64, number: i64) -> BoxFuture<'_, Result<bool, String>>;

    /// Ends the renewal with this number.
    fn end_renewal(&self, of: AccountKey, number: i64, end: Renewal) -> BoxFuture<'_, Result<(), String>>;
}
