//! `houston cell add`: prepares the servers of a cell that cells.toml names. Users come with `houston cell move`.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use houston_domain::cell::{CellName, Cells};
use houston_store::Store;
use houston_store::copies::Copies;
use houston_store::moves::Moves;

use crate::commands::{Context, Failure, audit, runtime};
use crate::connect;
use crate::output::{print, print_json, print_stderr};

/// Prepare a cell that was added to cells.toml.
#[derive(Debug, Args)]
pub(super) struct Add {
    /// Its name in cells.toml
    name: CellName,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Add {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let settings = &context.loaded.settings;
        let Some(number) = settings.cells().number_named(&self.name) else {
            return Err(Failure::Usage(missing(&self.name, settings.has_cells())));
        };
        let addresses = connect::database(settings, &context.folder)?;
        runtime()?.block_on(async {
            let stores = connect::open_all(settings, &addresses)?;
            connect::probe_all(&addresses).await?;
            connect::find_primaries(&stores).await?;
            for (nth, store) in stores.iter().enumerate() {
                if nth == number {
                    self.prepare(store).await?;
                } else {
                    store.check_schema().await?;
                }
            }
            let apis = stores.map(Store::api);
            Copies::new(&apis).copy_all().await?;
            Moves::new(&apis).follow_once().await?;
            audit::record(stores.home(), None, "add_cell", self.name.to_string()).await;
            self.report(&stores, number);
            super::close(&stores).await;
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn prepare(&self, store: &Store) -> Result<(), Failure> {
        store.migrate().await?;
        let found = store.row_security().await?;
        if let Some(todo) = found.todo() {
            print_stderr(&format!("row-level security is {found}: {todo}"));
        }
        if store.can_get_users().await? {
            return Ok(());
        }
        Err(Failure::Usage(anyhow!(
            "the Postgres of the cell {} cannot get users: set max_prepared_transactions = 4 in its postgresql.conf (0 is the \
             default), restart it, and run this command again",
            self.name
        )))
    }

    fn report(&self, stores: &Cells<Store>, number: usize) {
        let Self { name, json } = self;
        let shards = stores.shards().into_iter().nth(number).unwrap_or_default();
        if *json {
            print_json(&serde_json::json!({"cell": name, "shards": shards}));
            return;
        }
        print(&format!(
            "the cell {name} is ready: its schema is up to date, and tenants, keys and agents are copied"
        ));
        if shards.is_empty() {
            print(&format!(
                "it has no users yet. Next:\n\
                 1. give all machines this cells.toml, and restart `houston serve` and `houston work` one after the other\n\
                 2. move users: houston cell move f000-ffff --to {name}"
            ));
        }
    }
}

/// What to write into cells.toml.
fn missing(name: &CellName, has_cells: bool) -> anyhow::Error {
    let first = if has_cells {
        ""
    } else {
        "[[cells]]                       # what this installation has now; DATABASE_URL and HOUSTON_REDIS_URL are not set any more\n\
         shards = \"0000-ffff\"\ndatabase_url = \"postgres://…\"\nredis_url = \"redis://…\"\n\n"
    };
    anyhow!(
        "there is no cell {name} in cells.toml (folder of --jobs). Add it, and run this command again:\n\n{first}\
         [[cells]]\nname = \"{name}\"\ndatabase_url = \"postgres://…\"\nredis_url = \"redis://…\""
    )
}
