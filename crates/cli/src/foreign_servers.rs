//! [`Foreign`]: reaches MCP servers of tenants and users for the API, which does not know their protocol.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_api::{BegunForeignLogin, ForeignServer, ForeignServers, ReturnedLogin};
use houston_domain::mcp_server::pin::ListedTool;
use houston_mcp::own::{BegunLogin, OwnPool};
use houston_tools::servers::{OwnServer, ServerDocument};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::timeout;

/// Shorter than a request may take.
const LOOK: Duration = Duration::from_secs(8);

/// The connections of this process.
#[derive(Debug)]
pub(crate) struct Foreign(OwnPool);

impl Foreign {
    pub(crate) fn new(pool: OwnPool) -> Self {
        Self(pool)
    }
}

impl ForeignServers for Foreign {
    fn problem(&self, url: &str, headers: &BTreeMap<String, SecretString>) -> Option<(&'static str, String)> {
        self.0.problem(url, headers)
    }

    fn tools(&self, server: ForeignServer) -> BoxFuture<'static, Result<Vec<ListedTool>, String>> {
        let (pool, server) = (self.0.clone(), own(server));
        async move { pool.look(&server, LOOK).await.map(|listed| listed.to_vec()) }.boxed()
    }

    fn begin_login(
        &self,
        server: ForeignServer,
        state: String,
    ) -> BoxFuture<'static, Result<BegunForeignLogin, String>> {
        let (pool, server) = (self.0.clone(), own(server));
        in_time(async move {
            let BegunLogin { url, pending } = pool.begin_login(&server, &state).await?;
            Ok(BegunForeignLogin { url, pending })
        })
    }

    fn finish_login(&self, login: ReturnedLogin) -> BoxFuture<'static, Result<SecretString, String>> {
        let pool = self.0.clone();
        let ReturnedLogin { pending, code, issuer } = login;
        in_time(async move { pool.finish_login(&pending, code.expose_secret(), issuer.as_deref()).await })
    }
}

/// The server for requests of its own. They share nothing with others, so its version is empty.
fn own(server: ForeignServer) -> OwnServer {
    let ForeignServer { tenant, user, name, url, settings, headers } = server;
    let document = ServerDocument { url, settings, pins: BTreeMap::new() };
    OwnServer { tenant, user, name, version: String::new(), document, headers }
}

fn in_time<T: Send + 'static>(
    login: impl Future<Output = Result<T, String>> + Send + 'static,
) -> BoxFuture<'static, Result<T, String>> {
    let late = || Err(format!("it took longer than {} s", LOOK.as_secs()));
    async move { timeout(LOOK, login).await.unwrap_or_else(|_| late()) }.boxed()
}
