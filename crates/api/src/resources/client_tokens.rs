//! Client tokens: short-lived keys that a backend gives to the browser or the phone of one of its users.

use std::collections::BTreeMap;
use std::time::Duration;

use houston_domain::agentable::AgentType;
use houston_domain::api_key::{RANDOM_BYTES, SecretKind};
use houston_domain::id::{AgentableId, ApiKeyId, shard};
use houston_domain::scope::{Scope, Scopes};
use houston_protocol::client_token::{ClientTokenResponse, CreateClientToken};
use houston_store::Error;
use houston_store::client_token::NewClientToken;

use crate::caller::Caller;
use crate::request::prelude::*;

endpoints! {
    post "/v1/client-tokens" for NAMED.all(Scope::Read) => create,
    "create_client_token" in "keys": "Make a short-lived key for the browser or the phone of one user.",
    body [CreateClientToken],
    201 "The new token; it cannot be read again." [ClientTokenResponse],
    404 "`not_found`: the user does not exist, or an agentable is not the user's.";

    delete "/v1/client-tokens/{id}" for NAMED.all(Scope::Read) => delete,
    "delete_client_token" in "keys": "End a client token before it expires.",
    204 "The token is not valid any more.";
}

/// How long a token is valid, in minutes, unless the request says it, and at most.
const DEFAULT_MINUTES: u32 = 60;
const MAX_MINUTES: u32 = 24 * 60;
/// To how many agentables a token may be restricted.
const MAX_AGENTABLES: usize = 100;

/// The response is the only place where the token can be read, so requests are not repeated by their `Idempotency-Key`:
/// a repeated one makes another token.
async fn create(ctx: Ctx, Sent(body): Sent<CreateClientToken>) -> Result<impl IntoResponse> {
    ensure!(!ctx.caller.is_for_client(), ApiError::BoundKey);
    ctx.caller.check_user(body.user_id)?;
    let scopes = scopes(ctx.caller, body.scopes)?;
    let lifetime = lifetime(body.minutes)?;
    let ids = body.agentables.as_deref().map(|ids| agentables(&ctx.state.agent_types, ids)).transpose()?;
    let mut random = [0; RANDOM_BYTES];
    ctx.state.ids.fill(&mut random);
    let token = SecretKind::ClientToken.secret(random);
    let new = NewClientToken {
        id: ctx.state.ids.beside(body.user_id),
        parent: ctx.caller.key(),
        token: &token,
        scopes,
        user: body.user_id,
        agentables: ids.as_deref(),
        lifetime,
    };
    let cell = ctx.with_shard(shard(body.user_id));
    let expires_at = cell.store().create_client_token(&new).await?;
    if !Arc::ptr_eq(&cell, &ctx) {
        // Requests without an id are answered by the home.
        ctx.store().copy_client_token(&new).await?;
    }
    let response = ClientTokenResponse {
        id: new.id,
        user_id: body.user_id,
        agentables: body.agentables,
        scopes: scopes.iter().collect(),
        expires_at: Time(expires_at),
        token,
    };
    Ok((StatusCode::CREATED, Json(response)))
}

/// The scopes of the token.
fn scopes(caller: Caller, asked: Option<Vec<Scope>>) -> Result<Scopes> {
    let scopes: Scopes = asked.unwrap_or_else(|| vec![Scope::Read]).into_iter().collect();
    ensure!(!scopes.is_empty(), ApiError::field("/scopes", "must not be empty; `read`, `post` or both"));
    if let Some(scope) = scopes.beyond_a_user().next() {
        let detail = format!("a client token cannot have `{scope}`; it may have `read` and `post`");
        return Err(ApiError::field("/scopes", detail));
    }
    scopes.iter().try_for_each(|scope| caller.needs(scope))?;
    Ok(scopes)
}

fn lifetime(minutes: Option<u32>) -> Result<Duration> {
    let minutes = minutes.unwrap_or(DEFAULT_MINUTES);
    if (1..=MAX_MINUTES).contains(&minutes) {
        Ok(Duration::from_secs(60 * u64::from(minutes)))
    } else {
        Err(ApiError::field("/minutes", format!("must be 1 to {MAX_MINUTES}")))
    }
}

/// The agentables with these public ids, of any kind.
fn agentables(types: &BTreeMap<String, AgentType>, ids: &[String]) -> Result<Vec<AgentableId>> {
    if ids.is_empty() || ids.len() > MAX_AGENTABLES {
        let detail = format!("must have 1 to {MAX_AGENTABLES} ids; leave it out for all");
        return Err(ApiError::field("/agentables", detail));
    }
    let parsed = |(nth, id): (usize, &String)| {
        AgentablePath::of_field(types, &format!("/agentables/{nth}"), id).map(|path| path.id)
    };
    ids.iter().enumerate().map(parsed).collect()
}

/// Its requests are refused, and its streams end, within `server.key_cache_s`.
async fn delete(ctx: Ctx, Id(id): Id<ApiKeyId>) -> Result<StatusCode> {
    ensure!(!ctx.caller.is_for_client(), ApiError::BoundKey);
    let cell = ctx.with_shard(shard(id));
    let ended = cell.store().delete_client_token_of_user(id, ctx.caller.user()).await;
    if !Arc::ptr_eq(&cell, &ctx) && matches!(ended, Ok(()) | Err(Error::NotFound { .. })) {
        // The copy of the home may be gone; or it is all that an earlier attempt, which failed here, has left.
        if_found(ctx.store().delete_client_token(id, ctx.caller.user()).await)?;
    }
    ended?;
    Ok(StatusCode::NO_CONTENT)
}
