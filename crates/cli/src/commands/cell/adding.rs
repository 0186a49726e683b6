//! `houston cell add`: prepares the servers of a cell that cells.toml names. Users come with `houston cell move`.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use houston_domain::cell::{CellName, Cells};
use houston_domain::id::TenantId;
use houston_store::Store;
use houston_store::cell_move::Contents;
use houston_store::copies::Copies;
use houston_store::moves::Moves;
use houston_store::pool::display_target;

use crate::commands::{Context, Failure, audit, runtime};
use crate::connect::{self, CellAddresses};
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
                if nth != number {
                    store.check_schema().await?;
                }
            }
            if let (Some(store), Some(address)) = (stores.get(number), addresses.cells.get(number)) {
                self.check_owner(&stores, (number, store), address).await?;
                self.prepare(store).await?;
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

    /// Refuses a database of others, before anything is written to it.
    async fn check_owner(
        &self,
        stores: &Cells<Store>,
        (number, store): (usize, &Store),
        address: &CellAddresses,
    ) -> Result<(), Failure> {
        let refusal = |found: &str| {
            Failure::Usage(anyhow!(
                "the database of the cell {} at {} {found}. Nothing was written to it. Give the cell an empty database in \
                 cells.toml, and run this command again",
                self.name,
                display_target(&address.database_url)
            ))
        };
        let identity = store.identity().await?;
        for (nth, (name, other)) in stores.named().enumerate() {
            if nth != number && other.identity().await? == identity {
                return Err(refusal(&format!("is that of the cell {name}, under another address")));
            }
        }
        // The home has what the others get copies of.
        if number == 0 {
            return Ok(());
        }
        let (contents, home) = (store.contents().await?, stores.home().contents().await?);
        owner(&self.name, &contents, &home.tenants).map_or(Ok(()), |found| Err(refusal(&found)))
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

/// Of whom else the database is that the cell with this name was given. `None`: it has nothing of others; an earlier attempt to add
/// the cell may have filled it. `ours`: the tenants of the installation.
fn owner(name: &CellName, there: &Contents, ours: &[TenantId]) -> Option<String> {
    let (all, strange) =
        (there.tenants.len(), there.tenants.iter().filter(|tenant| !ours.contains(tenant)).count());
    if strange > 0 {
        return Some(format!(
            "belongs to another installation: {strange} of its {all} tenants are unknown to this one"
        ));
    }
    if let Some(other) = there.names.iter().find(|other| *other != name) {
        return Some(format!("is that of the cell {other} of this installation, which keeps its name"));
    }
    let began_with_users = there.has_users && there.names.is_empty() && name.shards().is_none();
    began_with_users.then(|| {
        "has users of this installation, and none was moved to it: it is that of a cell with shards, or a copy of one".to_owned()
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_of_others_is_no_new_cell() {
        let (ours, others) = (TenantId(uuid::Uuid::from_u128(1)), TenantId(uuid::Uuid::from_u128(2)));
        let second: CellName = "second".parse().unwrap();
        let third: CellName = "third".parse().unwrap();
        let of = |tenants: &[TenantId], has_users: bool, names: &[&CellName]| {
            let names = names.iter().map(|name| (*name).clone()).collect();
            owner(&second, &Contents { tenants: tenants.to_vec(), has_users, names }, &[ours])
        };
        assert_eq!(of(&[], false, &[]), None, "empty");
        assert_eq!(of(&[ours], false, &[]), None, "left half done");
        assert_eq!(of(&[ours], true, &[&second]), None, "this cell, with its users");
        assert!(of(&[ours, others], false, &[]).unwrap().contains("1 of its 2 tenants"));
        assert!(of(&[ours], true, &[&third]).unwrap().contains("the cell third"));
        assert!(of(&[ours], true, &[]).unwrap().contains("has users"));
    }
}
