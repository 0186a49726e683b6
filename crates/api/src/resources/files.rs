//! `/v1/{kinds}/{id}/files`: the files of an agentable's workspace, which its agent writes.

use houston_domain::workspace::{FileEntry, WorkspacePath};

use crate::request::agentable_path::path_value;
use crate::request::prelude::*;

endpoints! {
    get "/v1/{kinds}/{id}/files" for AGENTABLE => list,
    "list_files_of_workspace" in "files": "List the files of an agentable's workspace, in the order of their paths.",
    params(Paged),
    200 "A page of files." [Page<FileEntry>];

    get "/v1/{kinds}/{id}/files/{path}" for AGENTABLE => get,
    "get_file_of_workspace" in "files": "Get a file of an agentable's workspace.",
    params(("path" = String, Path, description = "Path below the workspace; `/` is written `%2F`.", example = "notes%2Fplan.md")),
    200 "The file." [houston_domain::workspace::WorkspaceFile];
}

async fn list(ctx: Ctx, path: AgentablePath, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, from) = (query.limit()?, query.text(List::Files)?);
    ctx.confirm(&path).await?;
    let rows = ctx.store().files(path.id, from, rows(limit)).await?;
    Ok(Json(Page::of(List::Files, limit, rows, |row: &FileEntry| HexText(row.path.clone()), |row| row)))
}

/// The file with its text. A `/` in the path is written `%2F`.
async fn get(ctx: Ctx, path: AgentablePath, FilePath(file): FilePath) -> Result<impl IntoResponse> {
    ctx.confirm(&path).await?;
    Ok(Json(ctx.store().file(path.id, &file).await?))
}

path_value! {
    /// Extracts `path` from the path of the request. No file has a path that is not one of a workspace.
    FilePath(WorkspacePath): "path" or "file", |path| WorkspacePath::file(&path).ok()
}
