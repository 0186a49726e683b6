//! `/v1/{kinds}/{id}/files`: the files of an agentable's workspace, which its agent writes.

use houston_domain::workspace::WorkspacePath;
use houston_protocol::file::{FileContentResponse, FileResponse};
use houston_store::workspace_file::FileEntry;

use crate::request::agentable_path::path_value;
use crate::request::prelude::*;

endpoints! {
    get "/v1/{kinds}/{id}/files" for AGENTABLE => list,
    "list_files_of_workspace" in "files": "List the files of an agentable's workspace, in the order of their paths.",
    params(Paged),
    200 "A page of files." [Page<FileResponse>];

    get "/v1/{kinds}/{id}/files/{path}" for AGENTABLE => get,
    "get_file_of_workspace" in "files": "Get a file of an agentable's workspace.",
    params(("path" = String, Path, description = "Path below the workspace; `/` is written `%2F`.", example = "notes%2Fplan.md")),
    200 "The file." [FileContentResponse];
}

async fn list(ctx: Ctx, path: AgentablePath, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, from) = (query.limit()?, query.text(List::Files)?);
    ctx.confirm(&path).await?;
    let rows = ctx.store().files(path.id, from, rows(limit)).await?;
    Ok(Json(Page::of(List::Files, limit, rows, |row| HexText(row.path.clone()), response)))
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

/// The file with its text. A `/` in the path is written `%2F`.
async fn get(ctx: Ctx, path: AgentablePath, FilePath(file): FilePath) -> Result<impl IntoResponse> {
    ctx.confirm(&path).await?;
    let file = ctx.store().file(path.id, &file).await?;
    Ok(Json(FileContentResponse {
        sha256: file.version.hex(),
        path: file.path,
        content: file.content,
        created_at: Time(file.created_at),
        updated_at: Time(file.updated_at),
    }))
}

path_value! {
    /// Extracts `path` from the path of the request. No file has a path that is not one of a workspace.
    FilePath(WorkspacePath): "path" or "file", |path| WorkspacePath::file(&path).ok()
}
