//! Logins at servers that use OAuth.

use houston_domain::mcp_server::{LOGIN_PATH, OAuthSettings};
use houston_tools::servers::OwnServer;
use secrecy::{ExposeSecret as _, SecretString};

use super::OwnPool;
use super::account::{now, sealable};
use crate::oauth::{self, Exchange, Pending};

/// A login that has begun.
#[derive(Debug)]
pub struct BegunLogin {
    /// What a person opens in a browser.
    pub url: String,
    /// What is kept, sealed, until the browser comes back.
    pub pending: SecretString,
}

impl OwnPool {
    /// Begins a login. `state`: what the browser brings back.
    ///
    /// # Errors
    /// Why it cannot begin, for people.
    pub async fn begin_login(&self, server: &OwnServer, state: &str) -> Result<BegunLogin, String> {
        let settings: &OAuthSettings = server
            .document
            .settings
            .oauth
            .as_ref()
            .ok_or("it does not use OAuth: put it with `\"oauth\": {}` if it does")?;
        let public_url = self.inner.public_url.as_deref().ok_or(
            "the operator of this installation has not set `tenants.public_url` in mcp.toml, the address where browsers reach it",
        )?;
        let redirect_uri = format!("{}{LOGIN_PATH}", public_url.trim_end_matches('/'));
        let exchange = self.exchange().await?;
        let begun = oauth::begin(&exchange, &server.document.url, settings, &redirect_uri, state).await;
        let (url, pending) = begun.map_err(|error| crate::text::cleaned(&error, MAX_ERROR))?;
        Ok(BegunLogin { url, pending: sealable(&pending) })
    }

    /// Ends a login with the code that the browser has brought: what is sealed as the account. `issuer`: who says to have sent it.
    ///
    /// # Errors
    /// Why not, for people.
    pub async fn finish_login(
        &self,
        pending: &SecretString,
        code: &str,
        issuer: Option<&str>,
    ) -> Result<SecretString, String> {
        let pending: Pending = serde_json::from_str(pending.expose_secret())
            .map_err(|_| "it was begun by another version of Houston: begin again".to_owned())?;
        let exchange = self.exchange().await?;
        let grant = oauth::finish(&exchange, &pending, code, issuer, now()).await?;
        Ok(sealable(&grant))
    }

    async fn exchange(&self) -> Result<Exchange<'_>, String> {
        let tls = self.inner.shared.tls().await.map_err(|error| error.to_string())?;
        Ok(Exchange { reach: &self.inner.reach, tls })
    }
}

/// The most characters of a reason.
const MAX_ERROR: usize = 1000;
