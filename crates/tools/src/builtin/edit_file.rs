//! `edit_file`: replaces one part of a file of the workspace.

use futures_util::future::BoxFuture;
use houston_domain::capability::Capability;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_domain::workspace::{ChangeRefusal, Expected, WorkspacePath, check_write, edited, unified_diff};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::read_file;
use crate::files;
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "edit_file";

/// Replaces a text that occurs once. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct EditFile(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    old: String,
    new: String,
    expected_sha: Option<String>,
}

impl Default for EditFile {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Replace one part of a text file of your workspace. {} it first: `old` must be in it exactly once.",
                read_file::NAME
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Path below the workspace."},
                    "old": {"type": "string", "description": "The text to replace, with its spaces and line breaks."},
                    "new": {"type": "string", "description": "What takes its place; empty to delete it."},
                    "expected_sha": {"type": "string", "description": "Change it only if the file still has this sha."},
                },
                "required": ["path", "old", "new"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for EditFile {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Files)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { path, old, new, expected_sha } = input::read(NAME, input)?;
        let path = files::file(NAME, &path)?;
        let expected = files::expected(NAME, expected_sha.as_deref())?;
        files::text(NAME, "old", &old)?;
        files::text(NAME, "new", &new)?;
        Ok(Plan::record(Call { path, old, new, expected }))
    }
}

#[derive(Debug)]
struct Call {
    path: WorkspacePath,
    old: String,
    new: String,
    expected: Expected,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        let Self { path, old, new, expected } = self;
        Box::pin(files::answered(async move {
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
        }))
    }

    fn has_preview(&self) -> bool {
        true
    }

    fn preview<'t>(&'t self, mut tx: RecordTx<'t>) -> BoxFuture<'t, houston_store::Result<Option<String>>> {
        let Self { path, old, new, .. } = self;
        Box::pin(files::previewed(async move {
            let Some(file) = tx.file(path).await? else { return Ok(None) };
            let after = edited(&file.content, old, new).ok();
            Ok(after.map(|after| unified_diff(path.as_str(), Some(&file.content), Some(&after))))
        }))
    }
}
