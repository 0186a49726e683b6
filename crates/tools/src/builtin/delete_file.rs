//! `delete_file`: deletes a file of the workspace.

use futures_util::future::BoxFuture;
use houston_domain::capability::Capability;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_domain::workspace::{Expected, WorkspacePath, check_delete, unified_diff};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::files;
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "delete_file";

/// Deletes a file. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct DeleteFile(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    expected_sha: Option<String>,
}

impl Default for DeleteFile {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Delete a file of your workspace for good.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Path below the workspace."},
                    "expected_sha": {"type": "string", "description": "Delete it only if the file still has this sha."},
                },
                "required": ["path"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for DeleteFile {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Files)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { path, expected_sha } = input::read(NAME, input)?;
        let path = files::file(NAME, &path)?;
        let expected = files::expected(NAME, expected_sha.as_deref())?;
        Ok(Plan::record(Call { path, expected }))
    }
}

#[derive(Debug)]
struct Call {
    path: WorkspacePath,
    expected: Expected,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        let Self { path, expected } = self;
        Box::pin(files::answered(async move {
            let present = tx.present_files(path).await?;
            if let Err(refusal) = check_delete(path, expected, &present) {
                return Ok(files::refused(&refusal));
            }
            tx.delete_file(path).await?;
            Ok(ToolResponse::success(format!("Deleted {path}.")))
        }))
    }

    fn has_preview(&self) -> bool {
        true
    }

    fn preview<'t>(&'t self, mut tx: RecordTx<'t>) -> BoxFuture<'t, houston_store::Result<Option<String>>> {
        let Self { path, .. } = self;
        Box::pin(files::previewed(async move {
            let file = tx.file(path).await?;
            Ok(file.map(|file| unified_diff(path.as_str(), Some(&file.content), None)))
        }))
    }
}
