//! Guards of the tenant, of users, agents and agentables: what agents may do with their tools, below what the operator
//! allows. `PUT` with `{}` removes them. A change applies from the next run on.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use houston_domain::guard::GuardSettings;
use houston_store::guards::GuardOwner;

use crate::request::access::{Access, Subject};
use crate::request::prelude::*;

endpoints! {
    get "/v1/guards" for TENANT => get,
    "get_guards_of_tenant" in "guards": "Get the guards of the tenant; `{}`: there are none.",
    and "/v1/users/{id}/guards" for USER.change(Scope::ManageAgents), "get_guards_of_user": "Get the guards of a user; `{}`: there are none.",
    and "/v1/agents/{id}/guards" for TENANT, "get_guards_of_agent": "Get the guards of an agent; `{}`: there are none.",
    and "/v1/{kinds}/{id}/guards" for AGENTABLE.change(Scope::ManageAgents), "get_guards_of_agentable": "Get the guards of an agentable and its tasks; `{}`: there are none.",
    200 "The guards." [houston_protocol::schema::Guards];

    put "/v1/guards" for TENANT => set,
    "set_guards_of_tenant" in "guards": "Replace the guards of the tenant; `{}` removes them. They can only tighten what the layers above allow.",
    and "/v1/users/{id}/guards" for USER.change(Scope::ManageAgents), "set_guards_of_user": "Replace the guards of a user; `{}` removes them. They can only tighten what the layers above allow.",
    and "/v1/agents/{id}/guards" for TENANT, "set_guards_of_agent": "Replace the guards of an agent; `{}` removes them. They can only tighten what the layers above allow.",
    and "/v1/{kinds}/{id}/guards" for AGENTABLE.change(Scope::ManageAgents), "set_guards_of_agentable": "Replace the guards of an agentable and its tasks; `{}` removes them. They can only tighten what the layers above allow.",
    body [houston_protocol::schema::Guards],
    200 "The new guards." [houston_protocol::schema::Guards];
}

/// A request about the guards of what its path names.
struct Guarded {
    ctx: Ctx,
    owner: GuardOwner,
}

impl FromRequestParts<Arc<App>> for Guarded {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let ctx = Ctx::from_request_parts(parts, app).await?;
        let owner = match parts.extensions.get::<Access>().map(|access| access.subject) {
            Some(Subject::Agentable) => {
                let path = AgentablePath::from_request_parts(parts, app).await?;
                ctx.confirm(&path).await?;
                GuardOwner::Agentable(path.id)
            }
            Some(Subject::User) => GuardOwner::User(Id::from_request_parts(parts, app).await?.0),
            _ if param(parts, "id").is_some() => {
                GuardOwner::Agent(Id::from_request_parts(parts, app).await?.0)
            }
            _ => GuardOwner::Tenant,
        };
        Ok(Self { ctx, owner })
    }
}

async fn get(Guarded { ctx, owner }: Guarded) -> Result<Json<GuardSettings>> {
    Ok(Json(ctx.store().guards(owner).await?.unwrap_or_default()))
}

async fn set(
    Guarded { ctx, owner }: Guarded,
    Sent(guards): Sent<GuardSettings>,
) -> Result<Json<GuardSettings>> {
    let layer = owner.layer();
    // Compiling many patterns takes too long for a thread of the runtime.
    let checked = ctx.offload.compute(move || guards.check(layer).map(|()| guards)).await?;
    let guards = checked.map_err(|error| ApiError::field("", error.to_string()))?;
    ctx.store().set_guards(owner, (!guards.is_empty()).then_some(&guards)).await?;
    Ok(Json(guards))
}
