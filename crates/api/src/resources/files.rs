//! `/v1/{kinds}/{id}/files`: the files of an agentable's workspace, which its agent writes.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::IntoResponse;
use houston_domain::workspace::WorkspacePath;
use houston_protocol::file::{FileContentResponse, FileResponse};
use houston_protocol::time::Time;
use houston_store::workspace_file::FileEntry;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::{AgentablePath, params};
use crate::request::endpoint::{Endpoint, endpoint};
use crate::request::page::{HexText, List};
use crate::request::reads::list_of_agentable;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[LIST, GET];

list_of_agentable! {
    path: "/v1/{kinds}/{id}/files", access: AGENTABLE, tag: "files", operation: "list_files_of_workspace",
    summary: "List the files of an agentable's workspace, in the order of their paths.",
    list: Files, from: query => query.text(List::Files)?, position: |row| HexText(row.path.clone()),
    method: files, body: FileResponse, "A page of files.",
}

fn response(file: FileEntry) -> FileResponse {
    FileResponse {
        path: file.path,
        bytes: file.bytes,
        sha256: file.version.hex(),
        created_at: Time(file.created_at),
        updated_at: Time(file.updated_at),
    }
}

endpoint! {
    GET: get "/v1/{kinds}/{id}/files/{path}" for AGENTABLE => get,
    tag = "files",
    operation_id = "get_file_of_workspace",
    summary = "Get a file of an agentable's workspace.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_domain::id::AgentableId, Path, description = "Id of the agentable."),
        ("path" = String, Path, description = "Path below the workspace; `/` is written `%2F`.", example = "notes%2Fplan.md")
    ),
    responses((status = 200, description = "The file.", body = FileContentResponse)),
}

/// The file with its text. A `/` in the path is written `%2F`.
async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    FilePath(file): FilePath,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &path).await?;
    let file = app.store(caller).file(path.id, &file).await?;
    Ok(Json(FileContentResponse {
        sha256: file.version.hex(),
        path: file.path,
        content: file.content,
        created_at: Time(file.created_at),
        updated_at: Time(file.updated_at),
    }))
}

/// Extracts `path` from the path of the request. No file has a path that is not one of a workspace.
#[derive(Debug, Clone)]
struct FilePath(WorkspacePath);

impl<S: Send + Sync> FromRequestParts<S> for FilePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "file" };
        let params = params(parts).ok_or(NOT_FOUND)?;
        let path = params.iter().find(|(name, _)| *name == "path").map(|(_, path)| path);
        path.and_then(|path| WorkspacePath::file(path).ok()).map(Self).ok_or(NOT_FOUND)
    }
}
