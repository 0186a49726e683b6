//! `houston mcp own`: the MCP servers that tenants and users brought over the API, and the approval of their tools.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Subcommand;
use houston_api::{ForeignServer, ForeignServers as _};
use houston_domain::mcp_server::headers_purpose;
use houston_domain::mcp_server::pin::{ComparedTool, ListedTool, Standing, compare};
use houston_domain::sealed::Purpose;
use houston_store::Error;
use houston_store::mcp_server::{McpServer, ServerOwner};
use serde_json::{Value, json};

use super::{Context, Failure};
use crate::commands::agentable::{one_line, table};
use crate::commands::audit;
use crate::commands::owner::{FoundOwner, OwnerArg};
use crate::foreign_servers::Foreign;
use crate::output::{print, print_json, print_stderr};

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// List the servers of a tenant or a user
    List {
        #[command(flatten)]
        owner: OwnerArg,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Ask a server for its tools, and compare them with the approved ones
    Tools {
        /// The server
        name: String,
        #[command(flatten)]
        owner: OwnerArg,
        /// Print one JSON object, with the whole definitions
        #[arg(long)]
        json: bool,
    },
    /// Approve the tools of a server as it lists them now
    Approve {
        /// The server
        name: String,
        /// Only these tools, by the names that the server gives them
        tools: Vec<String>,
        #[command(flatten)]
        owner: OwnerArg,
    },
}

impl Action {
    pub(super) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        match self {
            Self::List { owner, json } => owner.with(context, async |_, found| {
                let servers = found.store.tenant(found.tenant).mcp_servers(owner_of(&found)).await?;
                list(&servers, json);
                Ok(())
            }),
            Self::Tools { name, owner, json } => owner.with(context, async |context, found| {
                let server = server(&found, &name).await?;
                let listed = listed(context, &found, &server).await?;
                show(&compare(&server.pins, &listed), json);
                Ok(())
            }),
            Self::Approve { name, tools, owner } => {
                owner.with(context, async |context, found| approve(context, &found, &name, &tools).await)
            }
        }
    }
}

fn owner_of(found: &FoundOwner<'_>) -> ServerOwner {
    found.user.map_or(ServerOwner::Tenant, ServerOwner::User)
}

async fn server(found: &FoundOwner<'_>, name: &str) -> Result<McpServer, Failure> {
    let server = found.store.tenant(found.tenant).mcp_server(owner_of(found), name).await;
    server.map_err(|error| not_found(name, error))
}

fn not_found(name: &str, error: Error) -> Failure {
    match error {
        Error::NotFound { .. } => Failure::Other(anyhow!(
            "there is no MCP server `{}`; `houston mcp own list` prints those there are, of a tenant (--tenant) or a user (--user)",
            one_line(name, 80)
        )),
        error => error.into(),
    }
}

/// What the server lists now.
async fn listed(
    context: &Context,
    found: &FoundOwner<'_>,
    server: &McpServer,
) -> Result<Vec<ListedTool>, Failure> {
    let what = headers_purpose(owner_of(found).id(found.tenant), &server.name);
    let headers = match (&server.sealed, &context.loaded.secret_keys) {
        (None, _) => BTreeMap::new(),
        (Some(_), None) => {
            return Err(Failure::Usage(anyhow!(
                "its headers are sealed: set HOUSTON_SECRETS_KEY as for the API"
            )));
        }
        (Some(sealed), Some(keys)) => keys
            .open_named(Purpose { tenant: found.tenant, what: &what }, sealed)
            .map_err(|error| Failure::Other(anyhow!("the headers of `{}`: {error}", server.name)))?,
    };
    let McpServer { name, url, settings, .. } = server.clone();
    let (tenant, user) = (found.tenant, found.user);
    let foreign = ForeignServer { tenant, user, name, url, settings, headers };
    let listed = Foreign::new(context.loaded.mcp.own.clone()).tools(foreign).await;
    listed.map_err(|reason| Failure::Other(anyhow!("`{}` did not list its tools: {reason}", server.name)))
}

