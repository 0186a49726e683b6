//! [`Context`]: what every command gets.

use std::path::PathBuf;
use std::sync::Arc;

use houston_domain::cell::Cells;
use houston_domain::clock::SystemClock;
use houston_domain::id::Ids;
use houston_store::Store;
use houston_tools::Registry;

use crate::config::{Loaded, secrets};
use crate::connect::{self, Addresses};
use crate::failure::Result;
use crate::span_export::SpanExport;

/// What every command gets.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) loaded: Loaded,
    pub(crate) registry: Registry,
    pub(crate) folder: PathBuf,
    /// The folder that overrides files of `jobs/`.
    pub(crate) jobs: Option<PathBuf>,
}

impl Context {
    /// Begins to export spans, and reaches the databases of a process that serves or works; with `migrates`, their schemas are
    /// brought up to date.
    ///
    /// # Errors
    /// When spans cannot be exported, or a database cannot be used.
    pub(crate) async fn reach(
        &mut self,
        addresses: &Addresses,
        migrates: bool,
    ) -> Result<(Cells<Store>, SpanExport)> {
        let (spans, export) = SpanExport::start()?;
        self.loaded.instruments.spans = spans;
        let stores = connect::stores(&self.loaded.settings, addresses).await?;
        connect::prepare_schema(&stores, &self.loaded.settings, migrates).await?;
        Ok((stores, export))
    }

    /// Uses the key of the folder for secrets of tenants, unless one is set: with embedded servers, all processes of the folder
    /// share it.
    ///
    /// # Errors
    /// When the file can be neither read nor written, or has no key.
    pub(crate) fn use_key_of_folder(&mut self) -> anyhow::Result<()> {
        if self.loaded.secret_keys.is_none() {
            let keys = secrets::of_folder(&self.folder, &Ids::new(Arc::new(SystemClock)))?;
            self.loaded.secret_keys = Some(keys);
        }
        Ok(())
    }
}
