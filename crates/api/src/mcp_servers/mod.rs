//! MCP servers over HTTP of the tenant and of users, and the approval of their tools. A change applies from the next run on.

mod endpoints;
pub(crate) mod foreign;
mod put;
pub(crate) mod tenant;
mod tools;
pub(crate) mod user;

use axum::Json;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::StatusCode;
use axum::http::request::Parts;
use houston_domain::mcp_server::{ToolSettings, name_problem};
use houston_protocol::mcp_server::{McpServerList, McpServerResponse, McpToolSettings};
use houston_protocol::time::Time;
use houston_store::mcp_server::{McpServer, ServerOwner};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

/// The name of a server in a path.
#[derive(Debug)]
pub(crate) struct ServerName(String);

impl<S: Send + Sync> FromRequestParts<S> for ServerName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| ApiError::NotFound { what: "MCP server" })?;
        let name = params.iter().find(|(key, _)| *key == "name").map_or("", |(_, name)| name);
        match name_problem(name) {
            Some(problem) => {
                Err(ApiError::field("", format!("the name in the path is not allowed: {problem}")))
            }
            None => Ok(Self(name.to_owned())),
        }
    }
}

/// Checks that the user exists: one that is being erased has its servers for a while.
async fn confirm(app: &App, caller: Caller, owner: ServerOwner) -> Result<(), ApiError> {
    if let ServerOwner::User(user) = owner {
        app.store(caller).user(user).await?;
    }
    Ok(())
}

async fn list(app: &App, caller: Caller, owner: ServerOwner) -> Result<Json<McpServerList>, ApiError> {
    confirm(app, caller, owner).await?;
    let servers = app.store(caller).mcp_servers(owner).await?;
    Ok(Json(McpServerList { data: servers.into_iter().map(response).collect() }))
}

async fn get(
    app: &App,
    caller: Caller,
    owner: ServerOwner,
    ServerName(name): ServerName,
) -> Result<Json<McpServerResponse>, ApiError> {
    confirm(app, caller, owner).await?;
    Ok(Json(response(app.store(caller).mcp_server(owner, &name).await?)))
}

async fn delete(
    app: &App,
    caller: Caller,
    owner: ServerOwner,
    ServerName(name): ServerName,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_mcp_server(owner, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn response(server: McpServer) -> McpServerResponse {
    let said = |(tool, said): (String, ToolSettings)| {
        let (effect, risk) = (
            said.effect.map(|effect| effect.as_str().to_owned()),
            said.risk.map(|risk| risk.as_str().to_owned()),
        );
        (tool, McpToolSettings { effect, risk })
    };
    let settings = server.settings;
    McpServerResponse {
        name: server.name,
        url: server.url,
        headers: server.header_names,
        enabled: settings.enabled,
        kinds: settings.kinds,
        only: settings.only,
        timeout_s: settings.timeout_s,
        tools: settings.tools.into_iter().map(said).collect(),
        offered: server.tools,
        created_at: Time(server.created_at),
        updated_at: Time(server.updated_at),
    }
}
