//! MCP servers over HTTP of the tenant and of users, and the approval of their tools. A change applies from the next run on.

mod endpoints;
pub(crate) mod foreign;
pub(crate) mod login;
mod put;
pub(crate) mod tenant;
mod tools;
pub(crate) mod user;

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use houston_domain::mcp_server::{OAuthSettings, ToolSettings, headers_purpose, name_problem};
use houston_domain::sealed::Purpose;
use houston_protocol::mcp_server::{McpOAuth, McpServerList, McpServerResponse, McpToolSettings};
use houston_protocol::time::Time;
use houston_store::mcp_server::{McpServer, ServerOwner};
use secrecy::SecretString;

use self::foreign::ForeignServer;
use crate::agentable_path::params;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

/// The name of a server in a path.
#[derive(Debug)]
pub(crate) struct ServerName(String);

impl<S: Send + Sync> FromRequestParts<S> for ServerName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let params = params(parts).ok_or(ApiError::NotFound { what: "MCP server" })?;
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
    let accounts = accounts(app, caller, owner, &servers).await?;
    let data = servers.into_iter().map(|server| response(server, &accounts)).collect();
    Ok(Json(McpServerList { data }))
}

async fn get(
    app: &App,
    caller: Caller,
    owner: ServerOwner,
    ServerName(name): ServerName,
) -> Result<Json<McpServerResponse>, ApiError> {
    confirm(app, caller, owner).await?;
    answer(app, caller, owner, app.store(caller).mcp_server(owner, &name).await?).await
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

/// What reaches the server.
fn foreign_of(
    app: &App,
    caller: Caller,
    owner: ServerOwner,
    server: &McpServer,
) -> Result<ForeignServer, ApiError> {
    let McpServer { name, url, settings, .. } = server.clone();
    let user = match owner {
        ServerOwner::Tenant => None,
        ServerOwner::User(user) => Some(user),
    };
    let failed = |reason| ApiError::McpServerFailed { name: server.name.clone(), reason };
    let headers = headers(app, caller, owner, server).map_err(failed)?;
    Ok(ForeignServer { tenant: caller.tenant(), user, name, url, settings, headers })
}

fn headers(
    app: &App,
    caller: Caller,
    owner: ServerOwner,
    server: &McpServer,
) -> Result<BTreeMap<String, SecretString>, String> {
    let Some(sealed) = &server.sealed else { return Ok(BTreeMap::new()) };
    let lost = || "its headers cannot be read with the key of this installation: send them again".to_owned();
    let keys = app.state.secret_keys.as_ref().ok_or_else(lost)?;
    let tenant = caller.tenant();
    let what = headers_purpose(owner.id(tenant), &server.name);
    keys.open_named(Purpose { tenant, what: &what }, sealed).map_err(|_| lost())
}

/// The names of those of these servers at which their owner has an account.
async fn accounts(
    app: &App,
    caller: Caller,
    owner: ServerOwner,
    servers: &[McpServer],
) -> Result<BTreeSet<String>, ApiError> {
    match servers.iter().any(|server| server.settings.oauth.is_some()) {
        true => Ok(app.store(caller).mcp_logged_in(owner).await?),
        false => Ok(BTreeSet::new()),
    }
}

/// The server as the API answers it.
async fn answer(
    app: &App,
    caller: Caller,
    owner: ServerOwner,
    server: McpServer,
) -> Result<Json<McpServerResponse>, ApiError> {
    let accounts = accounts(app, caller, owner, std::slice::from_ref(&server)).await?;
    Ok(Json(response(server, &accounts)))
}

fn response(server: McpServer, accounts: &BTreeSet<String>) -> McpServerResponse {
    let said = |(tool, said): (String, ToolSettings)| {
        let (effect, risk) = (
            said.effect.map(|effect| effect.as_str().to_owned()),
            said.risk.map(|risk| risk.as_str().to_owned()),
        );
        (tool, McpToolSettings { effect, risk })
    };
    let settings = server.settings;
    let login = settings.oauth.as_ref().map(|_| match accounts.contains(&server.name) {
        true => "logged_in".to_owned(),
        false => "needs_login".to_owned(),
    });
    let oauth =
        |OAuthSettings { client_id, scopes, shared }: OAuthSettings| McpOAuth { client_id, scopes, shared };
    McpServerResponse {
        login,
        oauth: settings.oauth.map(oauth),
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
