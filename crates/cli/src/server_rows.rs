//! [`StoredRows`]: stores what is found out about MCP servers of tenants and users.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_domain::cell::Cells;
use houston_mcp::own::{ServerKey, ServerRows};
use houston_store::copies::Copies;
use houston_store::mcp_server::ServerOwner;
use houston_store::{Error, RunStore};

/// The rows of all cells.
#[derive(Clone)]
pub(crate) struct StoredRows {
    stores: Cells<RunStore>,
    copies: Copies,
}

impl StoredRows {
    pub(crate) fn new(stores: Cells<RunStore>, copies: Copies) -> Self {
        Self { stores, copies }
    }

    /// The cell where servers of this owner are changed.
    fn store(&self, server: &ServerKey) -> &RunStore {
        server.owner.map_or_else(|| self.stores.home(), |user| self.stores.of(user))
    }
}

impl ServerRows for StoredRows {
    fn withhold(&self, server: ServerKey, changed: BTreeMap<String, String>) -> BoxFuture<'static, ()> {
        let rows = self.clone();
        async move {
            let ServerKey { tenant, owner, name } = &server;
            let of = owner.map_or(ServerOwner::Tenant, ServerOwner::User);
            let stored = async {
                let is_new = rows.store(&server).withhold_mcp_tools(*tenant, of, name, &changed).await?;
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
}
