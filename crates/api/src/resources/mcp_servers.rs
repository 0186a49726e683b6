//! MCP servers over HTTP of the tenant and of users, and the approval of their tools. A change applies from the next run on.
//!
//! This crate does not know their protocol: [`ForeignServers`](crate::wiring::ForeignServers) reaches them.

pub(crate) mod login;

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use houston_domain::guard::Risk;
use houston_domain::mcp_server::names::{of_settings, prefix};
use houston_domain::mcp_server::pin::{ComparedTool, ListedTool, NotApproved, Pin, Standing, compare};
use houston_domain::mcp_server::{
    MAX_NAMED_TOOLS, MAX_PINS_BYTES, MAX_URL_BYTES, OAuthSettings, ServerSettings, TIMEOUT_S, ToolSettings,
    headers_purpose, name_problem,
};
use houston_domain::sealed::Purpose;
use houston_domain::tool_call::EffectClass;
use houston_protocol::mcp_server::{
    ApproveMcpTools, McpOAuth, McpServerList, McpServerResponse, McpToolDefinition, McpToolList,
    McpToolResponse, McpToolSettings, PutMcpServer,
};
use houston_protocol::time::Time;
use houston_store::Error;
use houston_store::mcp_server::{McpServer, NewServer, ServerOwner};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::admission;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::params;
use crate::request::checks::check_size;
use crate::request::checks::truncated;
use crate::request::endpoint::Endpoint;
use crate::resources::tool_sources::{check_kinds, seal};
use crate::state::App;
use crate::wiring::ForeignServer;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    tenant::LIST,
    tenant::GET,
    tenant::PUT,
    tenant::DELETE,
    tenant::TOOLS,
    tenant::APPROVE,
    tenant::LOGIN,
    user::LIST,
    user::GET,
    user::PUT,
    user::DELETE,
    user::TOOLS,
    user::APPROVE,
    user::LOGIN,
];

/// The name of a server in a path.
#[derive(Debug)]
struct ServerName(String);

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

/// Generates `list`, `get`, `put`, `delete`, `tools`, `approve` and `login`. `owner` looks up what the path names.
macro_rules! mcp_servers {
    (
        paths: $all:literal, $one:literal, $tools:literal, $approve:literal, $login:literal,
        operations: $list_id:literal, $get_id:literal, $put_id:literal, $delete_id:literal, $tools_id:literal, $approve_id:literal, $login_id:literal,
        access: $access:expr, login: $login_access:expr, of: $of:literal, params: ($($params:tt)*),
        owner: ($($pattern:pat_param => $extracted:ty)?) $owner:expr,
    ) => {
        crate::request::endpoint::endpoint! {
            LIST: get $all for $access => list,
            tag = "tools",
            operation_id = $list_id,
            summary = concat!("List the MCP servers of ", $of, ", without their headers."),
            params($($params)*),
            responses((
                status = 200, description = "All servers, by name; at most 20.",
                body = houston_protocol::mcp_server::McpServerList
            )),
        }

        async fn list(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            $($pattern: $extracted,)?
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::list(&app, caller, $owner).await
        }

        crate::request::endpoint::endpoint! {
            GET: get $one for $access => get,
            tag = "tools",
            operation_id = $get_id,
            summary = concat!("Get an MCP server of ", $of, ", without its headers."),
            params($($params)* ("name" = String, Path, description = "Name of the server.", example = "crm")),
            responses((status = 200, description = "The server.", body = houston_protocol::mcp_server::McpServerResponse)),
        }

        async fn get(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            $($pattern: $extracted,)?
            name: super::ServerName,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::get(&app, caller, $owner, name).await
        }

        crate::request::endpoint::endpoint! {
            PUT: put $one for $access => put,
            tag = "tools",
            operation_id = $put_id,
            summary = concat!("Add an MCP server of ", $of, ", or replace the one with this name; its tools must be approved."),
            params($($params)* ("name" = String, Path, description = "Name of the server: a-z, 0-9 and -.", example = "crm")),
            request_body = houston_protocol::mcp_server::PutMcpServer,
            responses(
                (status = 200, description = "The server.", body = houston_protocol::mcp_server::McpServerResponse),
                (status = 409, description = "`full`: there is the maximum number of servers."),
            ),
        }

        async fn put(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            $($pattern: $extracted,)?
            name: super::ServerName,
            // A PUT is idempotent, so the Idempotency-Key is ignored.
            crate::request::body::Creation { value: new, key: _ }: crate::request::body::Creation<houston_protocol::mcp_server::PutMcpServer>,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::put(&app, caller, $owner, name, new).await
        }

        crate::request::endpoint::endpoint! {
            DELETE: delete $one for $access => delete,
            tag = "tools",
            operation_id = $delete_id,
            summary = concat!("Delete an MCP server of ", $of, " with its headers and approvals."),
            params($($params)* ("name" = String, Path, description = "Name of the server.", example = "crm")),
            responses((status = 204, description = "It is deleted.")),
        }

        async fn delete(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            $($pattern: $extracted,)?
            name: super::ServerName,
        ) -> Result<axum::http::StatusCode, crate::error::ApiError> {
            super::delete(&app, caller, $owner, name).await
        }

        crate::request::endpoint::endpoint! {
            TOOLS: get $tools for $access => tools,
            tag = "tools",
            operation_id = $tools_id,
            summary = concat!("Ask an MCP server of ", $of, " for its tools, and compare them with the approved ones."),
            params($($params)* ("name" = String, Path, description = "Name of the server.", example = "crm")),
            responses(
                (status = 200, description = "Its tools, by name.", body = houston_protocol::mcp_server::McpToolList),
                (status = 502, description = "`mcp_server_failed`: it did not list its tools."),
            ),
        }

        async fn tools(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            $($pattern: $extracted,)?
            name: super::ServerName,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::tools(&app, caller, $owner, name).await
        }

        crate::request::endpoint::endpoint! {
            APPROVE: post $approve for $access => approve,
            tag = "tools",
            operation_id = $approve_id,
            summary = concat!("Approve tools of an MCP server of ", $of, " as they were read: agents are offered them from the next run on."),
            params($($params)* ("name" = String, Path, description = "Name of the server.", example = "crm")),
            request_body = houston_protocol::mcp_server::ApproveMcpTools,
            responses(
                (status = 200, description = "Its tools, by name.", body = houston_protocol::mcp_server::McpToolList),
                (status = 409, description = "`tool_changed`: the server lists another definition now; nothing was approved."),
                (status = 502, description = "`mcp_server_failed`: it did not list its tools."),
            ),
        }

        async fn approve(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            $($pattern: $extracted,)?
            name: super::ServerName,
            // Approving twice does no more than once, so the Idempotency-Key is ignored.
            crate::request::body::Creation { value: read, key: _ }: crate::request::body::Creation<houston_protocol::mcp_server::ApproveMcpTools>,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::approve(&app, caller, $owner, name, read).await
        }

        crate::request::endpoint::endpoint! {
            LOGIN: post $login for $login_access => login,
            tag = "tools",
            operation_id = $login_id,
            summary = concat!("Begin a login of ", $of, " at an MCP server that uses OAuth."),
            params($($params)* ("name" = String, Path, description = "Name of the server.", example = "crm")),
            responses(
                (status = 200, description = "The URL to open in a browser.", body = houston_protocol::mcp_server::McpLoginResponse),
                (status = 502, description = "`mcp_server_failed`: the server or its authorization server did not answer as OAuth has it."),
            ),
        }

        async fn login(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            $($pattern: $extracted,)?
            name: super::ServerName,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::login::begin(&app, caller, $owner, name).await
        }
    };
}

