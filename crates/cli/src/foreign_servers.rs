//! MCP servers of tenants and users, for the API, which does not know their protocol: [`Foreign`] reaches them, [`StoredRows`]
//! stores what is found out about them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_api::{BegunForeignLogin, ForeignServer, ForeignServers, ReturnedLogin};
use houston_domain::cell::Cells;
use houston_domain::id::{Ids, UserId};
use houston_domain::mcp_server::account_purpose;
use houston_domain::mcp_server::pin::ListedTool;
use houston_domain::sealed::{Purpose, SecretKeys};
use houston_mcp::own::{AccountKey, BegunLogin, OwnPool, Renewal, ServerKey, ServerRows, StoredAccount};
use houston_store::copies::Copies;
use houston_store::mcp_account::AccountOf;
use houston_store::mcp_server::ServerOwner;
use houston_store::{Error, RunStore};
use houston_tools::servers::{OwnServer, ServerDocument};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::timeout;

/// Shorter than a request may take.
const LOOK: Duration = Duration::from_secs(8);

/// The connections of this process.
#[derive(Debug)]
pub(crate) struct Foreign(pub(crate) OwnPool);

impl ForeignServers for Foreign {
    fn problem(&self, url: &str, headers: &BTreeMap<String, SecretString>) -> Option<(&'static str, String)> {
        self.0.problem(url, headers)
    }

    fn tools(&self, server: ForeignServer) -> BoxFuture<'_, Result<Vec<ListedTool>, String>> {
        async move { self.0.look(&own(server), LOOK).await.map(|listed| listed.to_vec()) }.boxed()
    }

    fn begin_login(
        &self,
        server: ForeignServer,
        state: String,
    ) -> BoxFuture<'_, Result<BegunForeignLogin, String>> {
        in_time(async move {
            let BegunLogin { url, pending } = self.0.begin_login(&own(server), &state).await?;
            Ok(BegunForeignLogin { url, pending })
        })
    }

    fn finish_login(&self, login: ReturnedLogin) -> BoxFuture<'_, Result<SecretString, String>> {
        let ReturnedLogin { pending, code, issuer } = login;
        in_time(async move { self.0.finish_login(&pending, code.expose_secret(), issuer.as_deref()).await })
    }
}

/// The server for requests of its own. They share nothing with others, so its version is empty.
fn own(server: ForeignServer) -> OwnServer {
    let ForeignServer { tenant, user, name, url, settings, headers } = server;
    let document = ServerDocument { url, settings, pins: BTreeMap::new() };
    OwnServer { tenant, user, name, version: String::new(), document, headers }
}

fn in_time<'a, T: Send + 'a>(
    login: impl Future<Output = Result<T, String>> + Send + 'a,
) -> BoxFuture<'a, Result<T, String>> {
    let late = || Err(format!("it took longer than {} s", LOOK.as_secs()));
    async move { timeout(LOOK, login).await.unwrap_or_else(|_| late()) }.boxed()
}

/// The rows of all cells.
#[derive(Clone)]
pub(crate) struct StoredRows {
    pub(crate) stores: Cells<RunStore>,
    pub(crate) copies: Copies,
    pub(crate) keys: Option<SecretKeys>,
    pub(crate) ids: Arc<Ids>,
}

impl StoredRows {
    /// The cell where what belongs to this user, or else to a tenant, is changed.
    fn store(&self, user: Option<UserId>) -> &RunStore {
        user.map_or_else(|| self.stores.home(), |user| self.stores.of(user))
    }

    fn open(&self, of: &AccountKey, sealed: &[u8]) -> Result<SecretString, String> {
        let (what, tenant) = (purpose(of), of.server.tenant);
        let keys = self.keys.as_ref().ok_or("HOUSTON_SECRETS_KEY is not set")?;
        keys.open(Purpose { tenant, what: &what }, sealed).map_err(|error| error.to_string())
    }

    fn seal(&self, of: &AccountKey, grant: &SecretString) -> Result<Vec<u8>, String> {
        let (what, tenant) = (purpose(of), of.server.tenant);
        let mut nonce = [0; 12];
        self.ids.fill(&mut nonce);
        let sealed = self
            .keys
            .as_ref()
            .and_then(|keys| keys.seal(Purpose { tenant, what: &what }, nonce, grant.expose_secret()));
        sealed.ok_or_else(|| "HOUSTON_SECRETS_KEY is not set".to_owned())
    }
}

fn purpose(of: &AccountKey) -> String {
    let ServerKey { tenant, owner, name } = &of.server;
    account_purpose(of.user.map_or(tenant.0, |user| user.0), owner.map_or(tenant.0, |user| user.0), name)
}

fn row_of(of: &AccountKey) -> AccountOf {
    let owner = of.server.owner.map_or(ServerOwner::Tenant, ServerOwner::User);
    AccountOf { owner, server: of.server.name.clone(), user: of.user }
}

/// Of the database's errors a tenant reads nothing.
fn failed(error: &Error) -> String {
    tracing::warn!(%error, "an account at an MCP server was not read or stored");
    "its account cannot be read or stored for now: try again later".to_owned()
}

impl ServerRows for StoredRows {
    fn withhold(&self, server: ServerKey, changed: BTreeMap<String, String>) -> BoxFuture<'static, ()> {
        let rows = self.clone();
        async move {
            let ServerKey { tenant, owner, name } = &server;
            let of = owner.map_or(ServerOwner::Tenant, ServerOwner::User);
            let stored = async {
                let is_new = rows.store(*owner).withhold_mcp_tools(*tenant, of, name, &changed).await?;
                if is_new && owner.is_none() {
                    rows.copies.copy(*tenant).await?;
                }
                Ok::<bool, Error>(is_new)
            };
            match stored.await {
                Ok(true) => tracing::info!(%tenant, server = name, "an MCP server of a tenant has changed tools: they are withheld"),
                Ok(false) => {}
                // The next call finds it out again.
                Err(error) => tracing::warn!(%tenant, server = name, %error, "changed tools of an MCP server were not withheld"),
            }
        }
        .boxed()
    }

    fn account(&self, of: AccountKey) -> BoxFuture<'_, Result<Option<StoredAccount>, String>> {
        async move {
            let stored = self.store(of.user).mcp_account(of.server.tenant, &row_of(&of)).await;
            let Some(stored) = stored.map_err(|error| failed(&error))? else { return Ok(None) };
            let grant = stored.sealed.as_deref().map(|sealed| self.open(&of, sealed)).transpose()?;
            Ok(Some(StoredAccount { url: stored.url, version: stored.version, grant }))
        }
        .boxed()
    }

    fn take_renewal(&self, of: AccountKey, version: i64, number: i64) -> BoxFuture<'_, Result<bool, String>> {
        async move {
            let store = self.store(of.user);
            let taken = store.take_mcp_renewal(of.server.tenant, &row_of(&of), version, number).await;
            taken.map_err(|error| failed(&error))
        }
        .boxed()
    }

    fn end_renewal(&self, of: AccountKey, number: i64, end: Renewal) -> BoxFuture<'_, Result<(), String>> {
        async move {
            let (store, tenant, row) = (self.store(of.user), of.server.tenant, row_of(&of));
            let ended = match end {
                Renewal::Done(grant) => {
                    let sealed = self.seal(&of, &grant)?;
                    store.end_mcp_renewal(tenant, &row, number, Some(&sealed)).await
                }
                Renewal::Refused => store.end_mcp_renewal(tenant, &row, number, None).await,
                Renewal::Left => store.leave_mcp_renewal(tenant, &row, number).await,
            };
            ended.map_err(|error| failed(&error))
        }
        .boxed()
    }
}
