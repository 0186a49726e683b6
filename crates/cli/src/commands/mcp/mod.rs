//! `houston mcp`: adds MCP servers, and shows, checks and approves what they offer.

mod add;
mod approve;
mod doctor;
mod file;
mod list;
mod own;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use houston_mcp::McpSettings;
use houston_mcp::pins::Standing;
use houston_mcp::server::Look;

use super::{Context, Failure, runtime};
use crate::config::user_path;
use crate::models::environment;

/// Seconds of a server's first start: its package may be installed then.
const FIRST_START_S: u64 = 300;

/// Add MCP servers, whose tools agents may call, and check and approve what they offer (jobs/mcp.toml).
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add a server to mcp.toml, start it, and approve the tools it lists
    Add(add::Add),
    /// List the servers, or those of the catalogue
    List {
        /// The servers that `add` knows
        #[arg(long)]
        catalogue: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Start each server, compare its tools with the approved ones, and say what is wrong; exits 1 when a server is red
    Doctor {
        /// Only this server
        name: Option<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Approve the tools of a server as it lists them now
    Approve {
        /// The server
        name: String,
        /// Only these tools, by the names that the server gives them
        tools: Vec<String>,
    },
    /// The servers that tenants and users brought over the API, and the approval of their tools
    Own {
        #[command(subcommand)]
        action: own::Action,
    },
}

impl Mcp {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Own { action } => action.run(context),
            Action::Add(command) => command.run(&context),
            Action::List { catalogue: true, json } => list::catalogue(json),
            Action::List { catalogue: false, json } => Ok(list::servers(&context, json)),
            Action::Doctor { name, json } => doctor::doctor(&context, name.as_deref(), json),
            Action::Approve { name, tools } => {
                approve::approve(&context, &context.loaded.settings.mcp, &name, &tools)
            }
        }
    }
}

/// The folder whose files are written: the last that is read, or that of the user.
fn folder(context: &Context) -> Result<PathBuf, Failure> {
    let last = context.loaded.folders().last().cloned();
    let folder = last.or_else(|| user_path(environment));
    let folder =
        folder.ok_or_else(|| Failure::Usage(anyhow!("name a folder for the settings: --jobs <FOLDER>")))?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Starts a server and reads its tools.
fn look(context: &Context, settings: &McpSettings, name: &str) -> Result<Look, Failure> {
    let mut settings = settings.clone();
    settings.limits.start_s = settings.limits.start_s.max(FIRST_START_S);
    let pool = context.loaded.pool(&settings, &context.folder);
    let Some(server) = pool.server(name) else {
        let existing = settings.servers.iter().filter(|(_, server)| server.enabled);
        let existing: Vec<&str> = existing.map(|(name, _)| name.as_str()).collect();
        let error =
            anyhow!("there is no enabled server `{name}` in mcp.toml; there are: {}", existing.join(", "));
        return Err(Failure::Usage(error));
    };
    runtime()?.block_on(async {
        let look = server.look().await;
        pool.close().await;
        Ok(look)
    })
}

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Approved => "approved",
        Standing::Changed => "changed",
        Standing::New => "new",
        Standing::Gone => "gone",
        Standing::Refused => "refused",
    }
}
