//! Approved tools that a server lists with another definition: from the next run on they are not offered.

use std::collections::BTreeMap;

use houston_domain::id::TenantId;
use houston_domain::mcp_server::ServerSettings;
use houston_domain::mcp_server::pin::{Pin, withhold};
use sqlx::types::Json;

use super::{ServerOwner, offered, summarise_owner};
use crate::bound;
use crate::error::Result;
use crate::handle::RunStore;

impl RunStore {
    /// Withholds tools until a person approves them again, unless another definition was approved meanwhile. `changed`: the
    /// hashes of the approved definitions, by the names that the server gives the tools. Says whether one of them was offered.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn withhold_mcp_tools(
        &self,
        tenant: TenantId,
        owner: ServerOwner,
        name: &str,
        changed: &BTreeMap<String, String>,
    ) -> Result<bool> {
        let id = owner.id(tenant);
        let mut tx = self.pool.begin().await?;
        bound::lock(&mut tx, "tool sources", id).await?;
        let before = sqlx::query!(
            r#"-- store::mcp_server::withheld::before
            select settings as "settings: Json<ServerSettings>", pins as "pins: Json<BTreeMap<String, Pin>>"
              from houston.mcp_servers where tenant_id = $1 and owner_id = $2 and name = $3"#,
            tenant.0,
            id,
            name
        )
        .fetch_optional(&mut *tx)
        .await?;
        let Some(before) = before else { return Ok(false) };
        let mut pins = before.pins.0;
        let withheld = changed.iter().filter(|(tool, sha256)| withhold(&mut pins, tool, sha256)).count();
        if withheld == 0 {
            return Ok(false);
        }
        let tools = offered(name, &before.settings, &pins);
        sqlx::query!(
            "-- store::mcp_server::withheld::store
            update houston.mcp_servers set pins = $4, tools = $5
             where tenant_id = $1 and owner_id = $2 and name = $3",
            tenant.0,
            id,
            name,
            Json(&pins) as Json<&BTreeMap<String, Pin>>,
            &tools
        )
        .execute(&mut *tx)
        .await?;
        summarise_owner(&mut tx, tenant, owner).await?;
        tx.commit().await?;
        Ok(true)
    }
}
