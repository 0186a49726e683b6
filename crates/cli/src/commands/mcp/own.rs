//! `houston mcp own`: the MCP servers that tenants and users brought over the API, and the approval of their tools.

use std::collections::BTreeMap;

use anyhow::anyhow;
use clap::Subcommand;
use houston_api::{Local, LocalError};
use houston_domain::mcp_server::pin::Standing;
use houston_protocol::mcp_server::{
    ApproveMcpTools, McpServerList, McpServerResponse, McpToolList, McpToolResponse,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Context, Failure, Result, no_tool};
use crate::commands::agentable::{one_line, print_rows, print_table, segment, yes_or_no};
use crate::commands::owner::OwnerArg;
use crate::output::{print_json, print_stderr};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
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
    pub(super) fn run(self, context: Context) -> Result<()> {
        match self {
            Self::List { owner, json } => owner.with_api(context, async |api, path| {
                let servers: McpServerList = api.get(&format!("{path}/mcp-servers")).await?;
                list(&servers.data, json);
                Ok(())
            }),
            Self::Tools { name, owner, json } => owner.with_api(context, async |api, path| {
                let tools = api.get::<McpToolList>(&format!("{}/tools", server(path, &name))).await;
                show(&tools.map_err(|error| not_found(&name, error))?.data, json);
                Ok(())
            }),
            Self::Approve { name, tools, owner } => {
                owner.with_api(context, async |api, path| approve(&api, path, &name, &tools).await)
            }
        }
    }
}

/// Where the API has the server of the owner with this path.
fn server(path: &str, name: &str) -> String {
    format!("{path}/mcp-servers/{}", segment(name))
}

fn not_found(name: &str, error: LocalError) -> Failure {
    Failure::from(error).or_missing(|| {
        anyhow!(
            "there is no MCP server `{}`; `houston mcp own list` prints those there are, of a tenant (--tenant) or a user (--user)",
            one_line(name, 80)
        )
    })
}

async fn approve(api: &Local, path: &str, name: &str, only: &[String]) -> Result<()> {
    let server = server(path, name);
    let listed = api.get::<McpToolList>(&format!("{server}/tools")).await;
    let listed = listed.map_err(|error| not_found(name, error))?.data;
    if let Some(unknown) = only.iter().find(|wanted| !listed.iter().any(|tool| tool.name == **wanted)) {
        return Err(no_tool(name, &one_line(unknown, 80), listed.iter().map(|tool| tool.name.as_str())));
    }
    let unapproved = [Standing::New, Standing::Changed].map(Standing::as_str);
    let is_meant = |tool: &&McpToolResponse| match only {
        [] => unapproved.contains(&tool.state.as_str()),
        only => only.contains(&tool.name),
    };
    let hash = |tool: &McpToolResponse| (tool.name.clone(), tool.sha256.clone());
    let tools: BTreeMap<String, String> = listed.iter().filter(is_meant).map(hash).collect();
    let names: Vec<String> = tools.keys().cloned().collect();
    let approved = ApproveMcpTools { tools };
    let _: McpToolList = api.change(Method::POST, &format!("{server}/tools/approve"), &approved).await?;
    show(&listed, false);
    print_stderr(&match names.as_slice() {
        [] => "there was nothing to approve".to_owned(),
        names => format!("approved, from the next run on: {}", names.join(", ")),
    });
    if api.get::<McpServerResponse>(&server).await?.kinds.is_empty() {
        print_stderr(
            "no kind is offered its tools: set `kinds` of the server, or name them in an agent's `tools`",
        );
    }
    Ok(())
}

fn list(servers: &[McpServerResponse], json: bool) {
    let as_json = |server: &McpServerResponse| {
        json!({
            "name": server.name, "url": server.url, "enabled": server.enabled, "kinds": server.kinds,
            "headers": server.headers, "tools": server.offered, "withheld": server.withheld,
        })
    };
    let all = json.then(|| json!({"data": servers.iter().map(as_json).collect::<Value>()}));
    let heads = ["SERVER", "ENABLED", "TOOLS", "CHANGED", "KINDS", "ADDRESS"];
    print_rows(
        all,
        servers,
        "there are no MCP servers; PUT /v1/mcp-servers/{name} adds one",
        heads,
        |server| {
            [
                server.name.clone(),
                yes_or_no(server.enabled),
                server.offered.len().to_string(),
                server.withheld.len().to_string(),
                server.kinds.join(", "),
                one_line(&server.url, 80),
            ]
        },
    );
}

fn show(tools: &[McpToolResponse], json: bool) {
    if json {
        let row = |tool: &McpToolResponse| {
            let definition = json!({
                "sha256": tool.sha256, "description": tool.description, "input_schema": tool.input_schema,
                "hints": tool.hints,
            });
            json!({
                "name": tool.name, "state": tool.state, "definition": definition, "refused": tool.refused,
                "changed": tool.changed, "approved": tool.approved,
            })
        };
        return print_json(&json!({"data": tools.iter().map(row).collect::<Value>()}));
    }
    let row = |tool: &McpToolResponse| {
        let about = tool.refused.as_ref().unwrap_or(&tool.description);
        [one_line(&tool.name, 64), tool.state.clone(), tool.changed.join(", "), one_line(about, 200)]
    };
    print_table(["TOOL", "WAS", "CHANGED", "ABOUT"], tools.iter().map(row));
}
