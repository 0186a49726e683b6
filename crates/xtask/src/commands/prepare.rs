//! `cargo xtask prepare`: writes descriptions of the queries of `store` to `crates/store/.sqlx`, so that a build needs no
//! database.
//!
//! sqlx's macros write these descriptions at compile time, while they check the queries against a migrated database. So
//! `check` lints the workspace and checks the descriptions by one run of clippy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;
use houston_testkit::console::print_status;
use houston_testkit::servers::TestServers;
use houston_testkit::{child, programs, repository};

/// Update the prepared queries in crates/store/.sqlx.
#[derive(Debug, Args)]
pub(crate) struct Prepare {
    /// Change nothing; fail if they are outdated
    #[arg(long)]
    check: bool,
}

/// Descriptions of queries, or statements, by file name.
type Queries = BTreeMap<String, Vec<u8>>;

impl Prepare {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        if self.check {
            return compare(&describe(clippy()).await?).map(|()| ExitCode::SUCCESS);
        }
        // What depends on `store` has no queries, and may not compile before they are described.
        let mut of_store = repository::cargo();
        of_store.args(["check", "--package", "houston-store", "--lib", "--quiet"]);
        let described = describe(of_store).await?;
        let folder = prepared();
        for (name, text) in &described {
            if std::fs::read(folder.join(name)).ok().as_ref() != Some(text) {
                std::fs::write(folder.join(name), text)?;
                print_status(&format!("wrote {name}"));
            }
        }
        for name in read(&folder, "json")?.into_keys().filter(|name| !described.contains_key(name)) {
            std::fs::remove_file(folder.join(&name))?;
            print_status(&format!("removed {name}"));
        }
        print_status(&format!("crates/store/.sqlx: {} queries", described.len()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Lints the workspace. If queries or schema have changed since the last success, also checks the prepared queries.
pub(crate) async fn lint() -> Result<()> {
    let mark = repository::target().join("sqlx-checked");
    // Removing a file changes its folder. Without the mark, find fails.
    let mut find = Command::new("find");
    find.args(["crates/store", "migrations", "Cargo.lock", "-newer"]).arg(&mark).args(["-print", "-quit"]);
    if child::output(find.current_dir(repository::root())).is_ok_and(|changed| changed.is_empty()) {
        return child::succeed(clippy()).await;
    }
    compare(&describe(clippy()).await?)?;
    Ok(std::fs::write(mark, "")?)
}

/// Clippy for the whole workspace; cargo rechecks only changed crates and their dependants.
pub(crate) fn clippy() -> Command {
    let mut cargo = repository::cargo();
    cargo.args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    cargo
}

/// Compiles with a migrated database; returns the descriptions that sqlx's macros wrote.
async fn describe(mut compiling: Command) -> Result<Queries> {
    let servers = programs::servers(|_| {})?;
    migrate(&servers)?;
    let folder = repository::target().join("sqlx");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    // Cargo does not know that the macros read a database: the touched file makes it expand them again.
    child::output(Command::new("touch").arg(repository::root().join("crates/store/src/lib.rs")))?;
    compiling.env("SQLX_OFFLINE", "false").env("SQLX_OFFLINE_DIR", &folder);
    compiling.env("DATABASE_URL", servers.database_url());
    child::succeed(compiling).await?;
    let described = read(&folder, "json")?;
    ensure!(!described.is_empty(), "sqlx's macros wrote no description to {}", folder.display());
    Ok(described)
}

/// Creates the tables and functions of this repository in an empty database.
fn migrate(servers: &TestServers) -> Result<()> {
    servers.sql("create schema houston")?;
    // In the order of their names, so a function may use one that does not exist yet.
    for (folder, before) in
        [("migrations", ""), ("migrations/functions", "set check_function_bodies = off;\n")]
    {
        for (name, sql) in read(&repository::root().join(folder), "sql")? {
            let sql = format!("{before}{}", String::from_utf8_lossy(&sql));
            servers.sql(&sql).with_context(|| format!("{folder}/{name} failed"))?;
        }
    }
    Ok(())
}

fn compare(described: &Queries) -> Result<()> {
    let prepared = read(&prepared(), "json")?;
    let differ =
        |a: &Queries, b: &Queries| a.iter().filter(|(name, text)| b.get(*name) != Some(*text)).count();
    let (missing, outdated) = (differ(described, &prepared), differ(&prepared, described));
    ensure!(
        missing + outdated == 0,
        "crates/store/.sqlx is outdated: {missing} queries are missing or differ, {outdated} no longer exist or \
         differ: run `cargo xtask prepare` and commit the changes"
    );
    Ok(())
}

/// The files of a folder with this extension.
fn read(folder: &Path, extension: &str) -> Result<Queries> {
    let mut files = Queries::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|other| other == extension) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.insert(name, std::fs::read(path)?);
        }
    }
    Ok(files)
}

fn prepared() -> PathBuf {
    repository::root().join("crates/store/.sqlx")
}
