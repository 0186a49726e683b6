//! `find_files`: finds files of the workspace by a pattern of their paths.

use std::sync::Arc;

use houston_domain::capability::Capability;
use houston_domain::guard::Layer;
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_domain::workspace::FilePattern;
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::files::{self, Clamped};
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::untrusted;

const NAME: &str = "find_files";
/// Files if the call does not set `limit`: about 8 KB.
const DEFAULT_FILES: u32 = 200;
/// Files at most.
const MAX_FILES: u32 = 5_000;

/// Finds files by their paths.
#[derive(Debug)]
pub(super) struct FindFiles(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    glob: String,
    limit: Option<u32>,
}

impl Default for FindFiles {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Find files of your workspace by their paths.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "glob": {"type": "string", "description":
                        "As *.md (in any folder), notes/**/*.{md,txt}, or ** for all."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FILES,
                              "description": format!("How many at most; {DEFAULT_FILES} when left out.")},
                },
                "required": ["glob"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for FindFiles {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Files)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { glob, limit } = input::read(NAME, input)?;
        let pattern = files::pattern(NAME, &glob)?;
        let most = files::clamped("limit", limit, DEFAULT_FILES, MAX_FILES);
        Ok(Plan::record(Call { pattern, most, guards: Arc::clone(&context.guards) }))
    }
}

#[derive(Debug)]
struct Call {
    pattern: FilePattern,
    most: Clamped,
    guards: Arc<[Arc<Layer>]>,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(files::answered(async move {
            let (entries, too_many) = files::entries(&mut tx, &self.guards).await?;
            let found: Vec<_> = entries.iter().filter(|entry| self.pattern.is_match(&entry.path)).collect();
            let mut notes: Vec<String> =
                [&self.most.note, &too_many].into_iter().flatten().cloned().collect();
            if found.is_empty() {
                notes.push(format!("None of {} matches.", files::counted(entries.len(), "file")));
            }
            if let Some(more) = found.len().checked_sub(self.most.value).filter(|more| *more > 0) {
                notes.push(format!("{} match: use a narrower pattern.", files::counted(more, "more file")));
            }
            let line = |path: &str, bytes: u64| {
                format!("{path} ({})", files::counted(usize::try_from(bytes).unwrap_or(usize::MAX), "byte"))
            };
            let lines: Vec<String> =
                found.iter().take(self.most.value).map(|entry| line(&entry.path, entry.bytes)).collect();
            // Names may be what strangers wrote, too.
            let is_untrusted = found.iter().any(|entry| entry.untrusted);
            let text = untrusted::stored(is_untrusted, "files", lines.join("\n"));
            Ok(files::with_notes(text, &notes))
        }))
    }
}
