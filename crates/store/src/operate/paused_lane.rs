//! Lanes that operators have paused: workers claim nothing new of them.

use crate::error::Result;
use crate::handle::{ApiStore, OperatorStore, RunStore, Shared};

impl Shared {
    async fn paused(&self) -> Result<Vec<String>> {
        let lanes = sqlx::query_scalar!(
            "-- store::paused_lane::list
            select lane from houston.paused_lanes order by lane"
        );
        Ok(lanes.fetch_all(&self.pool).await?)
    }

    async fn set_paused(&self, lane: &str, is_paused: bool) -> Result<()> {
        sqlx::query!(
            "-- store::paused_lane::set
            with gone as (delete from houston.paused_lanes where lane = $1 and not $2)
            insert into houston.paused_lanes (lane) select $1 where $2 on conflict (lane) do nothing",
            lane,
            is_paused
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

impl ApiStore {
    /// The names of the lanes that are paused.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn paused_lanes(&self) -> Result<Vec<String>> {
        self.shared.paused().await
    }

    /// Pauses a lane for all workers, or lets it go on. Idempotent. Workers read it within a second.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn set_lane_paused(&self, lane: &str, is_paused: bool) -> Result<()> {
        self.shared.set_paused(lane, is_paused).await
    }
}

impl OperatorStore<'_> {
    /// See [`ApiStore::paused_lanes`].
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn paused_lanes(self) -> Result<Vec<String>> {
        self.shared.paused().await
    }

    /// See [`ApiStore::set_lane_paused`].
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn set_lane_paused(self, lane: &str, is_paused: bool) -> Result<()> {
        self.shared.set_paused(lane, is_paused).await
    }
}

impl RunStore {
    /// See [`ApiStore::paused_lanes`].
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn paused_lanes(&self) -> Result<Vec<String>> {
        self.shared.paused().await
    }
}
