//! Skills of the tenant and of users. A change applies from the next run on. `PUT` creates a skill or replaces it with its files.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use houston_domain::skill::trigger::Triggers;
use houston_domain::skill::{SkillDocument, SkillError, document, file, is_name};
use houston_protocol::page::Page;
use houston_protocol::skill::{SkillEntryResponse, SkillRequest, SkillResponse, SkillTriggers};
use houston_protocol::time::Time;
use houston_store::skill::{SkillEntry, SkillOwner, StoredSkill};

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::params;
use crate::request::endpoint::Endpoint;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] =
    &[tenant::LIST, tenant::GET, tenant::PUT, tenant::DELETE, user::LIST, user::GET, user::PUT, user::DELETE];

/// Extracts `name` from the path of the request: the name of a skill, which need not exist.
#[derive(Debug, Clone)]
struct SkillName(String);

impl<S: Send + Sync> FromRequestParts<S> for SkillName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "skill" };
        let params = params(parts).ok_or(NOT_FOUND)?;
        let name = params.iter().find(|(name, _)| *name == "name").map_or("", |(_, name)| name);
        if is_name(name) {
            return Ok(Self(name.to_owned()));
        }
        let most = document::MAX_NAME_BYTES;
        let detail = format!(
            "the name of a skill has 1 to {most} lower-case letters, digits and single hyphens, as in weekly-review"
        );
        Err(ApiError::parameter("name", detail))
    }
}

/// Generates `list`, `get`, `put` and `delete` for the skills of one owner. `owner` looks up what the path names.
macro_rules! skills {
    (
        paths: $all:literal, $one:literal, access: $access:expr,
        $list:literal: $listed:literal, $get:literal: $got:literal, $put:literal: $created:literal,
        $delete:literal: $deleted:literal, params: ($($params:tt)*),
        owner: ($($pattern:pat_param => $extracted:ty)?) $owner:expr,
    ) => {
        crate::request::endpoint::endpoint! {
            LIST: get $all for $access => list,
            tag = "skills",
            operation_id = $list,
            summary = $listed,
            params($($params)*),
            responses((
                status = 200,
                description = "All of them, on one page.",
                body = houston_protocol::page::Page<houston_protocol::skill::SkillEntryResponse>
            )),
        }

        async fn list(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            $($pattern: $extracted,)?
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::list(&app, caller, $owner).await
        }

        crate::request::endpoint::endpoint! {
            GET: get $one for $access => get,
            tag = "skills",
            operation_id = $get,
            summary = $got,
            params($($params)* ("name" = String, Path, description = "Name of the skill.", example = "weekly-review")),
            responses((status = 200, description = "The skill.", body = houston_protocol::skill::SkillResponse)),
        }

        async fn get(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            $($pattern: $extracted,)?
            name: super::SkillName,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::get(&app, caller, $owner, name).await
        }

        crate::request::endpoint::endpoint! {
            PUT: put $one for $access => put,
            tag = "skills",
            operation_id = $put,
            summary = $created,
            params($($params)* ("name" = String, Path, description = "Name of the skill: 1 to 64 lower-case letters, digits and single hyphens.", example = "weekly-review")),
            request_body = houston_protocol::skill::SkillRequest,
            responses(
                (status = 200, description = "The skill, with what was mended or left out.", body = houston_protocol::skill::SkillResponse),
                (status = 409, description = "`full`: there is the maximum number of skills."),
            ),
        }

        async fn put(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            $($pattern: $extracted,)?
            name: super::SkillName,
            // A PUT is idempotent, so the Idempotency-Key is ignored.
            crate::request::body::Creation { value: request, key: _ }: crate::request::body::Creation<houston_protocol::skill::SkillRequest>,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::put(&app, caller, $owner, name, request).await
        }

        crate::request::endpoint::endpoint! {
            DELETE: delete $one for $access => delete,
            tag = "skills",
            operation_id = $delete,
            summary = $deleted,
            params($($params)* ("name" = String, Path, description = "Name of the skill.", example = "weekly-review")),
            responses((status = 204, description = "The skill is deleted.")),
        }

        async fn delete(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            $($pattern: $extracted,)?
            name: super::SkillName,
        ) -> Result<axum::http::StatusCode, crate::error::ApiError> {
            super::delete(&app, caller, $owner, name).await
        }
    };
}