/// `/v1/mcp-servers`: the MCP servers of the tenant, for all its users.
pub(crate) mod tenant {
    use houston_store::mcp_server::ServerOwner;

    mcp_servers! {
        paths: "/v1/mcp-servers", "/v1/mcp-servers/{name}", "/v1/mcp-servers/{name}/tools", "/v1/mcp-servers/{name}/tools/approve",
        "/v1/mcp-servers/{name}/login",
        operations: "list_mcp_servers", "get_mcp_server", "put_mcp_server", "delete_mcp_server", "list_mcp_tools",
        "approve_mcp_tools", "log_in_to_mcp_server",
        access: TENANT, login: TENANT, of: "the tenant",
        params: (),
        owner: () ServerOwner::Tenant,
    }
}

/// `/v1/users/{id}/mcp-servers`: the MCP servers of a user alone.
pub(crate) mod user {
    use houston_domain::id::UserId;
    use houston_store::mcp_server::ServerOwner;

    use crate::request::agentable_path::Id;

    mcp_servers! {
        paths: "/v1/users/{id}/mcp-servers", "/v1/users/{id}/mcp-servers/{name}", "/v1/users/{id}/mcp-servers/{name}/tools",
        "/v1/users/{id}/mcp-servers/{name}/tools/approve", "/v1/users/{id}/mcp-servers/{name}/login",
        operations: "list_mcp_servers_of_user", "get_mcp_server_of_user", "put_mcp_server_of_user", "delete_mcp_server_of_user",
        "list_mcp_tools_of_user", "approve_mcp_tools_of_user", "log_user_in_to_mcp_server",
        access: USER.change(Scope::ManageAgents), login: USER, of: "a user",
        params: (("id" = houston_domain::id::UserId, Path, description = "Id of the user."),),
        owner: (Id(id) => Id<UserId>) ServerOwner::User(id),
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

async fn put(
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

async fn delete(
    app: &App,
    caller: Caller,
    owner: ServerOwner,
    ServerName(name): ServerName,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_mcp_server(owner, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn tools(
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

async fn approve(
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
    let no_key = || "its headers are sealed, and HOUSTON_SECRETS_KEY is not set".to_owned();
    let keys = app.state.secret_keys.as_ref().ok_or_else(no_key)?;
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
    let withheld = server.pins.into_iter().filter(|(_, pin)| pin.withheld).map(|(tool, _)| tool).collect();
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
        withheld,
        created_at: Time(server.created_at),
        updated_at: Time(server.updated_at),
    }
}