async fn approve(
    context: &Context,
    found: &FoundOwner<'_>,
    name: &str,
    only: &[String],
) -> Result<(), Failure> {
    let server = server(found, name).await?;
    let listed = listed(context, found, &server).await?;
    let compared = compare(&server.pins, &listed);
    if let Some(unknown) = only.iter().find(|wanted| !compared.contains_key(*wanted)) {
        let existing: Vec<&str> = compared.keys().map(String::as_str).collect();
        let unknown = one_line(unknown, 80);
        return Err(Failure::Usage(anyhow!(
            "{name} has no tool `{unknown}`; it has: {}",
            existing.join(", ")
        )));
    }
    let is_meant = |(tool, compared): &(&String, &ComparedTool)| match only {
        [] => matches!(compared.standing, Standing::New | Standing::Changed),
        only => only.contains(*tool),
    };
    let hash = |(tool, compared): (&String, &ComparedTool)| (tool.clone(), compared.tool.pin.sha256.clone());
    let meant: BTreeMap<String, String> = compared.iter().filter(is_meant).map(hash).collect();
    let store = found.store.tenant(found.tenant);
    let approved = store.approve_mcp_tools(owner_of(found), name, &server.url, &listed, &meant).await;
    let approved = approved.map_err(|error| not_found(name, error))?;
    let server = approved.map_err(|refused| Failure::Other(anyhow!("nothing was approved: {refused}")))?;
    found.copies.copy(found.tenant).await?;
    match found.user {
        Some(user) => audit::record_of(store, "approve_mcp_tools_of_user", user).await,
        None => audit::record_of(store, "approve_mcp_tools", name).await,
    }
    show(&compared, false);
    let names: Vec<&str> = meant.keys().map(String::as_str).collect();
    print_stderr(&match names.as_slice() {
        [] => "there was nothing to approve".to_owned(),
        names => format!("approved, from the next run on: {}", names.join(", ")),
    });
    if server.settings.kinds.is_empty() {
        print_stderr(
            "no kind is offered its tools: set `kinds` of the server, or name them in an agent's `tools`",
        );
    }
    Ok(())
}

fn list(servers: &[McpServer], json: bool) {
    let withheld = |server: &McpServer| {
        let pins = server.pins.iter().filter(|(_, pin)| pin.withheld);
        pins.map(|(tool, _)| tool.clone()).collect::<Vec<_>>()
    };
    if json {
        let row = |server: &McpServer| {
            json!({
                "name": server.name, "url": server.url, "enabled": server.settings.enabled, "kinds": server.settings.kinds,
                "headers": server.header_names, "tools": server.tools, "withheld": withheld(server),
            })
        };
        return print_json(&json!({"data": servers.iter().map(row).collect::<Vec<Value>>()}));
    }
    if servers.is_empty() {
        return print("there are no MCP servers; PUT /v1/mcp-servers/{name} adds one");
    }
    let row = |server: &McpServer| {
        let enabled = if server.settings.enabled { "yes" } else { "no" };
        [
            server.name.clone(),
            enabled.to_owned(),
            server.tools.len().to_string(),
            withheld(server).len().to_string(),
            server.settings.kinds.join(", "),
            one_line(&server.url, 80),
        ]
    };
    let rows: Vec<[String; 6]> = servers.iter().map(row).collect();
    table(&["SERVER", "ENABLED", "TOOLS", "CHANGED", "KINDS", "ADDRESS"], &rows)
        .iter()
        .for_each(|line| print(line));
}

fn show(compared: &BTreeMap<String, ComparedTool>, json: bool) {
    if json {
        let row = |(name, compared): (&String, &ComparedTool)| {
            json!({
                "name": name, "state": compared.standing, "definition": compared.tool.pin, "refused": compared.tool.refused,
                "changed": compared.changed, "approved": compared.approved,
            })
        };
        return print_json(&json!({"data": compared.iter().map(row).collect::<Vec<Value>>()}));
    }
    let row = |(name, compared): (&String, &ComparedTool)| {
        let about = compared.tool.refused.as_ref().unwrap_or(&compared.tool.pin.description);
        let state = compared.standing.as_str().to_owned();
        [one_line(name, 64), state, compared.changed.join(", "), one_line(about, 200)]
    };
    let rows: Vec<[String; 4]> = compared.iter().map(row).collect();
    table(&["TOOL", "WAS", "CHANGED", "ABOUT"], &rows).iter().for_each(|line| print(line));
}
