//! `/v1/users/{id}/guards`: the guards of a user.

use houston_domain::id::UserId;
use houston_store::guards::GuardOwner;

use super::guards;
use crate::agentable_path::Id;

guards! {
    path: "/v1/users/{id}/guards",
    "get_guards_of_user": "Get the guards of a user; `{}`: there are none.",
    "set_guards_of_user": "Replace the guards of a user; `{}` removes them. They can only tighten what the layers above allow.",
    params: (("id" = houston_protocol::schema::UserId, Path, description = "Id of the user.")),
    owner: |app, caller, Id(id) => Id<UserId>| GuardOwner::User(id),
}
