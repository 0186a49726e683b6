//! MCP servers over HTTP of the tenant and of users, and the approval of their tools. A change applies from the next run on.
//!
//! This crate does not know their protocol: [`ForeignServers`](crate::wiring::ForeignServers) reaches them.

pub(crate) mod login;

use std::collections::{BTreeMap, BTreeSet};

use houston_domain::guard::Risk;
use houston_domain::mcp_server::names::{of_settings, prefix};
use houston_domain::mcp_server::pin::{ComparedTool, ListedTool, NotApproved, Pin, Standing, compare};
use houston_domain::mcp_server::{
    MAX_NAMED_TOOLS, MAX_PINS_BYTES, MAX_URL_BYTES, ServerSettings, TIMEOUT_S, ToolSettings, headers_purpose,
    name_problem,
};
use houston_domain::sealed::Purpose;
use houston_domain::tool_call::EffectClass;
use houston_protocol::mcp_server::{
    ApproveMcpTools, McpServerList, McpServerResponse, McpToolDefinition, McpToolList, McpToolResponse,
    McpToolSettings, PutMcpServer,
};
use houston_protocol::problem::ProblemCode;
use houston_store::mcp_server::{McpServer, NewServer, ServerOwner};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::json;

use self::login::begin;
use crate::admission;
use crate::request::agentable_path::{PathOwner, from_path, owner_of};
use crate::request::checks::truncated;
use crate::request::prelude::*;
use crate::resources::tool_sources::{check_kinds, seal};
use crate::wiring::ForeignServer;

endpoints! {
    get "/v1/mcp-servers" for TENANT => list,
    "list_mcp_servers" in "tools": "List the MCP servers of the tenant, without their headers.",
    and "/v1/users/{id}/mcp-servers" for USER.change(Scope::ManageAgents), "list_mcp_servers_of_user": "List the MCP servers of a user, without their headers.",
    200 "All servers, by name; at most 20." [McpServerList];

    get "/v1/mcp-servers/{name}" for TENANT => get,
    "get_mcp_server" in "tools": "Get an MCP server of the tenant, without its headers.",
    and "/v1/users/{id}/mcp-servers/{name}" for USER.change(Scope::ManageAgents), "get_mcp_server_of_user": "Get an MCP server of a user, without its headers.",
    params(("name" = String, Path, description = "Name of the server.", example = "crm")),
    200 "The server." [McpServerResponse];

    put "/v1/mcp-servers/{name}" for TENANT => put,
    "put_mcp_server" in "tools": "Add an MCP server of the tenant, or replace the one with this name; its tools must be approved.",
    and "/v1/users/{id}/mcp-servers/{name}" for USER.change(Scope::ManageAgents), "put_mcp_server_of_user": "Add an MCP server of a user, or replace the one with this name; its tools must be approved.",
    params(("name" = String, Path, description = "Name of the server: a-z, 0-9 and -.", example = "crm")),
    body [PutMcpServer],
    200 "The server." [McpServerResponse],
    409 "`full`: there is the maximum number of servers.";

    delete "/v1/mcp-servers/{name}" for TENANT =>
        async |ctx: Ctx, ServerPath { owner, name }: ServerPath|
            gone(ctx.store().delete_mcp_server(owner, &name).await),
    "delete_mcp_server" in "tools": "Delete an MCP server of the tenant with its headers and approvals.",
    and "/v1/users/{id}/mcp-servers/{name}" for USER.change(Scope::ManageAgents), "delete_mcp_server_of_user": "Delete an MCP server of a user with its headers and approvals.",
    params(("name" = String, Path, description = "Name of the server.", example = "crm")),
    204 "It is deleted.";

    get "/v1/mcp-servers/{name}/tools" for TENANT => tools,
    "list_mcp_tools" in "tools": "Ask an MCP server of the tenant for its tools, and compare them with the approved ones.",
    and "/v1/users/{id}/mcp-servers/{name}/tools" for USER.change(Scope::ManageAgents), "list_mcp_tools_of_user": "Ask an MCP server of a user for its tools, and compare them with the approved ones.",
    params(("name" = String, Path, description = "Name of the server.", example = "crm")),
    200 "Its tools, by name." [McpToolList],
    502 "`mcp_server_failed`: it did not list its tools.";

    post "/v1/mcp-servers/{name}/tools/approve" for TENANT => approve,
    "approve_mcp_tools" in "tools": "Approve tools of an MCP server of the tenant as they were read: agents are offered them from the next run on.",
    and "/v1/users/{id}/mcp-servers/{name}/tools/approve" for USER.change(Scope::ManageAgents), "approve_mcp_tools_of_user": "Approve tools of an MCP server of a user as they were read: agents are offered them from the next run on.",
    params(("name" = String, Path, description = "Name of the server.", example = "crm")),
    body [ApproveMcpTools],
    200 "Its tools, by name." [McpToolList],
    409 "`tool_changed`: the server lists another definition now; nothing was approved.",
    502 "`mcp_server_failed`: it did not list its tools.";

    post "/v1/mcp-servers/{name}/login" for TENANT => begin,
    "log_in_to_mcp_server" in "tools": "Begin a login of the tenant at an MCP server that uses OAuth.",
    and "/v1/users/{id}/mcp-servers/{name}/login" for USER, "log_user_in_to_mcp_server": "Begin a login of a user at an MCP server that uses OAuth.",
    params(("name" = String, Path, description = "Name of the server.", example = "crm")),
    200 "The URL to open in a browser." [houston_protocol::mcp_server::McpLoginResponse],
    502 "`mcp_server_failed`: the server or its authorization server did not answer as OAuth has it.";
}

