//! OAuth for MCP servers, as the protocol's chapter on authorization has it: the authorization code with PKCE.
//!
//! ```text
//! begin:  the server's challenge → metadata of the resource → of the authorization server → a client → the URL to open
//! finish: the code that the browser brings → tokens
//! renew:  the refresh token → tokens
//! ```
//!
//! Written here rather than with the feature `auth` of rmcp: that brings `oauth2` and another HTTP client, keeps logins in
//! memory, and this is what is left when every request goes through the guarded client. Nothing here has a `Debug` that shows a
//! secret, and no error contains one.

mod exchange;
mod metadata;

use serde::{Deserialize, Serialize};

pub(crate) use self::exchange::{Exchange, NotRenewed, begin, finish, renew};

/// What a client is to its authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientIds {
    pub(crate) id: String,
    /// Registered clients may get one, even if they ask for none.
    pub(crate) secret: Option<String>,
    /// Whether the secret is sent in a header.
    pub(crate) is_basic: bool,
}

/// A login that has begun. It is sealed until the browser comes back.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pending {
    issuer: String,
    /// Whether the authorization server says who it is when it answers.
    says_issuer: bool,
    token_endpoint: String,
    resource: String,
    redirect_uri: String,
    client: ClientIds,
    verifier: String,
}

/// What a login has given, as it is sealed.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Grant {
    token_endpoint: String,
    resource: String,
    client: ClientIds,
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
    /// Seconds since 1970; `None`: it was not said.
    pub(crate) expires_at: Option<i64>,
}
