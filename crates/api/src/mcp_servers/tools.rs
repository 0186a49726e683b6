//! `GET …/mcp-servers/{name}/tools` and `POST …/tools/approve`: what a server lists, compared with what was approved.

use std::collections::BTreeMap;

use axum::Json;
use houston_domain::mcp_server::names::of_settings;
use houston_domain::mcp_server::pin::{ComparedTool, ListedTool, NotApproved, Pin, Standing, compare};
use houston_domain::mcp_server::{MAX_NAMED_TOOLS, MAX_PINS_BYTES};
use houston_protocol::mcp_server::{ApproveMcpTools, McpToolDefinition, McpToolList, McpToolResponse};
use houston_store::mcp_server::{McpServer, ServerOwner};
use serde_json::json;

use super::{ServerName, confirm, foreign_of};
use crate::admission;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

pub(super) async fn tools(
    app: &App,
    caller: Caller,
    owner: ServerOwner,
    ServerName(name): ServerName,
) -> Result<Json<McpToolList>, ApiError> {
    confirm(app, caller, owner).await?;
    let server = app.store(caller).mcp_server(owner, &name).await?;
    let listed = listed(app, caller, owner, &server).await?;
    Ok(Json(compared(&server, &listed)))
}

pub(super) async fn approve(
    app: &App,
    caller: Caller,
    owner: ServerOwner,
    ServerName(name): ServerName,
    ApproveMcpTools { tools }: ApproveMcpTools,
) -> Result<Json<McpToolList>, ApiError> {
    if tools.len() > MAX_NAMED_TOOLS {
        return Err(ApiError::field("/tools", format!("at most {MAX_NAMED_TOOLS} tools can be named")));
    }
    confirm(app, caller, owner).await?;
    let server = app.store(caller).mcp_server(owner, &name).await?;
    let listed = listed(app, caller, owner, &server).await?;
    match app.store(caller).approve_mcp_tools(owner, &name, &server.url, &listed, &tools).await? {
        Ok(server) => Ok(Json(compared(&server, &listed))),
        Err(refused @ NotApproved::Refused { .. }) => Err(ApiError::field("/tools", refused.to_string())),
        Err(NotApproved::TooLarge) => {
            let why = format!(
                "the approved definitions of a server have at most {MAX_PINS_BYTES} bytes: approve fewer"
            );
            Err(ApiError::field("/tools", why))
        }
        Err(changed) => Err(ApiError::ToolChanged { reason: changed.to_string() }),
    }
}

/// What the server lists now.
async fn listed(
    app: &App,
    caller: Caller,
    owner: ServerOwner,
    server: &McpServer,
) -> Result<Vec<ListedTool>, ApiError> {
    let failed = |reason| ApiError::McpServerFailed { name: server.name.clone(), reason };
    let foreign = foreign_of(app, caller, owner, server)?;
    admission::give_back();
    app.state.foreign_servers.tools(foreign).await.map_err(failed)
}

fn compared(server: &McpServer, listed: &[ListedTool]) -> McpToolList {
    let mut offered: BTreeMap<String, String> =
        of_settings(&server.name, &server.settings, &server.pins).into_iter().collect();
    let tool = |(name, compared): (String, ComparedTool)| {
        let ComparedTool { standing, tool, approved, changed } = compared;
        let offered_as = offered.remove(&name).filter(|_| standing == Standing::Approved);
        McpToolResponse {
            name,
            state: standing.as_str().to_owned(),
            sha256: tool.pin.sha256,
            description: tool.pin.description,
            input_schema: tool.pin.input_schema,
            hints: json!(tool.pin.hints),
            offered_as,
            refused: tool.refused,
            changed: changed.into_iter().map(str::to_owned).collect(),
            approved: approved.map(definition),
        }
    };
    McpToolList { data: compare(&server.pins, listed).into_iter().map(tool).collect() }
}

fn definition(pin: Pin) -> McpToolDefinition {
    let hints = json!(pin.hints);
    McpToolDefinition {
        sha256: pin.sha256,
        description: pin.description,
        input_schema: pin.input_schema,
        hints,
    }
}
