//! `houston migrate`: migrates the database schema.

use clap::Args;

use super::{Context, Result, runtime};
use crate::connect;
use crate::output::{print_either, print_stderr};

/// Migrate the database schema to the version of this binary.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// If DATABASE_URL is not set, use the embedded Postgres of the folder, and create it if it does not exist
    #[arg(long)]
    embedded: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Migrate {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let settings = &context.loaded.settings;
        let addresses = match settings.cells().iter().all(|cell| cell.database_url.is_some()) {
            true => connect::existing(settings, &context.folder, false)?,
            false => connect::find(settings, &context.folder, self.embedded)?,
        };
        runtime()?.block_on(async {
            let stores = connect::stores(settings, &addresses).await?;
            for store in stores.iter() {
                store.migrate().await?;
                let found = store.row_security().await?;
                if let Some(todo) = found.todo() {
                    print_stderr(&format!("row-level security is {found}: {todo}"));
                }
                store.close().await;
            }
            let done = serde_json::json!({"schema": "up_to_date"});
            print_either(self.json, &done, "the schema is up to date");
            Ok(())
        })
    }
}
