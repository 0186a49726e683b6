//! What the console needs of its process for signing in with an identity provider: it imports neither the store nor a client.

use std::fmt;
use std::pin::Pin;

use chrono::{DateTime, Utc};
use houston_domain::scope::Scopes;
use secrecy::SecretString;

/// An answer that is on its way, or why there is none.
pub type Awaited<T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

/// Asks identity providers, and makes keys for those who sign in with one.
pub trait Outside: fmt::Debug + Send + Sync {
    /// Sends a request to the provider. It must follow no redirections, and end within seconds.
    fn ask(&self, question: Question) -> Awaited<Reply>;

    /// Makes an API key.
    fn make_key(&self, wanted: WantedKey) -> Awaited<SecretString>;

    /// Revokes a key, if it was made here: a key that was typed in stays valid after signing out.
    fn end_key(&self, key: SecretString) -> Awaited<()>;
}

/// A request to an identity provider.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Where to.
    pub url: String,
    /// The body of a POST request, `application/x-www-form-urlencoded`; without one, it is a GET request.
    pub form: Option<SecretString>,
    /// The header `Authorization`.
    pub authorization: Option<SecretString>,
}

/// What a provider answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// The key of a person's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedKey {
    /// The name of the tenant.
    pub tenant: String,
    /// Whose it is: lists of keys and the audit log show it.
    pub name: String,
    /// What it allows.
    pub scopes: Scopes,
    /// When it stops being valid: with the session.
    pub expires_at: DateTime<Utc>,
}
