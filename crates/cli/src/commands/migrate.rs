//! `houston migrate`.

use std::process::ExitCode;

use clap::Args;

use super::{Context, Failure, runtime};
use crate::connect;
use crate::models::environment;
use crate::output::{print, print_json};

/// Bring the database schema up to this binary.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Where DATABASE_URL is not set, use a Postgres of Houston's own: the one in the folder, made if there is none
    #[arg(long)]
    embedded: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Migrate {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let settings = &context.loaded.settings;
        let addresses = match environment("DATABASE_URL") {
            Some(_) => connect::database(&context.folder)?,
            None => connect::find(settings, &context.folder, self.embedded)?,
        };
        runtime()?.block_on(async {
            let store = connect::store(settings, &addresses.database_url).await?;
            store.migrate().await?;
            store.close().await;
            if self.json {
                print_json(&serde_json::json!({"schema": "up_to_date"}));
            } else {
                print("the schema is up to date");
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
