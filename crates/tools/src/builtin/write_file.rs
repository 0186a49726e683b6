//! `write_file`: creates a file of the workspace, or replaces its text.

use futures_util::future::BoxFuture;
use houston_domain::capability::Capability;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_domain::workspace::{Expected, MAX_FILE_BYTES, WorkspacePath, check_write, unified_diff};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::files;
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "write_file";

/// Writes a file. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct WriteFile(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    content: String,
    expected_sha: Option<String>,
}

impl Default for WriteFile {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Create a text file of your workspace, or replace the whole text of one. At most {MAX_FILE_BYTES} bytes."
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description":
                        "Path below the workspace, as notes/plan.md. Folders need not be made."},
                    "content": {"type": "string", "description": "The whole text."},
                    "expected_sha": {"type": "string", "description":
                        "Write only if the file still has this sha; `none`: only if there is no such file."},
                },
                "required": ["path", "content"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for WriteFile {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Files)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { path, content, expected_sha } = input::read(NAME, input)?;
        let path = files::file(NAME, &path)?;
        let expected = files::expected(NAME, expected_sha.as_deref())?;
        files::text(NAME, "content", &content)?;
        Ok(Plan::record(Call { path, content, expected }))
    }
}

#[derive(Debug)]
struct Call {
    path: WorkspacePath,
    content: String,
    expected: Expected,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        let Self { path, content, expected } = self;
        Box::pin(files::answered(async move {
            let present = tx.present_files(path).await?;
            if let Err(refusal) = check_write(path, content, expected, &present, &tx.file_limits()) {
                return Ok(files::refused(&refusal));
            }
            let version = tx.write_file(path, content, false).await?;
            let done = if present.file.is_some() { "Replaced" } else { "Created" };
            Ok(ToolResponse::success(format!("{done} {path}: {}", files::described(content.len(), version))))
        }))
    }

    fn has_preview(&self) -> bool {
        true
    }

    fn preview<'t>(&'t self, mut tx: RecordTx<'t>) -> BoxFuture<'t, houston_store::Result<Option<String>>> {
        let Self { path, content, .. } = self;
        Box::pin(files::previewed(async move {
            let before = tx.file(path).await?.map(|file| file.content);
            Ok(Some(unified_diff(path.as_str(), before.as_deref(), Some(content))))
        }))
    }
}
