//! `jobs/cells.toml`: the servers of each cell.

use anyhow::{bail, ensure};
use houston_domain::cell::{CellName, Cells, ShardRange};
use houston_domain::setting::WrongSetting;
use serde::{Deserialize, Serialize};

use super::Settings;
use crate::environment::environment;

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
    /// The shards with which it begins, `0000-7fff`: all of them until some are moved. They are its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shards: Option<ShardRange>,
    /// In place of `shards`: the name of a cell that begins without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<CellName>,
    /// Connection URL of its Postgres.
    #[serde(default, skip_serializing)]
    pub(crate) database_url: Option<String>,
    /// URL of its Redis.
    #[serde(default, skip_serializing)]
    pub(crate) redis_url: Option<String>,
}

impl std::fmt::Debug for CellConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CellConfig")
            .field("shards", &self.shards)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl CellConfig {
    /// By which moves refer to it, if the settings are valid.
    pub(crate) fn name(&self) -> CellName {
        let began = || self.shards.unwrap_or(ShardRange::ALL).into();
        self.name.clone().unwrap_or_else(began)
    }
}

impl CellSettings {
    /// The cells with their ranges.
    ///
    /// # Errors
    /// What is wrong, for a person, unless each shard is in exactly one cell, and each cell has shards or a name.
    pub(super) fn checked(&self) -> anyhow::Result<Cells<CellConfig>> {
        for cell in &self.cells {
            match (&cell.shards, &cell.name) {
                (Some(shards), Some(_)) => bail!(
                    "each cell has either `shards`, with which it begins, or a `name`, if it was added later and begins \
                     without: {shards} has both"
                ),
                (None, None) => bail!("a cell has neither `shards` nor `name`"),
                (None, Some(CellName::Shards(range))) => {
                    bail!("{range} is a range of shards and no `name`; write `shards` in its place")
                }
                _ => {}
            }
        }
        self.addresses_differ()?;
        Cells::new(self.cells.iter().map(|cell| (cell.name(), cell.clone()))).map_err(anyhow::Error::msg)
    }

    /// Cells with one Postgres would wait for their own locks, with one Redis take the hints of each other.
    fn addresses_differ(&self) -> anyhow::Result<()> {
        for (nth, cell) in self.cells.iter().enumerate() {
            for other in &self.cells[..nth] {
                // An empty address is none.
                let is_same = |one: &Option<String>, two: &Option<String>| {
                    one == two && one.as_ref().is_some_and(|url| !url.is_empty())
                };
                for (what, is_same) in [
                    ("database_url", is_same(&cell.database_url, &other.database_url)),
                    ("redis_url", is_same(&cell.redis_url, &other.redis_url)),
                ] {
                    let (one, two) = (other.name(), cell.name());
                    ensure!(!is_same, "the cells {one} and {two} have the same `{what}`: each needs its own");
                }
            }
        }
        Ok(())
    }
}

impl Settings {
    /// Checks the ranges of cells, and that the environment has no addresses beside them.
    ///
    /// # Errors
    /// [`WrongSetting`] at the cells.
    pub(super) fn check_cells(&self) -> Result<(), WrongSetting> {
        if !self.has_cells() {
            return Ok(());
        }
        let wrong = |reason| WrongSetting::new("/cells/cells", reason);
        self.cells.checked().map_err(|error| wrong(error.to_string()))?;
        let beside =
            [("DATABASE_URL", environment("DATABASE_URL")), ("HOUSTON_REDIS_URL", self.redis_url.clone())];
        match beside.into_iter().find(|(_, url)| url.as_ref().is_some_and(|url| !url.is_empty())) {
            None => Ok(()),
            Some((name, _)) => {
                Err(wrong(format!("each cell has its own addresses: {name} must not be set beside cells")))
            }
        }
    }

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
                shards: Some(ShardRange::ALL),
                name: None,
                database_url: self.database_url.clone().or_else(|| environment("DATABASE_URL")),
                redis_url: given(self.redis_url.clone()),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::super::tests::tools;

    #[test]
    fn each_cell_has_shards_or_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let read = |cells: &str| {
            std::fs::write(folder.path().join("cells.toml"), cells).unwrap();
            load(Some(folder.path()), &tools()).map(|loaded| loaded.settings.cells())
        };
        let all = "[[cells]]\nshards = \"0000-ffff\"\n";
        for (more, reason) in [
            ("name = \"second\"\n", "0000-ffff has both"),
            ("[[cells]]\n", "neither"),
            ("[[cells]]\nname = \"8000-ffff\"\n", "is a range of shards"),
            ("[[cells]]\nname = \"A cell\"\n", "is no name of a cell"),
            ("[[cells]]\nname = \"b\"\n[[cells]]\nname = \"b\"\n", "two cells have the name b"),
            ("[[cells]]\nshards = \"8000-ffff\"\n", "two cells have the shards 8000-ffff"),
            (
                "database_url = \"postgres://secret@a\"\n[[cells]]\nname = \"b\"\ndatabase_url = \"postgres://secret@a\"\n",
                "the cells 0000-ffff and b have the same `database_url`: each needs its own",
            ),
            (
                "redis_url = \"redis://a\"\n[[cells]]\nname = \"b\"\nredis_url = \"redis://a\"\n",
                "same `redis_url`",
            ),
        ] {
            let error =
                read(&format!("{all}{more}")).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(reason) && !error.contains("secret"), "{more}: {error}");
        }
        let none = "redis_url = \"\"\n";
        let cells = read(&format!("[[cells]]\nname = \"second\"\n{none}{all}{none}")).unwrap();
        let names: Vec<String> = cells.named().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names, ["0000-ffff", "second"]);
    }
}
