//! Skills of the tenant and of users. A change applies from the next run on. `PUT` creates a skill or replaces it with its files.

use houston_domain::skill::trigger::Triggers;
use houston_domain::skill::{SkillDocument, document, file, is_name};
use houston_protocol::page::Page;
use houston_protocol::skill::{SkillEntryResponse, SkillRequest, SkillResponse, SkillTriggers};
use houston_store::skill::{SkillEntry, SkillOwner, StoredSkill};

use crate::request::agentable_path::{PathOwner, from_path, owner_of};
use crate::request::prelude::*;

endpoints! {
    get "/v1/skills" for TENANT => list,
    "list_skills_of_tenant" in "skills": "List the skills of the tenant, by name.",
    and "/v1/users/{id}/skills" for USER, "list_skills_of_user": "List the skills of a user, by name.",
    200 "All of them, on one page." [Page<SkillEntryResponse>];

    get "/v1/skills/{name}" for TENANT => get,
    "get_skill_of_tenant" in "skills": "Get a skill of the tenant with its files.",
    and "/v1/users/{id}/skills/{name}" for USER, "get_skill_of_user": "Get a skill of a user with its files.",
    params(("name" = String, Path, description = "Name of the skill.", example = "weekly-review")),
    200 "The skill." [SkillResponse];

    put "/v1/skills/{name}" for TENANT => put,
    "put_skill_of_tenant" in "skills": "Create a skill of the tenant, or replace it with its files; agents have it from the next run on.",
    and "/v1/users/{id}/skills/{name}" for USER, "put_skill_of_user": "Create a skill of a user, or replace it with its files; agents have it from the next run on.",
    params(("name" = String, Path, description = "Name of the skill: 1 to 64 lower-case letters, digits and single hyphens.", example = "weekly-review")),
    body [SkillRequest],
    200 "The skill, with what was mended or left out." [SkillResponse],
    409 "`full`: there is the maximum number of skills.";

    delete "/v1/skills/{name}" for TENANT =>
        async |ctx: Ctx, SkillPath { owner, name }: SkillPath| gone(ctx.store().delete_skill(owner, &name).await),
    "delete_skill_of_tenant" in "skills": "Delete a skill of the tenant.",
    and "/v1/users/{id}/skills/{name}" for USER, "delete_skill_of_user": "Delete a skill of a user.",
    params(("name" = String, Path, description = "Name of the skill.", example = "weekly-review")),
    204 "The skill is deleted.";
}

/// The skill that a path names; it need not exist.
#[derive(Debug, Clone)]
struct SkillPath {
    owner: SkillOwner,
    name: String,
}

from_path! { SkillPath, |parts| {
    let owner = owner_of(parts)?;
    let name = param(parts, "name").unwrap_or_default();
    if is_name(&name) {
        return Ok(Self { owner, name });
    }
    let most = document::MAX_NAME_BYTES;
    let detail = format!(
        "the name of a skill has 1 to {most} lower-case letters, digits and single hyphens, as in weekly-review"
    );
    Err(ApiError::parameter("name", detail))
} }

async fn list(ctx: Ctx, PathOwner(owner): PathOwner) -> Result<Json<Page<SkillEntryResponse>>> {
    ctx.confirm_owner(owner).await?;
    let skills = ctx.store().skills(owner).await?;
    // There are so few that one page has all of them.
    Ok(Json(Page { data: skills.into_iter().map(entry).collect(), has_more: false, next_cursor: None }))
}

async fn get(ctx: Ctx, SkillPath { owner, name }: SkillPath) -> Result<Json<SkillResponse>> {
    ctx.confirm_owner(owner).await?;
    let stored = ctx.store().skill(owner, &name).await?;
    let text = stored.text.clone();
    let document = ctx.offload.compute(move || SkillDocument::read(&text, Some(&name))).await?;
    Ok(Json(response(document.map_err(refused)?, stored)))
}

async fn put(
    ctx: Ctx,
    SkillPath { owner, name }: SkillPath,
    Sent(SkillRequest { text, files, enabled }): Sent<SkillRequest>,
) -> Result<Json<SkillResponse>> {
    // Compiling patterns takes too long for a thread of the runtime.
    let read = ctx.offload.compute({
        let (name, text, files) = (name.clone(), text.clone(), files.clone());
        move || {
            file::check(&files).map_err(|error| ApiError::field("/files", error))?;
            SkillDocument::read(&text, Some(&name)).map_err(refused)
        }
    });
    let document = read.await??;
    let summary = document.summary(enabled.unwrap_or(document.default_enabled));
    ctx.store().put_skill(owner, &summary, &text, &files).await?;
    let stored = ctx.store().skill(owner, &name).await?;
    Ok(Json(response(document, stored)))
}

fn refused(error: String) -> ApiError {
    ApiError::field("/text", error)
}

fn entry(SkillEntry { summary, files, created_at, updated_at }: SkillEntry) -> SkillEntryResponse {
    SkillEntryResponse {
        name: summary.name,
        brief: summary.brief,
        source: summary.source.as_str().to_owned(),
        enabled: summary.enabled,
        files: u64::try_from(files).unwrap_or(0),
        created_at: Time(created_at),
        updated_at: Time(updated_at),
    }
}

fn response(document: SkillDocument, stored: StoredSkill) -> SkillResponse {
    let Triggers { keywords, verbs, patterns } = document.triggers;
    SkillResponse {
        name: stored.summary.name,
        description: document.description,
        brief: document.brief,
        source: stored.summary.source.as_str().to_owned(),
        enabled: stored.summary.enabled,
        license: document.license,
        compatibility: document.compatibility,
        version: document.version,
        metadata: document.metadata,
        allowed_tools: document.allowed_tools,
        triggers: SkillTriggers { keywords, verbs, patterns },
        warnings: document.warnings,
        text: stored.text,
        files: stored.files,
        created_at: Time(stored.created_at),
        updated_at: Time(stored.updated_at),
    }
}
