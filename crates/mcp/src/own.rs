//! Servers of tenants and users, over HTTP: what the operator's file has nothing of.
//!
//! ```text
//! OwnServers::tools(OwnServer) → tools as they were approved                     (nothing is sent)
//!     the first call of a user → Server, one per (tenant, server, user) → Connection, within the room of its tenant
//! OwnPool::look → a connection of its own, for a person who reads what the server lists
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::http::header::{HeaderName, HeaderValue};
use houston_domain::id::UserId;
use houston_domain::mcp_server::names::of_settings;
use houston_domain::mcp_server::{LOGIN_PATH, OAuthSettings};
use houston_tools::SharedTool;
use houston_tools::servers::{OwnServer, OwnServers};
use houston_web::TenantReach;
use secrecy::{ExposeSecret as _, SecretString};

use crate::call::Call;
use crate::listed::Listed;
use crate::oauth::{self, Exchange, Pending};
use crate::owner::{Account, Own, Rooms, Rows, now, sealable};
pub use crate::owner::{AccountKey, Renewal, ServerKey, ServerRows, StoredAccount};
use crate::server::Server;
use crate::settings::{McpLimits, McpSettings, ServerSettings, TenantLimits, is_of_the_protocol};
use crate::surroundings::{Shared, Surroundings};
use crate::text::cleaned;
use crate::tool::{McpTool, definition};
use crate::trust::judged_own;

/// The most characters of the reason why a login cannot begin.
const MAX_ERROR: usize = 1000;

/// The servers of tenants and users in this process. Cheap to clone.
#[derive(Clone)]
pub struct OwnPool {
    inner: Arc<Inner>,
}

struct Inner {
    limits: McpLimits,
    reach: Arc<TenantReach>,
    rooms: Arc<Rooms>,
    /// Where browsers reach this installation.
    public_url: Option<String>,
    rows: Rows,
    shared: Arc<Shared>,
    servers: Mutex<HashMap<Key, Arc<Server>>>,
}

/// Whose connection it is, and to what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    server: ServerKey,
    /// Of its settings, pins and headers.
    version: String,
    /// For whom it is called: a server may remember in a session what one user did.
    user: UserId,
}

