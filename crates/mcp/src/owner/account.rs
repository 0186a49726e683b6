//! [`Account`]: the token that one connection sends, renewed when it has expired or was refused.

use std::sync::Arc;
use std::time::Duration;

use ::http::header::HeaderValue;
use houston_domain::clock::{Clock as _, SystemClock};
use houston_web::{TenantReach, Tls};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::{AccountKey, Renewal, Rows};
use crate::oauth::{Exchange, Grant, NotRenewed, renew};

/// Tokens are renewed this many seconds before they expire.
const EARLY: i64 = 30;
/// How long a process waits for another that renews the same tokens, and how often it looks.
const WAIT: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(200);

/// An account of a tenant or a user at a server.
pub(crate) struct Account {
    key: AccountKey,
    /// The address of the server: what is stored for another one is not sent.
    url: String,
    reach: Arc<TenantReach>,
    rows: Rows,
    /// The tasks that get tokens.
    pub(crate) tracker: TaskTracker,
    /// Locked while the token is read or renewed, so that calls of one connection do that once.
    held: Mutex<Option<Token>>,
}

/// A token, ready to be sent.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) header: HeaderValue,
    version: i64,
    expires_at: Option<i64>,
}

/// Why there is no token.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum NoToken {
    #[error(
        "needs_login: there is no login at this server, or it has expired. {0} answers with the URL to open"
    )]
    NeedsLogin(String),
    #[error("its login could not be renewed: {0}")]
    Failed(String),
}

impl Account {
    pub(crate) fn new(
        key: AccountKey,
        url: &str,
        reach: Arc<TenantReach>,
        rows: Rows,
        tracker: TaskTracker,
    ) -> Self {
        Self { key, url: url.to_owned(), reach, rows, tracker, held: Mutex::default() }
    }

    /// The token that is in use, as its header says it.
    pub(crate) fn held(&self) -> Option<String> {
        let held = self.held.try_lock().ok()?;
        held.as_ref()?.header.to_str().ok().map(str::to_owned)
    }

    /// The token to send; another one than `refused`.
    ///
    /// # Errors
    /// [`NoToken`].
    pub(crate) async fn token(&self, refused: Option<&Token>, tls: &Tls) -> Result<Token, NoToken> {
        let mut held = self.held.lock().await;
        let refused = refused.map(|token| token.version);
        let is_good = |version: i64, expires_at: Option<i64>| {
            Some(version) != refused && expires_at.is_none_or(|at| at > now() + EARLY)
        };
        if let Some(token) = held.as_ref().filter(|token| is_good(token.version, token.expires_at)) {
            return Ok(token.clone());
        }
        *held = None;
        let (deadline, mut first) = (Instant::now() + WAIT, None);
        loop {
            let (version, grant) = self.stored().await?;
            // One that was renewed just now is sent however soon it expires: otherwise it would be renewed for ever.
            let is_new = *first.get_or_insert(version) != version;
            if is_new || is_good(version, grant.expires_at) {
                return Ok(held.insert(token_of(version, &grant)?).clone());
            }
            if !self.renewed(version, &grant, tls).await? {
                if Instant::now() > deadline {
                    return Err(NoToken::Failed(
                        "another process is renewing it: try again later".to_owned(),
                    ));
                }
                sleep(LOOK).await;
            }
        }
    }

    async fn stored(&self) -> Result<(i64, Grant), NoToken> {
        let rows = self.rows.get().ok_or_else(|| NoToken::Failed("this process has no store".to_owned()))?;
        let stored = rows.account(self.key.clone()).await.map_err(NoToken::Failed)?;
        let stored = stored.filter(|stored| stored.url == self.url);
        let (version, text) =
            stored.and_then(|stored| Some((stored.version, stored.grant?))).ok_or_else(|| self.login())?;
        let grant: Grant = serde_json::from_str(text.expose_secret()).map_err(|_| self.login())?;
        Ok((version, grant))
    }

    /// Renews this version; `false`: another process does.
    async fn renewed(&self, version: i64, grant: &Grant, tls: &Tls) -> Result<bool, NoToken> {
        let rows = self.rows.get().ok_or_else(|| self.login())?;
        let renewal = rand::random::<i64>();
        if !rows.take_renewal(self.key.clone(), version, renewal).await.map_err(NoToken::Failed)? {
            return Ok(false);
        }
        let exchange = Exchange { reach: &self.reach, tls: tls.clone() };
        let (renewal_end, result) = match renew(&exchange, grant, now()).await {
            Ok(grant) => (Renewal::Done(sealable(&grant)), Ok(true)),
            Err(NotRenewed::Refused) => (Renewal::Refused, Err(self.login())),
            Err(NotRenewed::Failed(reason)) => (Renewal::Left, Err(NoToken::Failed(reason))),
        };
        rows.end_renewal(self.key.clone(), renewal, renewal_end).await.map_err(NoToken::Failed)?;
        result
    }

    fn login(&self) -> NoToken {
        let AccountKey { server, user } = &self.key;
        let name = &server.name;
        NoToken::NeedsLogin(match user {
            Some(user) => format!("POST /v1/users/{user}/mcp-servers/{name}/login"),
            None => format!("POST /v1/mcp-servers/{name}/login"),
        })
    }
}

fn token_of(version: i64, grant: &Grant) -> Result<Token, NoToken> {
    let header = HeaderValue::try_from(format!("Bearer {}", grant.access_token));
    let mut header = header.map_err(|_| NoToken::Failed("its token cannot be a header".to_owned()))?;
    header.set_sensitive(true);
    Ok(Token { header, version, expires_at: grant.expires_at })
}

/// What is sealed of a grant, or of a login.
pub(crate) fn sealable(value: &impl serde::Serialize) -> SecretString {
    // All keys are strings, so this does not fail.
    SecretString::from(serde_json::to_string(value).unwrap_or_default())
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    SystemClock.now().timestamp()
}
