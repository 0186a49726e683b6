//! `houston migrate`.

use std::process::ExitCode;

use clap::Args;

use super::{Context, Failure, runtime};
use crate::connect;
use crate::output::print;

/// Bring the database schema up to this binary.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Start, or attach to, the embedded servers when DATABASE_URL is not set
    #[arg(long)]
    embedded: bool,
}

impl Migrate {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let settings = &context.loaded.settings;
        let addresses = connect::database(settings, &context.folder, self.embedded)?;
        runtime()?.block_on(async {
            let store = connect::store(settings, &addresses.database_url).await?;
            store.migrate().await?;
            store.close().await;
            print("the schema is up to date");
            Ok(ExitCode::SUCCESS)
        })
    }
}
