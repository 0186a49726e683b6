//! `PUT …/mcp-servers/{name}`: adds a server, or replaces the one with its name.

use std::collections::BTreeMap;

use axum::Json;
use houston_domain::guard::Risk;
use houston_domain::mcp_server::names::prefix;
use houston_domain::mcp_server::{
    MAX_URL_BYTES, OAuthSettings, ServerSettings, TIMEOUT_S, ToolSettings, headers_purpose,
};
use houston_domain::tool_call::EffectClass;
use houston_protocol::mcp_server::{McpOAuth, McpServerResponse, McpToolSettings, PutMcpServer};
use houston_store::Error;
use houston_store::mcp_server::{NewServer, ServerOwner};
use secrecy::SecretString;
use serde::de::DeserializeOwned;

use super::{ServerName, answer, confirm};
use crate::agents::sources::truncated;
use crate::auth::Caller;
use crate::body::check_size;
use crate::error::ApiError;
use crate::state::App;
use crate::tool_sources::put::{check_kinds, seal};

pub(super) async fn put(
    app: &App,
    caller: Caller,
    owner: ServerOwner,
    ServerName(name): ServerName,
    new: PutMcpServer,
) -> Result<Json<McpServerResponse>, ApiError> {
    refuse_program(&new)?;
    let PutMcpServer { url, headers, enabled, kinds, only, timeout_s, tools, oauth, .. } = new;
    if url.is_empty() {
        return Err(ApiError::field("/url", "missing field `url`: the address of the server"));
    }
    check_size("/url", url.len(), MAX_URL_BYTES)?;
    check_kinds(app, &kinds)?;
    let tools = tools.into_iter().map(|(tool, said)| settings_of(&tool, &said).map(|said| (tool, said)));
    let settings = ServerSettings {
        enabled: enabled.unwrap_or(true),
        kinds,
        only,
        timeout_s: timeout_s.unwrap_or(TIMEOUT_S[1]),
        tools: tools.collect::<Result<_, _>>()?,
        oauth: oauth.map(|McpOAuth { client_id, scopes, shared }| OAuthSettings {
            client_id,
            scopes,
            shared,
        }),
    };
    check_oauth(&settings, owner, headers.as_ref())?;
    if let Some(problem) = settings.problem() {
        return Err(ApiError::field(&problem.at, problem.reason));
    }
    let secret = |(name, value): (&String, &String)| (name.clone(), SecretString::from(value.clone()));
    let secrets: BTreeMap<String, SecretString> = headers.iter().flatten().map(secret).collect();
    if let Some((at, why)) = app.state.foreign_servers.problem(&url, &secrets) {
        return Err(ApiError::field(at, why));
    }
    confirm(app, caller, owner).await?;
    check_name(app, caller, owner, &name).await?;
    let what = headers_purpose(owner.id(caller.tenant()), &name);
    let sealed = headers.as_ref().map(|headers| seal(app, caller, &what, "/headers", headers)).transpose()?;
    let names: Vec<String> = headers.iter().flat_map(BTreeMap::keys).cloned().collect();
    let headers = sealed.as_ref().map(|sealed| (names.as_slice(), sealed.as_deref()));
    let new = NewServer { owner, name: &name, url: &url, settings: &settings, headers };
    let stored = app.store(caller).put_mcp_server(&new).await?;
    answer(app, caller, owner, stored).await
}

fn check_oauth(
    settings: &ServerSettings,
    owner: ServerOwner,
    headers: Option<&BTreeMap<String, String>>,
) -> Result<(), ApiError> {
    let Some(oauth) = &settings.oauth else { return Ok(()) };
    let mut names = headers.into_iter().flat_map(BTreeMap::keys);
    if names.any(|name| name.eq_ignore_ascii_case("authorization")) {
        let why = "a server with `oauth` gets the token of the account as `Authorization`: leave it out";
        return Err(ApiError::field("/headers", why));
    }
    if oauth.shared && owner != ServerOwner::Tenant {
        return Err(ApiError::field("/oauth/shared", "the account at the server of a user is the user's"));
    }
    Ok(())
}

/// A program would run with the rights of the worker.
fn refuse_program(new: &PutMcpServer) -> Result<(), ApiError> {
    let why = "an MCP server of a tenant or a user is reached over HTTP: programs (stdio) are started from the operator's \
               mcp.toml only";
    let fields =
        [("/command", new.command.is_some()), ("/args", new.args.is_some()), ("/env", new.env.is_some())];
    if let Some((at, _)) = fields.into_iter().find(|(_, is_set)| *is_set) {
        return Err(ApiError::field(at, why));
    }
    match new.transport.as_deref() {
        None | Some("http") => Ok(()),
        Some(_) => Err(ApiError::field("/transport", format!("{why}; leave it out, or send `http`"))),
    }
}

fn settings_of(tool: &str, said: &McpToolSettings) -> Result<ToolSettings, ApiError> {
    let at = |field: &str| format!("/tools/{}/{field}", tool.replace('~', "~0").replace('/', "~1"));
    let effect = said.effect.as_deref().map(|effect| {
        let allowed = "allowed are read, idempotent and effect";
        named::<EffectClass>(effect).ok_or_else(|| ApiError::field(&at("effect"), allowed))
    });
    let risk = said.risk.as_deref().map(|risk| {
        let all: Vec<&str> = Risk::ALL.iter().map(|risk| risk.as_str()).collect();
        named::<Risk>(risk)
            .ok_or_else(|| ApiError::field(&at("risk"), format!("allowed are {}", all.join(", "))))
    });
    Ok(ToolSettings { effect: effect.transpose()?, risk: risk.transpose()? })
}

fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(name.into()).ok()
}

/// Two servers with one name would have tools with the same names.
async fn check_name(app: &App, caller: Caller, owner: ServerOwner, name: &str) -> Result<(), ApiError> {
    let name_given = truncated(name);
    let begin = prefix(name);
    if app.state.agents.tools.iter().any(|tool| tool.starts_with(&begin)) {
        let why = format!("`{name_given}` is an MCP server of this installation: choose another name");
        return Err(ApiError::field("", why));
    }
    if owner == ServerOwner::Tenant {
        return Ok(());
    }
    match app.store(caller).mcp_server(ServerOwner::Tenant, name).await {
        Ok(_) => Err(ApiError::field(
            "",
            format!("`{name_given}` is an MCP server of the tenant: choose another name"),
        )),
        Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
