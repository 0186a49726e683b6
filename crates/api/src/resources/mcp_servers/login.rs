//! `POST …/mcp-servers/{name}/login` and `GET /mcp/login`: people log in to servers that use OAuth. The browser that comes back
//! has no key: its login is found by the `state`, which works once and is not logged.

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse as _;
use houston_domain::id::TenantId;
use houston_domain::mcp_server::{account_purpose, login_purpose};
use houston_domain::sealed::Purpose;
use houston_protocol::mcp_server::McpLoginResponse;
use houston_store::Error;
use houston_store::mcp_account::{AccountOf, BegunLogin};
use houston_store::mcp_server::{McpServer, ServerOwner};
use secrecy::{ExposeSecret as _, SecretString};

use super::{ServerPath, foreign_of};
use crate::admission;
use crate::request::prelude::*;
use crate::state::peers::Peer;
use crate::wiring::ReturnedLogin;

/// Who logs in: the tenant, at a server of its own; or a user, at a server of theirs or else of the tenant.
pub(super) async fn begin(
    ctx: Ctx,
    ServerPath { owner, name }: ServerPath,
) -> Result<Json<McpLoginResponse>> {
    ctx.confirm_owner(owner).await?;
    let (owner_of_server, server) = find(&ctx, owner, &name).await?;
    let user = if let ServerOwner::User(user) = owner { Some(user) } else { None };
    let of = AccountOf { owner: owner_of_server, server: name.clone(), user };
    let tenant = ctx.caller.tenant();
    let what = login_purpose(owner.id(tenant), owner_of_server.id(tenant), &name);
    let state = state_of(&ctx, owner, tenant);
    let foreign = foreign_of(&ctx, owner_of_server, &server)?;
    let failed = |reason| ApiError::McpServerFailed { name: name.clone(), reason };
    admission::give_back();
    let begun = ctx.state.foreign_servers.begin_login(foreign, state.clone()).await.map_err(failed)?;
    let sealed = sealed(&ctx, Purpose { tenant, what: &what }, &begun.pending)?;
    ctx.store().begin_mcp_login(&of, &server.url, &state, &sealed).await?;
    Ok(Json(McpLoginResponse { url: begun.url }))
}

async fn find(ctx: &Ctx, owner: ServerOwner, name: &str) -> Result<(ServerOwner, McpServer)> {
    match ctx.store().mcp_server(owner, name).await {
        Err(Error::NotFound { .. }) if owner != ServerOwner::Tenant => {
            let server = ctx.store().mcp_server(ServerOwner::Tenant, name).await?;
            Ok((ServerOwner::Tenant, server))
        }
        found => Ok((owner, found?)),
    }
}

/// 256 random bits, after what says in which cell the login is.
fn state_of(app: &App, owner: ServerOwner, tenant: TenantId) -> String {
    let mut random = [0; 32];
    app.state.ids.fill(&mut random);
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    match owner {
        ServerOwner::Tenant => format!("tenant.{random}"),
        ServerOwner::User(_) => format!("user_{}.{random}", owner.id(tenant).simple()),
    }
}

fn sealed(app: &App, purpose: Purpose<'_>, secret: &SecretString) -> Result<Vec<u8>> {
    let mut nonce = [0; 12];
    app.state.ids.fill(&mut nonce);
    let keys = app.state.secret_keys.as_ref();
    keys.and_then(|keys| keys.seal(purpose, nonce, secret.expose_secret())).ok_or_else(|| {
        let why = "this installation cannot store accounts: its operator sets HOUSTON_SECRETS_KEY for the API and the workers";
        ApiError::field("", why)
    })
}

/// What an authorization server lets the browser bring.
#[derive(Deserialize)]
pub(crate) struct Brought {
    #[serde(default)]
    state: String,
    code: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

/// Ends a login.
pub(crate) async fn finish(
    State(app): State<Arc<App>>,
    peer: Option<Extension<Peer>>,
    Query(brought): Query<Brought>,
) -> Result<Response> {
    let attempt = app.peers.attempt(peer.as_deref())?;
    let Some(login) = app.api_store().take_mcp_login(&brought.state).await? else {
        return Ok(page(
            StatusCode::NOT_FOUND,
            "This login is not open: it took longer than ten minutes, was used, or another was begun. Begin again.",
        ));
    };
    attempt.uncount();
    Ok(match ended(&app, &login, brought).await? {
        Ok(()) => page(StatusCode::OK, "You are logged in. You can close this window."),
        Err(reason) => page(StatusCode::BAD_GATEWAY, &format!("You are not logged in: {reason}")),
    })
}

async fn ended(app: &App, login: &BegunLogin<'_>, brought: Brought) -> Result<Result<(), String>> {
    let BegunLogin { store, tenant, of, url, sealed: stored } = login;
    let Some(code) = brought.code.filter(|_| brought.error.is_none()) else {
        return Ok(Err("the authorization server has not agreed.".to_owned()));
    };
    let (account, owner) = (of.user.map_or(tenant.0, |user| user.0), of.owner.id(*tenant));
    let what = login_purpose(account, owner, &of.server);
    let keys = app.state.secret_keys.as_ref();
    let pending = keys.and_then(|keys| keys.open(Purpose { tenant: *tenant, what: &what }, stored).ok());
    let Some(pending) = pending else {
        return Ok(Err("the key of this installation has changed meanwhile. Begin again.".to_owned()));
    };
    let login = ReturnedLogin { pending, code: code.into(), issuer: brought.iss };
    let grant = match app.state.foreign_servers.finish_login(login).await {
        Ok(grant) => grant,
        Err(reason) => return Ok(Err(reason)),
    };
    let what = account_purpose(account, owner, &of.server);
    let sealed = sealed(app, Purpose { tenant: *tenant, what: &what }, &grant)?;
    store.put_mcp_account(of, url, &sealed).await?;
    Ok(Ok(()))
}

/// A page of plain text, which no browser takes for anything else.
fn page(status: StatusCode, text: &str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (status, headers, format!("{text}\n")).into_response()
}
