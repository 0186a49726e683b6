//! `cargo xtask prepare`: writes descriptions of the queries of `store` to `crates/store/.sqlx`, so that a build needs no
//! database.
//!
//! sqlx's macros write these descriptions at compile time, while they check the queries against a migrated database. That they
//! fit the schema is a test of the store (`prepared`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;
use houston_testkit::console::print_status;
use houston_testkit::servers::TestServers;
use houston_testkit::{child, programs, repository};

/// Update the prepared queries in crates/store/.sqlx
#[derive(Debug, Args)]
pub(crate) struct Prepare {}

impl Prepare {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        // What depends on `store` has no queries, and may not compile before they are described.
        let mut of_store = repository::cargo();
        of_store.args(["check", "--package", "houston-store", "--lib", "--quiet"]);
        let (described, prepared) =
            (files(&describe(of_store).await?)?, repository::root().join("crates/store/.sqlx"));
        fs::remove_dir_all(&prepared)?;
        fs::create_dir(&prepared)?;
        for file in &described {
            fs::copy(file, prepared.join(file.file_name().unwrap_or_default()))?;
        }
        print_status(&format!("crates/store/.sqlx: {} queries", described.len()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Clippy for the whole workspace; cargo rechecks only changed crates and their dependants.
pub(crate) fn clippy() -> Command {
    let mut cargo = repository::cargo();
    cargo.args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    cargo
}

/// Compiles with a migrated database; returns the folder of the descriptions that sqlx's macros wrote.
async fn describe(mut compiling: Command) -> Result<PathBuf> {
    let servers = programs::servers(|_| {})?;
    migrate(&servers)?;
    let folder = repository::target().join("sqlx");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    // Cargo does not know that the macros read a database: the touched file makes it expand them again.
    child::output(Command::new("touch").arg(repository::root().join("crates/store/src/lib.rs")))?;
    compiling.env("SQLX_OFFLINE", "false").env("SQLX_OFFLINE_DIR", &folder);
    compiling.env("DATABASE_URL", servers.database_url());
    child::succeed(compiling).await?;
    ensure!(!files(&folder)?.is_empty(), "sqlx's macros wrote no description to {}", folder.display());
    Ok(folder)
}

/// Creates the tables and functions of this repository in an empty database.
fn migrate(servers: &TestServers) -> Result<()> {
    servers.sql("create schema houston")?;
    // In the order of their names, so a function may use one that does not exist yet; one uses the extension that the first
    // migration installs.
    let before = "set check_function_bodies = off;\nset search_path = houston;\n";
    for (folder, before) in [("migrations", ""), ("migrations/functions", before)] {
        for file in files(&repository::root().join(folder))? {
            let sql = format!("{before}{}", fs::read_to_string(&file)?);
            servers.sql(&sql).with_context(|| format!("{} failed", file.display()))?;
        }
    }
    Ok(())
}

/// The files of a folder, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}
