//! `/v1/keys`: the API keys of a tenant, without their secrets. Keys are made by `houston key create` and by signing in to the
//! console, not over HTTP.

pub(crate) mod list;
pub(crate) mod revoke;

use houston_protocol::key::KeyResponse;
use houston_protocol::time::Time;
use houston_store::api_key::ApiKey;

fn response(key: ApiKey) -> KeyResponse {
    let status = match key.revoked_at {
        Some(_) => "revoked",
        None if key.is_valid() => "active",
        None => "expired",
    };
    KeyResponse {
        id: key.id,
        name: key.name,
        prefix: key.prefix,
        status: status.to_owned(),
        scopes: key.scopes.iter().collect(),
        user_id: key.user,
        issuer: key.issuer.map(|issuer| issuer.issuer),
        created_at: Time(key.created_at),
        expires_at: key.expires_at.map(Time),
        revoked_at: key.revoked_at.map(Time),
        last_used_at: key.last_used_at.map(Time),
    }
}