/// The server that a path names.
#[derive(Debug)]
struct ServerPath {
    owner: ServerOwner,
    name: String,
}

from_path! { ServerPath, |parts| {
    let owner = owner_of(parts)?;
    let name = param(parts, "name").unwrap_or_default();
    match name_problem(&name) {
        Some(problem) => Err(ApiError::field("", format!("the name in the path is not allowed: {problem}"))),
        None => Ok(Self { owner, name }),
    }
} }

async fn list(ctx: Ctx, PathOwner(owner): PathOwner) -> Result<Json<McpServerList>> {
    ctx.confirm_owner(owner).await?;
    let servers = ctx.store().mcp_servers(owner).await?;
    let accounts = accounts(&ctx, owner, &servers).await?;
    let data = servers.into_iter().map(|server| response(server, &accounts)).collect();
    Ok(Json(McpServerList { data }))
}

async fn get(ctx: Ctx, ServerPath { owner, name }: ServerPath) -> Result<Json<McpServerResponse>> {
    ctx.confirm_owner(owner).await?;
    answer(&ctx, owner, ctx.store().mcp_server(owner, &name).await?).await
}

async fn put(
    ctx: Ctx,
    ServerPath { owner, name }: ServerPath,
    Sent(new): Sent<PutMcpServer>,
) -> Result<Json<McpServerResponse>> {
    refuse_program(&new)?;
    let PutMcpServer { url, headers, enabled, kinds, only, timeout_s, tools, oauth, .. } = new;
    ensure!(!url.is_empty(), ApiError::field("/url", "missing field `url`: the address of the server"));
    check_size("/url", url.len(), MAX_URL_BYTES)?;
    check_kinds(&ctx, &kinds)?;
    let tools = tools.into_iter().map(|(tool, said)| settings_of(&tool, &said).map(|said| (tool, said)));
    let settings = ServerSettings {
        enabled: enabled.unwrap_or(true),
        kinds,
        only,
        timeout_s: timeout_s.unwrap_or(TIMEOUT_S[1]),
        tools: tools.collect::<Result<_, _>>()?,
        oauth,
    };
    check_oauth(&settings, owner, headers.as_ref())?;
    settings.check()?;
    let secret = |(name, value): (&String, &String)| (name.clone(), SecretString::from(value.clone()));
    let secrets: BTreeMap<String, SecretString> = headers.iter().flatten().map(secret).collect();
    if let Some((at, why)) = ctx.state.foreign_servers.problem(&url, &secrets) {
        return Err(ApiError::field(at, why));
    }
    ctx.confirm_owner(owner).await?;
    check_name(&ctx, owner, &name).await?;
    let what = headers_purpose(owner.id(ctx.caller.tenant()), &name);
    let sealed = headers.as_ref().map(|headers| seal(&ctx, &what, "/headers", headers)).transpose()?;
    let names: Vec<String> = headers.iter().flat_map(BTreeMap::keys).cloned().collect();
    let headers = sealed.as_ref().map(|sealed| (names.as_slice(), sealed.as_deref()));
    let new = NewServer { owner, name: &name, url: &url, settings: &settings, headers };
    let stored = ctx.store().put_mcp_server(&new).await?;
    answer(&ctx, owner, stored).await
}

