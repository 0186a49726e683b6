//! Guards of the tenant, of users, agents and agentables: what agents may do with their tools, below what the operator
//! allows. `PUT` with `{}` removes them. A change applies from the next run on.

use std::fmt;

use houston_domain::guard::GuardSettings;
use houston_store::guards::GuardOwner;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::request::prelude::*;

pub(crate) const ENDPOINTS: &[Endpoint] =
    &[tenant::GET, tenant::SET, user::GET, user::SET, agent::GET, agent::SET, agentable::GET, agentable::SET];

/// Settings in a body. Unlike those of a file they could be a list, which serde reads as the first keys.
#[derive(Debug)]
struct Given(GuardSettings);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Given;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of the shape of jobs/guards.toml")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Given, A::Error> {
                GuardSettings::deserialize(MapAccessDeserializer::new(map)).map(Given)
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// Generates `get` and `set` for the guards of one owner. `owner` looks up what the path names.
macro_rules! guards {
    (
        path: $path:literal, access: $access:expr, $get:literal: $got:literal, $set:literal: $replaced:literal,
        params: ($($params:tt)*),
        owner: |$ctx:ident $(, $pattern:pat_param => $extracted:ty)?| $owner:expr,
    ) => {
        crate::request::endpoint::endpoint! {
            GET: get $path for $access => get,
            $get in "guards": $got,
            params($($params)*),
            200 "The guards." [houston_protocol::schema::Guards],
        }

        /// The guards; `{}` if there are none.
        async fn get(
            $ctx: crate::state::Ctx,
            $($pattern: $extracted,)?
        ) -> crate::error::Result<axum::Json<houston_domain::guard::GuardSettings>> {
            let owner = $owner;
            Ok(axum::Json($ctx.store().guards(owner).await?.unwrap_or_default()))
        }

        crate::request::endpoint::endpoint! {
            SET: put $path for $access => set,
            $set in "guards": $replaced,
            params($($params)*),
            body [houston_protocol::schema::Guards],
            200 "The new guards." [houston_protocol::schema::Guards],
        }

        /// Replaces the guards.
        async fn set(
            $ctx: crate::state::Ctx,
            $($pattern: $extracted,)?
            crate::request::body::Sent(super::Given(guards)): crate::request::body::Sent<super::Given>,
        ) -> crate::error::Result<axum::Json<houston_domain::guard::GuardSettings>> {
            let owner = $owner;
            super::replace(&$ctx, owner, guards).await
        }
    };
}

/// `/v1/guards`: the guards of the tenant.
pub(crate) mod tenant {
    guards! {
        path: "/v1/guards", access: TENANT,
        "get_guards_of_tenant": "Get the guards of the tenant; `{}`: there are none.",
        "set_guards_of_tenant": "Replace the guards of the tenant; `{}` removes them. They can only tighten what the layers above allow.",
        params: (),
        owner: |ctx| ctx.store().guard_owner(),
    }
}

/// `/v1/users/{id}/guards`: the guards of a user.
pub(crate) mod user {
    use houston_domain::id::UserId;
    use houston_store::guards::GuardOwner;

    use crate::request::agentable_path::Id;

    guards! {
        path: "/v1/users/{id}/guards", access: USER.change(Scope::ManageAgents),
        "get_guards_of_user": "Get the guards of a user; `{}`: there are none.",
        "set_guards_of_user": "Replace the guards of a user; `{}` removes them. They can only tighten what the layers above allow.",
        params: (OfUser),
        owner: |ctx, Id(id) => Id<UserId>| GuardOwner::User(id),
    }
}

/// `/v1/agents/{id}/guards`: the guards of an agent.
pub(crate) mod agent {
    use houston_domain::id::AgentId;
    use houston_store::guards::GuardOwner;

    use crate::request::agentable_path::Id;

    guards! {
        path: "/v1/agents/{id}/guards", access: TENANT,
        "get_guards_of_agent": "Get the guards of an agent; `{}`: there are none.",
        "set_guards_of_agent": "Replace the guards of an agent; `{}` removes them. They can only tighten what the layers above allow.",
        params: (("id" = AgentId, Path, description = "Id of the agent.")),
        owner: |ctx, Id(id) => Id<AgentId>| GuardOwner::Agent(id),
    }
}

/// `/v1/{kinds}/{id}/guards`: the guards of an agentable and its tasks.
pub(crate) mod agentable {
    use houston_store::guards::GuardOwner;

    use crate::request::agentable_path::AgentablePath;

    guards! {
        path: "/v1/{kinds}/{id}/guards", access: AGENTABLE.change(Scope::ManageAgents),
        "get_guards_of_agentable": "Get the guards of an agentable and its tasks; `{}`: there are none.",
        "set_guards_of_agentable": "Replace the guards of an agentable and its tasks; `{}` removes them. They can only tighten what the layers above allow.",
        params: (OfAgentable),
        owner: |ctx, path => AgentablePath| {
            ctx.confirm(&path).await?;
            GuardOwner::Agentable(path.id)
        },
    }
}

async fn replace(ctx: &Ctx, owner: GuardOwner, guards: GuardSettings) -> Result<Json<GuardSettings>> {
    let layer = owner.layer();
    // Compiling many patterns takes too long for a thread of the runtime.
    let checked = ctx.offload.compute(move || guards.check(layer).map(|()| guards)).await?;
    let guards = checked.map_err(|error| ApiError::field("", error.to_string()))?;
    ctx.store().set_guards(owner, (!guards.is_empty()).then_some(&guards)).await?;
    Ok(Json(guards))
}
