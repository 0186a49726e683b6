//! `list_files`: lists the files and folders of the workspace.

use std::sync::Arc;

use houston_domain::capability::Capability;
use houston_domain::guard::Layer;
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_domain::workspace::{Listed, MAX_DEPTH, WorkspacePath, listing};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::files::{self, Clamped};
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::untrusted;

pub(crate) const NAME: &str = "list_files";
/// Levels of folders if the call does not set `depth`.
const DEFAULT_DEPTH: u32 = 3;
/// Lines if the call does not set `limit`: about 8 KB.
const DEFAULT_LINES: u32 = 200;
/// Lines at most.
const MAX_LINES: u32 = 5_000;

/// Lists a folder.
#[derive(Debug)]
pub(super) struct ListFiles(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: Option<String>,
    depth: Option<u32>,
    limit: Option<u32>,
}

impl Default for ListFiles {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "List the files of your workspace with their lengths. Deeper folders are one line each."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "A folder; the whole workspace when left out."},
                    "depth": {"type": "integer", "minimum": 1, "maximum": MAX_DEPTH,
                              "description": format!("Levels of folders; {DEFAULT_DEPTH} when left out.")},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LINES,
                              "description": format!("How many lines at most; {DEFAULT_LINES} when left out.")},
                },
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ListFiles {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Files)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { path, depth, limit } = input::read(NAME, input)?;
        let deepest = u32::try_from(MAX_DEPTH).unwrap_or(u32::MAX);
        Ok(Plan::record(Call {
            folder: files::folder(NAME, path.as_deref())?,
            depth: files::clamped("depth", depth, DEFAULT_DEPTH, deepest),
            lines: files::clamped("limit", limit, DEFAULT_LINES, MAX_LINES),
            guards: Arc::clone(&context.guards),
        }))
    }
}

#[derive(Debug)]
struct Call {
    folder: Option<WorkspacePath>,
    depth: Clamped,
    lines: Clamped,
    guards: Arc<[Arc<Layer>]>,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(files::answered(async move {
            let (entries, too_many) = files::entries(&mut tx, &self.guards).await?;
            let all = entries.iter().map(|entry| (entry.path.as_str(), entry.bytes));
            let listed = listing(self.folder.as_ref(), self.depth.value, all);
            let notes = [&self.depth.note, &self.lines.note, &too_many];
            let mut notes: Vec<String> = notes.into_iter().flatten().cloned().collect();
            if listed.is_empty() {
                notes.push(match &self.folder {
                    Some(folder) => format!("There are no files in {folder}."),
                    None => "There are no files yet.".to_owned(),
                });
            }
            if let Some(more) = listed.len().checked_sub(self.lines.value).filter(|more| *more > 0) {
                let lines = files::counted(more, "more line");
                notes.push(format!("{lines}: list one of the folders, or set a lower `depth`."));
            }
            let lines: Vec<String> = listed.iter().take(self.lines.value).map(line).collect();
            // Names may be what strangers wrote, too.
            let is_untrusted = entries.iter().any(|entry| entry.untrusted);
            let text = untrusted::stored(is_untrusted && !lines.is_empty(), "files", lines.join("\n"));
            Ok(files::with_notes(text, &notes))
        }))
    }
}

/// `docs/ (2 files, 120 bytes)`, `docs/a.md (60 bytes)`
fn line(listed: &Listed) -> String {
    let bytes = files::counted(usize::try_from(listed.bytes).unwrap_or(usize::MAX), "byte");
    let count =
        listed.files.map(|count| files::counted(usize::try_from(count).unwrap_or(usize::MAX), "file"));
    match count {
        Some(count) => format!("{} ({count}, {bytes})", listed.path),
        None => format!("{} ({bytes})", listed.path),
    }
}
