//! Rows that were restored to another server.

use sqlx::{ConnectOptions as _, Connection as _};

use crate::error::Result;
use crate::handle::Shared;
use crate::pool::connect_options_of;

/// Numbers the transactions of restored rows anew.
const APPLY: &str = include_str!("restored.sql");

impl Shared {
    /// Applies `restored.sql`. It must not run beside workers of an installation whose dump was just restored; beside others it
    /// only reads.
    pub(crate) async fn adopt_restored_rows(&self) -> Result<()> {
        // A connection of its own: after an error it would be left within a transaction.
        let mut connection = connect_options_of(&self.sessions).connect().await?;
        sqlx::raw_sql(APPLY).execute(&mut connection).await?;
        Ok(connection.close().await?)
    }
}
