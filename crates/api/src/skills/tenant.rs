//! `/v1/skills`: the skills of the tenant, for all its users.

use houston_store::skill::SkillOwner;

use super::skills;

skills! {
    paths: "/v1/skills", "/v1/skills/{name}",
    operations: "list_skills", "get_skill", "put_skill", "delete_skill",
    of: "the tenant", params: (),
    owner: || SkillOwner::Tenant,
}
