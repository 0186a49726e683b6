//! [`Context`]: what every command gets.

use std::path::PathBuf;
use std::sync::Arc;

use houston_domain::clock::SystemClock;
use houston_domain::id::Ids;
use houston_tools::Registry;

use crate::config::{Loaded, secrets};

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
