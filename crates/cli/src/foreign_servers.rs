//! [`Foreign`]: reaches MCP servers of tenants and users for the API, which does not know their protocol.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_api::{ForeignServer, ForeignServers};
use houston_domain::mcp_server::pin::ListedTool;
use houston_mcp::own::OwnPool;
use houston_tools::servers::{OwnServer, ServerDocument};
use secrecy::SecretString;

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
        let ForeignServer { tenant, user, name, url, settings, headers } = server;
        let document = ServerDocument { url, settings, pins: BTreeMap::new() };
        // Its connection is used for nothing else, so no version of it need be told from another.
        let server = OwnServer { tenant, user, name, version: String::new(), document, headers };
        let pool = self.0.clone();
        async move { pool.look(&server, LOOK).await.map(|listed| listed.to_vec()) }.boxed()
    }
}
