//! `/v1/users`: the people a tenant's agents work for.

use std::collections::HashMap;

use houston_domain::id::{AgentableId, Shard, UserId, shard};
use houston_protocol::user::{CreateUser, UpdateUser, UserCostsResponse, UserResponse};
use houston_store::agentable::NewAgentable;
use houston_store::erasure::Target;
use houston_store::idempotency::IdempotencyKey;
use houston_store::user::{User, UserChange};

use crate::request::prelude::*;
use crate::request::query::check_parameter;
use crate::resources::erasures::request;

endpoints! {
    get "/v1/users" for TENANT.change(Scope::Post) => list,
    "list_users" in "users": "List users, newest first, or find a user by external id.",
    params(("external_id" = Option<String>, Query, description = "Only the user with this external id."), Paged),
    200 "A page of users." [Page<houston_protocol::user::UserResponse>];

    post "/v1/users" for TENANT.change(Scope::Post) => create,
    "create_user" in "users": "Create a user, with the agentables that belong to every user.",
    params(Keyed),
    body [CreateUser],
    201 "The new user." [houston_protocol::user::UserResponse],
    409 "`already_exists`: another user has the external id.";

    get "/v1/users/{id}" for USER.delete(Scope::Admin) =>
        async |ctx: Ctx, Id(id): Id<UserId>| read(&ctx, id).await.map(Json),
    "get_user" in "users": "Get a user.",
    200 "The user." [houston_protocol::user::UserResponse];

    patch "/v1/users/{id}" for USER.delete(Scope::Admin) => change,
    "update_user" in "users": "Change the name, time zone or external id of a user; fields not given stay as they are.",
    body [UpdateUser],
    200 "The changed user." [houston_protocol::user::UserResponse],
    409 "`already_exists`: another user has the external id.";

    // From the 202 on the user is not found; workers delete the rows in the background, and the erasure reports the progress.
    delete "/v1/users/{id}" for USER.delete(Scope::Admin) =>
        async |ctx: Ctx, Id(id): Id<UserId>| request(&ctx, Target::User(id)).await,
    "delete_user" in "users": "Erase a user with everything that belongs to them.",
    202 "The user is no longer found; the rows are deleted in the background." [houston_domain::erasure::Erasure];

    get "/v1/users/{id}/costs" for USER => costs,
    "get_user_costs" in "users": "Get the cost of a user's model calls, in total and per day.",
    200 "The total and the last 32 days." [UserCostsResponse];
}

/// The query: page parameters and an external id.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    external_id: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

async fn list(ctx: Ctx, Query(query): Query<Filter>) -> Result<impl IntoResponse> {
    let Filter { external_id, limit, cursor } = query;
    check_parameter("external_id", external_id.as_deref())?;
    let page = PageQuery { limit, cursor };
    let (limit, before) = (page.limit()?, page.id(List::Users)?.map(Into::into));
    let users = ctx.store().users(external_id.as_deref(), before, rows(limit)).await?;
    let ids: Vec<UserId> = users.iter().take(limit).map(|user| user.id).collect();
    let mut own: HashMap<UserId, Vec<(String, AgentableId)>> = HashMap::new();
    for made in ctx.store().own_agentables_of(&ids).await? {
        own.entry(made.user).or_default().push((made.kind, made.id));
    }
    let response = |user: User| {
        let own = own.get(&user.id).map(Vec::as_slice).unwrap_or_default();
        response(user.clone(), own.iter().map(|(kind, id)| (kind.as_str(), *id)))
    };
    Ok(Json(Page::of(List::Users, limit, users, |row| row.id.0.as_u128(), response)))
}

/// Creates the user with one agentable of each kind with `made_with_user`.
async fn create(ctx: Ctx, request: Creation<CreateUser>) -> Result<Response> {
    let Creation { value: body, key } = request;
    let key = key.as_ref().map(Key::as_stored);
    let user = new_user(&ctx, "", body, key)?;
    let ctx = ctx.with_shard(shard(user.id));
    let own = own_agentables(&ctx, &user);
    let user_response = response(user.clone(), own.iter().map(|own| (own.kind, own.id)));
    let body = stored_body(&user_response);
    let done = ctx.store().create_user(&user, &own, (key, &body)).await;
    created(unless_key_reused(done.map_err(ApiError::taken("external_id"))?)?, "/v1/users")
}

