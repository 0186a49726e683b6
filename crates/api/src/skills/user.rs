//! `/v1/users/{id}/skills`: the skills of a user.

use houston_domain::id::UserId;
use houston_store::skill::SkillOwner;

use super::skills;
use crate::agentable_path::Id;

skills! {
    paths: "/v1/users/{id}/skills", "/v1/users/{id}/skills/{name}",
    "list_skills_of_user": "List the skills of a user, by name.",
    "get_skill_of_user": "Get a skill of a user with its files.",
    "put_skill_of_user": "Create a skill of a user, or replace it with its files; agents have it from the next run on.",
    "delete_skill_of_user": "Delete a skill of a user.",
    params: (("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),),
    owner: (Id(id) => Id<UserId>) SkillOwner::User(id),
}