impl OwnPool {
    /// A pool with the limits of these settings. Nothing is connected.
    pub fn new(settings: &McpSettings) -> Self {
        let TenantLimits { connections, connections_of_all, answer_bytes, hosts, public_url } =
            &settings.tenants;
        // Nothing is started, so nothing is given to it.
        let surroundings = Surroundings { path: None, homes: std::path::PathBuf::new(), variable: |_| None };
        let inner = Inner {
            limits: McpLimits { answer_bytes: *answer_bytes, ..settings.limits },
            reach: Arc::new(TenantReach::new(hosts, "its headers and answers")),
            rooms: Rooms::new(*connections, *connections_of_all),
            public_url: public_url.clone(),
            rows: Rows::default(),
            shared: Arc::new(Shared::new(surroundings, settings.limits.starts)),
            servers: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Lets the pool store what it finds out. Only the first of several calls has an effect.
    pub fn store_in(&self, rows: Arc<dyn ServerRows>) {
        let _ = self.inner.rows.set(rows);
    }

    /// What is wrong with an address or with headers: a JSON Pointer, and what is allowed.
    pub fn problem(
        &self,
        url: &str,
        headers: &BTreeMap<String, SecretString>,
    ) -> Option<(&'static str, String)> {
        if let Err(reason) = self.inner.reach.judge(url) {
            return Some(("/url", reason));
        }
        for (name, value) in headers {
            let of_http = HeaderName::try_from(name).is_ok() && !is_of_the_protocol(name);
            if !of_http {
                let given: String = name.chars().take(80).collect();
                return Some((
                    "/headers",
                    format!("`{given}` is no name of a header, or one that Houston sets"),
                ));
            }
            if HeaderValue::try_from(value.expose_secret()).is_err() {
                let why = format!(
                    "the value of `{name}` cannot be a header: it has line breaks or other characters"
                );
                return Some(("/headers", why));
            }
        }
        None
    }

    /// Connects to a server, lists its tools, and leaves it. For people: the reason contains no secret.
    ///
    /// # Errors
    /// Why it has not listed them, with what it said.
    pub async fn look(&self, server: &OwnServer, limit: Duration) -> Result<Arc<[Listed]>, String> {
        let made = self.make(server, server.user);
        let own = self.own(server, server.user);
        match tokio::time::timeout(limit, made.look()).await {
            Ok(look) => look.tools.map_err(|error| own.without_secrets(&error.to_string())),
            Err(_) => Err(format!("it did not list its tools within {} s", limit.as_secs())),
        }
    }

    /// Ends all connections, and waits for that, at most a second.
    pub async fn close(&self) {
        self.inner.shared.stop.cancel();
        self.inner.shared.tracker.close();
        let _ = tokio::time::timeout(Duration::from_secs(1), self.inner.shared.tracker.wait()).await;
    }

    /// The server with the connection of this user.
    fn server(&self, server: &OwnServer, user: UserId) -> Arc<Server> {
        let key = Key { server: key_of(server), version: server.version.clone(), user };
        let mut servers = self.inner.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(&key) {
            return Arc::clone(server);
        }
        // Those that are not connected any more; one in the middle of a call is held by it.
        servers.retain(|_, server| Arc::strong_count(server) > 1 || !server.is_unused());
        let made = Arc::new(self.make(server, Some(user)));
        servers.insert(key, Arc::clone(&made));
        made
    }

    /// A server that this user calls; `None`: the tenant.
    fn make(&self, server: &OwnServer, user: Option<UserId>) -> Server {
        let mut settings = ServerSettings::at(server.document.url.clone());
        settings.call_s = Some(server.document.settings.timeout_s);
        let (pins, shared) = (server.document.pins.clone(), Arc::clone(&self.inner.shared));
        Server::new(&server.name, settings, self.inner.limits, pins, shared).owned(self.own(server, user))
    }

    fn own(&self, server: &OwnServer, user: Option<UserId>) -> Own {
        let header = |(name, value): (&String, &SecretString)| {
            let mut value = HeaderValue::try_from(value.expose_secret()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::try_from(name).ok()?, value))
        };
        Own {
            key: key_of(server),
            // All of them can be headers: they were checked when they were stored.
            headers: server.headers.iter().filter_map(header).collect(),
            account: server.document.settings.oauth.as_ref().map(|oauth| {
                let user = user.filter(|_| server.user.is_some() || !oauth.shared);
                let key = AccountKey { server: key_of(server), user };
                let (reach, rows) = (Arc::clone(&self.inner.reach), Arc::clone(&self.inner.rows));
                let tracker = self.inner.shared.tracker.clone();
                Arc::new(Account::new(key, &server.document.url, reach, rows, tracker))
            }),
            reach: Arc::clone(&self.inner.reach),
            rooms: Arc::clone(&self.inner.rooms),
            rows: Arc::clone(&self.inner.rows),
            has_reported: Arc::default(),
        }
    }
}

fn key_of(server: &OwnServer) -> ServerKey {
    ServerKey { tenant: server.tenant, owner: server.user, name: server.name.clone() }
}

impl OwnServers for OwnPool {
    fn tools(&self, server: OwnServer) -> Vec<SharedTool> {
        let named = of_settings(&server.name, &server.document.settings, &server.document.pins);
        let server = Arc::new(server);
        let settings = &server.document.settings;
        let longest = Duration::from_secs(settings.timeout_s + self.inner.limits.start_s);
        let tool = |(remote, name): (String, String)| -> Option<SharedTool> {
            let pin = server.document.pins.get(&remote)?;
            let (effect, facts) =
                judged_own(pin.hints, settings.tools.get(&remote).copied().unwrap_or_default());
            let definition = definition(name, pin, effect, longest);
            let (pool, server) = (self.clone(), Arc::clone(&server));
            let call = move |user| {
                let (server, remote) = (pool.server(&server, user), remote.clone());
                Call { server, remote, effect, is_untrusted: true }
            };
            let pin = pin.sha256.clone();
            Some(Arc::new(McpTool { definition, facts, pin, call: Box::new(call), tasks_at: None }))
        };
        named.into_iter().filter_map(tool).collect()
    }
}

impl std::fmt::Debug for OwnPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnPool")
    }
}

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
        let (url, pending) = begun.map_err(|error| cleaned(&error, MAX_ERROR))?;
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
