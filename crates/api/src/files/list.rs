//! `GET /v1/{kinds}/{id}/files`: files without their texts, in the order of their paths.

use houston_protocol::file::FileResponse;
use houston_protocol::time::Time;
use houston_store::workspace_file::FileEntry;

use crate::page::{HexText, List};
use crate::reads::list_of_agentable;

fn response(file: FileEntry) -> FileResponse {
    FileResponse {
        path: file.path,
        bytes: file.bytes,
        sha256: file.version.hex(),
        created_at: Time(file.created_at),
        updated_at: Time(file.updated_at),
    }
}

list_of_agentable! {
    path: "/v1/{kinds}/{id}/files", tag: "files", operation: "list_files_of_workspace",
    summary: "List the files of an agentable's workspace, in the order of their paths.",
    list: Files, from: query => query.text(List::Files)?, position: |row| HexText(row.path.clone()),
    method: files, body: FileResponse, "A page of files.",
}
