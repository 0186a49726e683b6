//! Changes of files of the workspace: written with the step, exactly once. A person who decides about one sees it as a diff.

use houston_domain::workspace::{
    ChangeRefusal, Expected, MAX_FILE_BYTES, WorkspacePath, check_delete, check_write, edited, unified_diff,
};
use houston_store::Error;

use super::files::{self, ReadFile};
use super::prelude::*;

built_in![WriteFile, EditFile, DeleteFile];

/// What the argument `expected_sha` expects.
fn expected(sha: Option<&str>) -> Result<Expected, Refusal> {
    let expected = sha.map_or(Ok(Expected::Any), Expected::parse);
    expected.map_err(|error| invalid(format!("`expected_sha` {error}")))
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
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = format!(
    "Create a text file of your workspace, or replace the whole text of one. At most {MAX_FILE_BYTES} bytes."
))]
pub(super) struct WriteFile {
    /// Path below the workspace, as notes/plan.md. Folders need not be made.
    path: String,
    /// The whole text.
    content: String,
    /// Write only if the file still has this sha; `none`: only if there is no such file.
    expected_sha: Option<String>,
}

impl BuiltIn for WriteFile {
    const NAME: &'static str = "write_file";
    const EFFECT: EffectClass = EffectClass::Idempotent;
    const CAPABILITY: Option<Capability> = Some(Capability::Files);

    fn plan(self, _: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let path = files::file(&self.path)?;
        let expected = expected(self.expected_sha.as_deref())?;
        text("content", &self.content)?;
        Ok(Plan::record(Write { path, content: self.content, expected }))
    }
}

#[derive(Debug)]
struct Write {
    path: WorkspacePath,
    content: String,
    expected: Expected,
}

impl Write {
    async fn written(&self, tx: &mut RecordTx<'_>) -> Result<ToolResponse> {
        let Self { path, content, expected } = self;
        let present = tx.present_files(path).await?;
        if let Err(refusal) = check_write(path, content, expected, &present, &tx.file_limits()) {
            return Ok(files::refused(&refusal));
        }
        let version = tx.write_file(path, content, false).await?;
        let done = if present.file.is_some() { "Replaced" } else { "Created" };
        Ok(ToolResponse::success(format!("{done} {path}: {}", files::described(content.len(), version))))
    }
}

impl Access for Write {
    const HAS_PREVIEW: bool = true;

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
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = format!(
    "Replace one part of a text file of your workspace. {} it first: `old` must be in it exactly once.",
    ReadFile::NAME
))]
pub(super) struct EditFile {
    /// Path below the workspace.
    path: String,
    /// The text to replace, with its spaces and line breaks.
    old: String,
    /// What takes its place; empty to delete it.
    new: String,
    /// Change it only if the file still has this sha.
    expected_sha: Option<String>,
}

impl BuiltIn for EditFile {
    const NAME: &'static str = "edit_file";
    const EFFECT: EffectClass = EffectClass::Idempotent;
    const CAPABILITY: Option<Capability> = Some(Capability::Files);

    fn plan(self, _: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let path = files::file(&self.path)?;
        let expected = expected(self.expected_sha.as_deref())?;
        text("old", &self.old)?;
        text("new", &self.new)?;
        Ok(Plan::record(Edit { path, old: self.old, new: self.new, expected }))
    }
}

#[derive(Debug)]
struct Edit {
    path: WorkspacePath,
    old: String,
    new: String,
    expected: Expected,
}

impl Edit {
    async fn changed(&self, tx: &mut RecordTx<'_>) -> Result<ToolResponse> {
        let Self { path, old, new, expected } = self;
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
        if let Err(refusal) = check_write(path, &content, expected, &present, &tx.file_limits()) {
            return Ok(files::refused(&refusal));
        }
        let version = tx.write_file(path, &content, file.untrusted).await?;
        Ok(ToolResponse::success(format!("Changed {path}: {}", files::described(content.len(), version))))
    }
}

impl Access for Edit {
    const HAS_PREVIEW: bool = true;

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
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteFile {
    /// Path below the workspace.
    path: String,
    /// Delete it only if the file still has this sha.
    expected_sha: Option<String>,
}

impl BuiltIn for DeleteFile {
    const NAME: &'static str = "delete_file";
    const EFFECT: EffectClass = EffectClass::Idempotent;
    const CAPABILITY: Option<Capability> = Some(Capability::Files);

    fn plan(self, _: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let path = files::file(&self.path)?;
        Ok(Plan::record(Delete { path, expected: expected(self.expected_sha.as_deref())? }))
    }
}

#[derive(Debug)]
struct Delete {
    path: WorkspacePath,
    expected: Expected,
}

impl Delete {
    async fn deleted(&self, tx: &mut RecordTx<'_>) -> Result<ToolResponse> {
        let Self { path, expected } = self;
        let present = tx.present_files(path).await?;
        if let Err(refusal) = check_delete(path, expected, &present) {
            return Ok(files::refused(&refusal));
        }
        tx.delete_file(path).await?;
        Ok(ToolResponse::success(format!("Deleted {path}.")))
    }
}

impl Access for Delete {
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
