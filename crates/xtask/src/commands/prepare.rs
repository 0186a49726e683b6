//! `cargo xtask prepare`: the queries of `store`, checked against a database and written down, so that a build
//! needs none.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::child::{quietly, succeed};
use crate::console::tell;
use crate::{programs, repository};

/// Refresh the prepared queries in crates/store/.sqlx.
#[derive(Debug, Args)]
pub(crate) struct Prepare {
    /// Change nothing; fail if they are not fresh
    #[arg(long)]
    check: bool,
}

const VERSION: &str = "0.9.0";

impl Prepare {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        prepare(self.check).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Applies all migrations to an empty database and prepares every query against it.
pub(crate) async fn prepare(check: bool) -> Result<()> {
    let sqlx = sqlx().await?;
    let servers = programs::servers(|_| {})?;
    let store = repository::root().join("crates/store");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&sqlx);
        command.arg("sqlx").args(arguments).current_dir(&store).env("DATABASE_URL", servers.database_url());
        // It runs cargo itself, and wants to be told which.
        command.env("CARGO", repository::cargo_program()).env_remove("SQLX_OFFLINE");
        repository::forget_package(&mut command);
        command
    };
    succeed(command(&["migrate", "run"])).await?;
    if !check {
        return succeed(command(&["prepare"])).await;
    }
    let fresh = succeed(command(&["prepare", "--check"])).await;
    fresh.context("crates/store/.sqlx is not fresh: run `cargo xtask prepare` and commit what changes")
}

/// sqlx's own program, of the right version: installed under `target/tools` if it is missing.
async fn sqlx() -> Result<PathBuf> {
    let own = repository::tools().join("bin/cargo-sqlx");
    let is_right = |program: &PathBuf| {
        let version = quietly(Command::new(program).args(["sqlx", "--version"]));
        version.is_ok_and(|version| version.trim().ends_with(VERSION))
    };
    if let Some(found) =
        [Some(own.clone()), programs::find("cargo-sqlx")].into_iter().flatten().find(is_right)
    {
        return Ok(found);
    }
    tell(&format!("installing sqlx-cli {VERSION} into target/tools (once; about 70 s)"));
    let mut cargo = repository::cargo();
    cargo.args(["install", "sqlx-cli", "--quiet", "--locked", "--no-default-features"]);
    cargo.args(["--version", VERSION, "--features", "postgres,sqlx-toml", "--root"]).arg(repository::tools());
    // Beside the other builds: a folder of its own would build every dependency twice.
    succeed(cargo).await?;
    Ok(own)
}
