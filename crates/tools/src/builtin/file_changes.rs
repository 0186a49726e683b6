//! Changes of files of the workspace: written with the step, exactly once. A person who decides about one sees it as a diff.

use houston_domain::workspace::{
    ChangeRefusal, Expected, MAX_FILE_BYTES, WorkspacePath, check_delete, check_write, edited, unified_diff,
};
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
fn text(field: &str, text: &str) -> Result<()> {
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

impl Access for WriteFile {
    const HAS_PREVIEW: bool = true;

    fn check(&self, _: &CallContext) -> Result<()> {
        text("content", &self.content)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let Self { path, content, expected_sha: expected } = self;
        let present = tx.present_files(path).await?;
        check_write(path, content, expected, &present, &tx.settings.knowledge_limits.files)
            .map_err(files::refused)?;
        let version = tx.write_file(path, content, false).await?;
        let done = if present.file.is_some() { "Replaced" } else { "Created" };
        Ok(format!("{done} {path}: {}", files::described(content.len(), version)))
    }

    async fn preview(&self, mut tx: RecordTx<'_>) -> Result<Option<String>> {
        let before = tx.file(&self.path).await?.map(|file| file.content);
        Ok(Some(unified_diff(self.path.as_str(), before.as_deref(), Some(&self.content))))
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

impl Access for EditFile {
    const HAS_PREVIEW: bool = true;

    fn check(&self, _: &CallContext) -> Result<()> {
        text("old", &self.old)?;
        text("new", &self.new)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let Self { path, old, new, expected_sha: expected } = self;
        let file = tx.file(path).await?.ok_or_else(|| files::missing(path))?;
        // First what the model expects: it should read a changed file again before it corrects the text.
        if !expected.is_met(Some(file.version)) {
            let changed = ChangeRefusal::Changed { path: path.to_string(), version: file.version };
            return Err(files::refused(changed));
        }
        let content =
            edited(&file.content, old, new).map_err(|refusal| invalid(format!("{path}: {refusal}")))?;
        let present = tx.present_files(path).await?;
        check_write(path, &content, expected, &present, &tx.settings.knowledge_limits.files)
            .map_err(files::refused)?;
        let version = tx.write_file(path, &content, file.untrusted).await?;
        Ok(format!("Changed {path}: {}", files::described(content.len(), version)))
    }

    async fn preview(&self, mut tx: RecordTx<'_>) -> Result<Option<String>> {
        Ok(tx.file(&self.path).await?.and_then(|file| {
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

impl Access for DeleteFile {
    const HAS_PREVIEW: bool = true;

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let Self { path, expected_sha: expected } = self;
        let present = tx.present_files(path).await?;
        check_delete(path, expected, &present).map_err(files::refused)?;
        tx.delete_file(path).await?;
        Ok(format!("Deleted {path}."))
    }

    async fn preview(&self, mut tx: RecordTx<'_>) -> Result<Option<String>> {
        let file = tx.file(&self.path).await?;
        Ok(file.map(|file| unified_diff(self.path.as_str(), Some(&file.content), None)))
    }
}