fn check_oauth(
    settings: &ServerSettings,
    owner: ServerOwner,
    headers: Option<&BTreeMap<String, String>>,
) -> Result<()> {
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
fn refuse_program(new: &PutMcpServer) -> Result<()> {
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

fn settings_of(tool: &str, said: &McpToolSettings) -> Result<ToolSettings> {
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
async fn check_name(ctx: &Ctx, owner: ServerOwner, name: &str) -> Result<()> {
    let name_given = truncated(name);
    let begin = prefix(name);
    if ctx.state.agents.tools.iter().any(|tool| tool.starts_with(&begin)) {
        let why = format!("`{name_given}` is an MCP server of this installation: choose another name");
        return Err(ApiError::field("", why));
    }
    if owner == ServerOwner::Tenant {
        return Ok(());
    }
    if if_found(ctx.store().mcp_server(ServerOwner::Tenant, name).await)?.is_some() {
        let why = format!("`{name_given}` is an MCP server of the tenant: choose another name");
        return Err(ApiError::field("", why));
    }
    Ok(())
}

async fn tools(ctx: Ctx, ServerPath { owner, name }: ServerPath) -> Result<Json<McpToolList>> {
    ctx.confirm_owner(owner).await?;
    let server = ctx.store().mcp_server(owner, &name).await?;
    let listed = listed(&ctx, owner, &server).await?;
    Ok(Json(compared(&server, &listed)))
}

async fn approve(
    ctx: Ctx,
    ServerPath { owner, name }: ServerPath,
    Sent(ApproveMcpTools { tools }): Sent<ApproveMcpTools>,
) -> Result<Json<McpToolList>> {
    if tools.len() > MAX_NAMED_TOOLS {
        return Err(ApiError::field("/tools", format!("at most {MAX_NAMED_TOOLS} tools can be named")));
    }
    ctx.confirm_owner(owner).await?;
    let server = ctx.store().mcp_server(owner, &name).await?;
    let listed = listed(&ctx, owner, &server).await?;
    match ctx.store().approve_mcp_tools(owner, &name, &server.url, &listed, &tools).await? {
        Ok(server) => Ok(Json(compared(&server, &listed))),
        Err(refused @ NotApproved::Refused { .. }) => Err(ApiError::field("/tools", refused.to_string())),
        Err(NotApproved::TooLarge) => {
            let why = format!(
                "the approved definitions of a server have at most {MAX_PINS_BYTES} bytes: approve fewer"
            );
            Err(ApiError::field("/tools", why))
        }
        Err(changed) => {
            let why = format!("nothing was approved: {changed}");
            Err(ApiError::Refused(ProblemCode::ToolChanged, why))
        }
    }
}

/// What the server lists now.
async fn listed(ctx: &Ctx, owner: ServerOwner, server: &McpServer) -> Result<Vec<ListedTool>> {
    let failed = |reason| ApiError::McpServerFailed { name: server.name.clone(), reason };
    let foreign = foreign_of(ctx, owner, server)?;
    admission::give_back();
    ctx.state.foreign_servers.tools(foreign).await.map_err(failed)
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

/// What reaches the server.
fn foreign_of(ctx: &Ctx, owner: ServerOwner, server: &McpServer) -> Result<ForeignServer> {
    let McpServer { name, url, settings, .. } = server.clone();
    let user = if let ServerOwner::User(user) = owner { Some(user) } else { None };
    let failed = |reason| ApiError::McpServerFailed { name: server.name.clone(), reason };
    let headers = headers(ctx, owner, server).map_err(failed)?;
    Ok(ForeignServer { tenant: ctx.caller.tenant(), user, name, url, settings, headers })
}

fn headers(
    ctx: &Ctx,
    owner: ServerOwner,
    server: &McpServer,
) -> Result<BTreeMap<String, SecretString>, String> {
    let Some(sealed) = &server.sealed else { return Ok(BTreeMap::new()) };
    let lost = || "its headers cannot be read with the key of this installation: send them again".to_owned();
    let no_key = || "its headers are sealed, and HOUSTON_SECRETS_KEY is not set".to_owned();
    let keys = ctx.state.secret_keys.as_ref().ok_or_else(no_key)?;
    let tenant = ctx.caller.tenant();
    let what = headers_purpose(owner.id(tenant), &server.name);
    keys.open_named(Purpose { tenant, what: &what }, sealed).map_err(|_| lost())
}

/// The names of those of these servers at which their owner has an account.
async fn accounts(ctx: &Ctx, owner: ServerOwner, servers: &[McpServer]) -> Result<BTreeSet<String>> {
    match servers.iter().any(|server| server.settings.oauth.is_some()) {
        true => Ok(ctx.store().mcp_logged_in(owner).await?),
        false => Ok(BTreeSet::new()),
    }
}

/// The server as the API answers it.
async fn answer(ctx: &Ctx, owner: ServerOwner, server: McpServer) -> Result<Json<McpServerResponse>> {
    let accounts = accounts(ctx, owner, std::slice::from_ref(&server)).await?;
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
    let withheld = server.pins.into_iter().filter(|(_, pin)| pin.withheld).map(|(tool, _)| tool).collect();
    let settings = server.settings;
    let login = settings.oauth.as_ref().map(|_| match accounts.contains(&server.name) {
        true => "logged_in".to_owned(),
        false => "needs_login".to_owned(),
    });
    McpServerResponse {
        login,
        oauth: settings.oauth,
        name: server.name,
        url: server.url,
        headers: server.header_names,
        enabled: settings.enabled,
        kinds: settings.kinds,
        only: settings.only,
        timeout_s: settings.timeout_s,
        tools: settings.tools.into_iter().map(said).collect(),
        offered: server.tools,
        withheld,
        created_at: Time(server.created_at),
        updated_at: Time(server.updated_at),
    }
}
