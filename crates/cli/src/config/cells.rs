//! `jobs/cells.toml`: the servers of each cell.

use houston_domain::cell::{Cells, InvalidCells, ShardRange};
use serde::{Deserialize, Serialize};

use super::Settings;
use crate::models::environment;

/// `jobs/cells.toml`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellSettings {
    /// The cells; none: one cell with DATABASE_URL and HOUSTON_REDIS_URL.
    #[serde(default)]
    pub(crate) cells: Vec<CellConfig>,
}

/// One cell. Its addresses may contain passwords, and are never printed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellConfig {
    /// Its shards, `0000-7fff`.
    pub(crate) shards: ShardRange,
    /// Connection URL of its Postgres.
    #[serde(default, skip_serializing)]
    pub(crate) database_url: Option<String>,
    /// URL of its Redis.
    #[serde(default, skip_serializing)]
    pub(crate) redis_url: Option<String>,
}

impl std::fmt::Debug for CellConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CellConfig").field("shards", &self.shards).finish_non_exhaustive()
    }
}

impl CellSettings {
    /// The cells with their ranges.
    ///
    /// # Errors
    /// [`InvalidCells`] unless each shard is in exactly one cell.
    pub(super) fn checked(&self) -> Result<Cells<CellConfig>, InvalidCells> {
        Cells::new(self.cells.iter().map(|cell| (cell.shards, cell.clone())))
    }
}

impl Settings {
    /// Whether `jobs/cells.toml` or the environment names cells.
    pub(crate) fn has_cells(&self) -> bool {
        !self.cells.cells.is_empty()
    }

    /// The cells of the settings; without any, the one cell of the environment.
    pub(crate) fn cells(&self) -> Cells<CellConfig> {
        let given = |url: Option<String>| url.filter(|url| !url.is_empty());
        // Their ranges were checked when the settings were loaded.
        self.cells.checked().unwrap_or_else(|_| {
            Cells::one(CellConfig {
                shards: ShardRange::ALL,
                database_url: self.database_url.clone().or_else(|| environment("DATABASE_URL")),
                redis_url: given(self.redis_url.clone()),
            })
        })
    }
}