/// `/v1/skills`: the skills of the tenant, for all its users.
pub(crate) mod tenant {
    use houston_store::skill::SkillOwner;

    skills! {
        paths: "/v1/skills", "/v1/skills/{name}", access: TENANT,
        "list_skills_of_tenant": "List the skills of the tenant, by name.",
        "get_skill_of_tenant": "Get a skill of the tenant with its files.",
        "put_skill_of_tenant": "Create a skill of the tenant, or replace it with its files; agents have it from the next run on.",
        "delete_skill_of_tenant": "Delete a skill of the tenant.",
        params: (),
        owner: () SkillOwner::Tenant,
    }
}

/// `/v1/users/{id}/skills`: the skills of a user.
pub(crate) mod user {
    use houston_domain::id::UserId;
    use houston_store::skill::SkillOwner;

    use crate::request::agentable_path::Id;

    skills! {
        paths: "/v1/users/{id}/skills", "/v1/users/{id}/skills/{name}", access: USER,
        "list_skills_of_user": "List the skills of a user, by name.",
        "get_skill_of_user": "Get a skill of a user with its files.",
        "put_skill_of_user": "Create a skill of a user, or replace it with its files; agents have it from the next run on.",
        "delete_skill_of_user": "Delete a skill of a user.",
        params: (("id" = houston_domain::id::UserId, Path, description = "Id of the user."),),
        owner: (Id(id) => Id<UserId>) SkillOwner::User(id),
    }
}

/// Checks that the user exists: one that is being erased has its skills for a while.
async fn confirm(app: &App, caller: Caller, owner: SkillOwner) -> Result<(), ApiError> {
    if let SkillOwner::User(user) = owner {
        app.store(caller).user(user).await?;
    }
    Ok(())
}

async fn list(
    app: &App,
    caller: Caller,
    owner: SkillOwner,
) -> Result<Json<Page<SkillEntryResponse>>, ApiError> {
    confirm(app, caller, owner).await?;
    let skills = app.store(caller).skills(owner).await?;
    // There are so few that one page has all of them.
    Ok(Json(Page { data: skills.into_iter().map(entry).collect(), has_more: false, next_cursor: None }))
}

async fn get(
    app: &App,
    caller: Caller,
    owner: SkillOwner,
    name: SkillName,
) -> Result<Json<SkillResponse>, ApiError> {
    confirm(app, caller, owner).await?;
    let stored = app.store(caller).skill(owner, &name.0).await?;
    let (text, name) = (stored.text.clone(), name.0);
    let document = app.offload.compute(move || SkillDocument::read(&text, Some(&name))).await?;
    Ok(Json(response(document.map_err(refused)?, stored)))
}

async fn put(
    app: &App,
    caller: Caller,
    owner: SkillOwner,
    SkillName(name): SkillName,
    SkillRequest { text, files, enabled }: SkillRequest,
) -> Result<Json<SkillResponse>, ApiError> {
    // Compiling patterns takes too long for a thread of the runtime.
    let read = app.offload.compute({
        let (name, text, files) = (name.clone(), text.clone(), files.clone());
        move || check(&name, &text, &files)
    });
    let document = read.await?.map_err(refused)?;
    let summary = document.summary(enabled.unwrap_or(document.default_enabled));
    app.store(caller).put_skill(owner, &summary, &text, &files).await?;
    let stored = app.store(caller).skill(owner, &name).await?;
    Ok(Json(response(document, stored)))
}

async fn delete(
    app: &App,
    caller: Caller,
    owner: SkillOwner,
    SkillName(name): SkillName,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_skill(owner, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn check(name: &str, text: &str, files: &BTreeMap<String, String>) -> Result<SkillDocument, SkillError> {
    file::check(files)?;
    SkillDocument::read(text, Some(name))
}

fn refused(error: SkillError) -> ApiError {
    let field = if matches!(error, SkillError::File(_)) { "/files" } else { "/text" };
    ApiError::field(field, error.to_string())
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
