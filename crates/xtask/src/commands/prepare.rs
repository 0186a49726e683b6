//! `cargo xtask prepare`: writes descriptions of the queries of `store` to `crates/store/.sqlx`, so that a build needs no
//! database.
//!
//! sqlx's macros write these descriptions at compile time, while they check the queries against a migrated database. So
//! one run of clippy both lints the workspace and describes the queries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use clap::Args;
use houston_xtask::console::print_status;
use houston_xtask::{child, programs, psql, repository};

/// Update the prepared queries in crates/store/.sqlx.
#[derive(Debug, Args)]
pub(crate) struct Prepare {
    /// Change nothing; fail if they are outdated
    #[arg(long)]
    check: bool,
}

/// Descriptions of queries, by file name.
type Queries = BTreeMap<String, Vec<u8>>;

impl Prepare {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let described = describe().await?;
        if self.check {
            return compare(&described).map(|()| ExitCode::SUCCESS);
        }
        let folder = prepared();
        for (name, text) in &described {
            if std::fs::read(folder.join(name)).ok().as_ref() != Some(text) {
                std::fs::write(folder.join(name), text)?;
                print_status(&format!("wrote {name}"));
            }
        }
        for name in read(&folder)?.into_keys().filter(|name| !described.contains_key(name)) {
            std::fs::remove_file(folder.join(&name))?;
            print_status(&format!("removed {name}"));
        }
        print_status(&format!("crates/store/.sqlx: {} queries", described.len()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Lints the workspace. If queries or schema have changed since the last success, also checks the prepared queries.
pub(crate) async fn lint() -> Result<()> {
    if newest_source()? <= modified(&mark()) {
        return child::succeed(clippy()).await;
    }
    compare(&describe().await?)?;
    std::fs::write(mark(), "")?;
    Ok(())
}

/// Clippy for the whole workspace; cargo rechecks only changed crates and their dependants.
pub(crate) fn clippy() -> Command {
    let mut cargo = repository::cargo();
    cargo.args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    cargo
}

/// Lints the workspace with a migrated database; returns the descriptions that sqlx's macros wrote.
async fn describe() -> Result<Queries> {
    let servers = programs::servers(|_| {})?;
    psql::migrate(&servers)?;
    let folder = repository::target().join("sqlx");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    // Cargo does not know that the macros read a database: the touched file makes it expand them again.
    child::output(Command::new("touch").arg(store().join("src/lib.rs")))?;
    let mut clippy = clippy();
    clippy.env("SQLX_OFFLINE", "false").env("SQLX_OFFLINE_DIR", &folder);
    clippy.env("DATABASE_URL", servers.database_url());
    child::succeed(clippy).await?;
    let described = read(&folder)?;
    ensure!(!described.is_empty(), "sqlx's macros wrote no description to {}", folder.display());
    Ok(described)
}

fn compare(described: &Queries) -> Result<()> {
    let prepared = read(&prepared())?;
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

fn read(folder: &Path) -> Result<Queries> {
    let files = std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let files = files.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
    let queries =
        files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    queries
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok((name, std::fs::read(path)?))
        })
        .collect()
}

fn store() -> PathBuf {
    repository::root().join("crates/store")
}

fn prepared() -> PathBuf {
    store().join(".sqlx")
}

/// A file whose time is that of the last successful check.
fn mark() -> PathBuf {
    repository::target().join("sqlx-checked")
}

/// The latest change of a file that the prepared queries depend on.
fn newest_source() -> Result<SystemTime> {
    let (mut folders, mut newest) = (
        vec![store(), repository::root().join("migrations")],
        modified(&repository::root().join("Cargo.lock")),
    );
    while let Some(folder) = folders.pop() {
        // Removing a file changes its folder.
        newest = newest.max(modified(&folder));
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                newest = newest.max(modified(&path));
            }
        }
    }
    Ok(newest)
}

/// When a file was last changed; the Unix epoch if it does not exist.
fn modified(path: &Path) -> SystemTime {
    path.metadata().and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}
