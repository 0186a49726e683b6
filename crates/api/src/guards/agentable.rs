//! `/v1/{kinds}/{id}/guards`: the guards of an agentable and its tasks.

use houston_store::guards::GuardOwner;

use super::guards;
use crate::agentable_path::AgentablePath;

guards! {
    path: "/v1/{kinds}/{id}/guards",
    "get_guards_of_agentable": "Get the guards of an agentable and its tasks; `{}`: there are none.",
    "set_guards_of_agentable": "Replace the guards of an agentable and its tasks; `{}` removes them. They can only tighten what the layers above allow.",
    params: (
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    owner: |app, caller, path => AgentablePath| {
        app.confirm(caller, &path).await?;
        GuardOwner::Agentable(path.id)
    },
}
