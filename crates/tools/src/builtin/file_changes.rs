//! Changes of files of the workspace: written with the step, exactly once. A person who decides about one sees it as a diff.

use houston_domain::workspace::{
    ChangeRefusal, Expected, MAX_FILE_BYTES, WorkspacePath, check_delete, check_write, edited, unified_diff,
};
use houston_store::Error;
use serde::Deserializer;
use serde::de::Error as _;

use super::files::{self, ReadFile};
use super::prelude::*;

built_in! {
    WriteFile: "write_file", Idempotent, capability Files;
    EditFile: "edit_file", Idempotent, capability Files;
    DeleteFile: "delete_file", Idempotent, capability Files;
}

/// Reads an argument `expected_sha`.
fn expected<'d, D: Deserializer<'d>>(given: D) -> Result<Expected, D::Error> {
    let sha: Option<String> = Deserialize::deserialize(given)?;
    let expected = sha.as_deref().map_or(Ok(Expected::Any), Expected::parse);
    expected.map_err(|error| D::Error::custom(format!("`expected_sha` {error}")))
}

/// Checks the text of a file, or of a part of it.
fn text(field: &str, text: &str) -> Result<(), Refusal> {
    if text.len() > MAX_FILE_BYTES {
        let bytes = text.len();
        return Err(invalid(format!(
            "`{field}` has {bytes} bytes; at most {MAX_FILE_BYTES} are allowed: use several files"
        )));
    }
    if text.contains('\0') {
        return Err(invalid(format!(
            "`{field}` contains the character U+0000, which text files cannot have: leave it out"
        )));
    }
    Ok(())
}

/// What a call would change; nothing to show if it will fail.
fn previewed(preview: Result<Option<String>>) -> Result<Option<String>> {
    match preview {
        Err(Error::Folder(_)) => Ok(None),
        other => other,
    }
}

/// Creates a file, or replaces its text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = format!(
    "Create a text file of your workspace, or replace the whole text of one. At most {MAX_FILE_BYTES} bytes."
))]
pub(super) struct WriteFile {
    /// Path below the workspace, as notes/plan.md. Folders need not be made.
    #[serde(deserialize_with = "files::path")]
    #[schemars(with = "String")]
    path: WorkspacePath,
    /// The whole text.
    content: String,
    /// Write only if the file still has this sha; `none`: only if there is no such file.
    #[serde(default, deserialize_with = "expected")]
    #[schemars(with = "Option<String>")]
    expected_sha: Expected,
}

impl WriteFile {
    async fn written(&self, tx: &mut RecordTx<'_>) -> Result<ToolResponse> {
        let Self { path, content, expected_sha: expected } = self;
        let present = tx.present_files(path).await?;
        if let Err(refusal) =
            check_write(path, content, expected, &present, &tx.settings.knowledge_limits.files)
        {
            return Ok(files::refused(&refusal));
        }
        let version = tx.write_file(path, content, false).await?;
        let done = if present.file.is_some() { "Replaced" } else { "Created" };
        Ok(ToolResponse::success(format!("{done} {path}: {}", files::described(content.len(), version))))
    }
}

impl Access for WriteFile {
    const HAS_PREVIEW: bool = true;

    fn check(&self) -> Result<(), Refusal> {
        text("content", &self.content)
    }

    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        files::answered(self.written(&mut tx).await)
    }

    async fn preview(&self, mut tx: RecordTx<'_>) -> Result<Option<String>> {
        previewed(tx.file(&self.path).await.map(|before| {
            let before = before.map(|file| file.content);
            Some(unified_diff(self.path.as_str(), before.as_deref(), Some(&self.content)))
        }))
    }
}

/// Replaces a text that occurs once.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = format!(
    "Replace one part of a text file of your workspace. {} it first: `old` must be in it exactly once.",
    ReadFile::NAME
))]
pub(super) struct EditFile {
    /// Path below the workspace.
    #[serde(deserialize_with = "files::path")]
    #[schemars(with = "String")]
    path: WorkspacePath,
    /// The text to replace, with its spaces and line breaks.
    old: String,
    /// What takes its place; empty to delete it.
    new: String,
    /// Change it only if the file still has this sha.
    #[serde(default, deserialize_with = "expected")]
    #[schemars(with = "Option<String>")]
    expected_sha: Expected,
}

impl EditFile {
    async fn changed(&self, tx: &mut RecordTx<'_>) -> Result<ToolResponse> {
        let Self { path, old, new, expected_sha: expected } = self;
        let Some(file) = tx.file(path).await? else { return Ok(files::missing(path)) };
        // First what the model expects: it should read a changed file again before it corrects the text.
        if !expected.is_met(Some(file.version)) {
            let changed = ChangeRefusal::Changed { path: path.to_string(), version: file.version };
            return Ok(files::refused(&changed));
        }
        let content = match edited(&file.content, old, new) {
            Ok(content) => content,
            Err(refusal) => {
                let error = format!("{path}: {refusal}");
                return Ok(ToolResponse::failure(ToolErrorCode::ValidationError, error));
            }
        };
        let present = tx.present_files(path).await?;
        if let Err(refusal) =
            check_write(path, &content, expected, &present, &tx.settings.knowledge_limits.files)
        {
            return Ok(files::refused(&refusal));
        }
        let version = tx.write_file(path, &content, file.untrusted).await?;
        Ok(ToolResponse::success(format!("Changed {path}: {}", files::described(content.len(), version))))
    }
}

impl Access for EditFile {
    const HAS_PREVIEW: bool = true;

    fn check(&self) -> Result<(), Refusal> {
        text("old", &self.old)?;
        text("new", &self.new)
    }

    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        files::answered(self.changed(&mut tx).await)
    }

    async fn preview(&self, mut tx: RecordTx<'_>) -> Result<Option<String>> {
        previewed(tx.file(&self.path).await.map(|file| {
            let file = file?;
            let after = edited(&file.content, &self.old, &self.new).ok()?;
            Some(unified_diff(self.path.as_str(), Some(&file.content), Some(&after)))
        }))
    }
}

/// Delete a file of your workspace for good.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteFile {
    /// Path below the workspace.
    #[serde(deserialize_with = "files::path")]
    #[schemars(with = "String")]
    path: WorkspacePath,
    /// Delete it only if the file still has this sha.
    #[serde(default, deserialize_with = "expected")]
    #[schemars(with = "Option<String>")]
    expected_sha: Expected,
}

impl DeleteFile {
    async fn deleted(&self, tx: &mut RecordTx<'_>) -> Result<ToolResponse> {
        let Self { path, expected_sha: expected } = self;
        let present = tx.present_files(path).await?;
        if let Err(refusal) = check_delete(path, expected, &present) {
            return Ok(files::refused(&refusal));
        }
        tx.delete_file(path).await?;
        Ok(ToolResponse::success(format!("Deleted {path}.")))
    }
}

impl Access for DeleteFile {
    const HAS_PREVIEW: bool = true;

    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        files::answered(self.deleted(&mut tx).await)
    }

    async fn preview(&self, mut tx: RecordTx<'_>) -> Result<Option<String>> {
        previewed(
            tx.file(&self.path)
                .await
                .map(|file| file.map(|file| unified_diff(self.path.as_str(), Some(&file.content), None))),
        )
    }
}
