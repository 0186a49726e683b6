//! `/v1/skills`: the skills of the tenant, for all its users.

use houston_store::skill::SkillOwner;

use super::skills;

skills! {
    paths: "/v1/skills", "/v1/skills/{name}",
    "list_skills_of_tenant": "List the skills of the tenant, by name.",
    "get_skill_of_tenant": "Get a skill of the tenant with its files.",
    "put_skill_of_tenant": "Create a skill of the tenant, or replace it with its files; agents have it from the next run on.",
    "delete_skill_of_tenant": "Delete a skill of the tenant.",
    params: (),
    owner: () SkillOwner::Tenant,
}