/// The user to be created. `at`: the JSON pointer of the user in the request; `key`: the idempotency key of the request,
/// which is stored in the shard of the user.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when a field is invalid.
pub(crate) fn new_user(
    ctx: &Ctx,
    at: &str,
    body: CreateUser,
    key: Option<IdempotencyKey<'_>>,
) -> Result<User> {
    check_name(at, &body.name)?;
    body.external_id.as_deref().map_or(Ok(()), |id| check_external_id(at, id))?;
    body.time_zone.as_deref().map_or(Ok(()), |zone| check_time_zone(at, zone))?;
    let ids = &ctx.state.ids;
    let id = match (&body.external_id, key) {
        (Some(external_id), _) => ids.next_in(Shard::of_external_id(ctx.caller.tenant(), external_id)),
        (None, Some(key)) => ids.next_in(Shard::of_idempotency_key(ctx.caller.tenant(), key.key)),
        (None, None) => ids.next(),
    };
    Ok(User {
        id,
        external_id: body.external_id,
        name: body.name,
        time_zone: body.time_zone.unwrap_or_else(|| "UTC".to_owned()),
        created_at: ctx.now(),
        cost: houston_store::cost::Cost::NOTHING,
    })
}

/// The agentables that are created together with the user.
pub(crate) fn own_agentables<'a>(app: &'a App, user: &'a User) -> Vec<NewAgentable<'a>> {
    let kinds = app.state.agent_types.values().filter(|kind| kind.made_with_user);
    kinds
        .map(|kind| NewAgentable {
            id: app.state.ids.beside(user.id),
            user: user.id,
            kind: &kind.kind,
            title: &user.name,
            description: "",
            status: kind.initial_status(),
            tools: None,
            created_at: user.created_at,
        })
        .collect()
}

/// `"external_id": null` removes the external id.
async fn change(
    ctx: Ctx,
    Id(id): Id<UserId>,
    Change(UpdateUser { name, time_zone, external_id }): Change<UpdateUser>,
) -> Result<impl IntoResponse> {
    if name.is_none() && time_zone.is_none() && external_id.is_none() {
        let reason = "nothing to change: give at least one of name, time_zone, external_id";
        return Err(ApiError::field("", reason));
    }
    if external_id.is_some() && ctx.caller.user().is_some() {
        // It is by its external id that a backend finds a user.
        return Err(ApiError::BoundKey);
    }
    name.as_deref().map_or(Ok(()), |name| check_name("", name))?;
    time_zone.as_deref().map_or(Ok(()), |zone| check_time_zone("", zone))?;
    external_id.as_ref().and_then(Option::as_deref).map_or(Ok(()), |id| check_external_id("", id))?;
    if let Some(Some(external_id)) = &external_id {
        let place = Shard::of_external_id(ctx.caller.tenant(), external_id);
        if !Arc::ptr_eq(&ctx.with_shard(place), &ctx.with_shard(shard(id))) {
            let detail =
                "a user with this external id is stored in another cell: create the user with it instead";
            return Err(ApiError::field("/external_id", detail));
        }
    }
    let change = UserChange { name, time_zone, external_id };
    ctx.store().change_user(id, &change).await.map_err(ApiError::taken("external_id"))?;
    Ok(Json(read(&ctx, id).await?))
}

/// Number of days in the response: a month and a day, so that a date can be compared with the same date a month
/// earlier.
const DAYS: i64 = 32;

async fn costs(ctx: Ctx, Id(id): Id<UserId>) -> Result<impl IntoResponse> {
    let (total, days) = ctx.store().user_costs(id, DAYS).await?;
    Ok(Json(UserCostsResponse {
        user_id: id,
        total_llm_cost: total.total.map(|cost| cost.normalize()),
        unpriced_calls: total.unpriced_calls,
        days,
    }))
}

/// The response for a user, with the agentables that were created with the user.
fn response<'k>(user: User, own: impl IntoIterator<Item = (&'k str, AgentableId)>) -> UserResponse {
    let made_with_user =
        own.into_iter().map(|(kind, id)| (format!("{kind}_id"), id.public_id(kind))).collect();
    UserResponse {
        id: user.id,
        external_id: user.external_id,
        name: user.name,
        time_zone: user.time_zone,
        total_llm_cost: user.cost.total.map(|cost| cost.normalize()),
        unpriced_calls: user.cost.unpriced_calls,
        made_with_user,
        created_at: Time(user.created_at),
    }
}

/// Reads a user of the caller's tenant, with the agentables that were created with the user.
async fn read(ctx: &Ctx, id: UserId) -> Result<UserResponse> {
    let user = ctx.store().user(id).await?;
    let own = ctx.store().own_agentables_of(&[id]).await?;
    Ok(response(user, own.iter().map(|made| (made.kind.as_str(), made.id))))
}

fn check_name(at: &str, name: &str) -> Result<()> {
    check_line(&format!("{at}/name"), name, 200)
}

fn check_external_id(at: &str, external_id: &str) -> Result<()> {
    check_line(&format!("{at}/external_id"), external_id, 255)
}

fn check_time_zone(at: &str, zone: &str) -> Result<()> {
    match zone.parse::<chrono_tz::Tz>() {
        Ok(_) => Ok(()),
        Err(_) => {
            let detail = "must be an IANA time zone, e.g. `Europe/Berlin`";
            Err(ApiError::field(&format!("{at}/time_zone"), detail))
        }
    }
}
