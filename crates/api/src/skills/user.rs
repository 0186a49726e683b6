//! `/v1/users/{id}/skills`: the skills of a user.

use houston_domain::id::UserId;
use houston_store::skill::SkillOwner;

use super::skills;
use crate::agentable_path::Id;

skills! {
    paths: "/v1/users/{id}/skills", "/v1/users/{id}/skills/{name}",
    operations: "list_skills_of_user", "get_skill_of_user", "put_skill_of_user", "delete_skill_of_user",
    of: "a user", params: (("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),),
    owner: |Id(id) => Id<UserId>| SkillOwner::User(id),
}
