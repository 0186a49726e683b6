//! [`Own`]: what the server of a tenant or a user needs besides its settings: its headers, the account whose token is sent, and its
//! place among the connections of its tenant.

mod account;
mod rooms;
mod rows;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ::http::header::HeaderMap;
use futures_util::future::BoxFuture;

pub(crate) use self::account::{Account, NoToken, Token, now, sealable};
pub(crate) use self::rooms::{Leavable, Place, Rooms};
pub use self::rows::{AccountKey, Renewal, ServerKey, ServerRows, StoredAccount};
use crate::reach::OwnReach;

/// Shorter values of headers are no secrets, and would cut other words.
const MIN_SECRET: usize = 6;

/// What the server of a tenant or a user needs besides its settings.
#[derive(Clone)]
pub(crate) struct Own {
    pub(crate) key: ServerKey,
    pub(crate) headers: HeaderMap,
    /// Whose token is sent, if the server uses OAuth.
    pub(crate) account: Option<Arc<Account>>,
    pub(crate) reach: Arc<OwnReach>,
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
