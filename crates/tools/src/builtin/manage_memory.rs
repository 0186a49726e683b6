//! `manage_memory`: memories, which all agents of the user share.

use houston_domain::capability::Capability;
use houston_domain::id::MemoryId;
use houston_domain::knowledge::{KnowledgeAction, MAX_QUERY_CHARS, MAX_SENTENCE_BYTES};
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "manage_memory";
/// Memories are listed shortened: a page has about 5 KB.
const MAX_ITEMS: u32 = 20;

/// Saves, finds and forgets memories. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct ManageMemory(ToolDefinition);

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Save,
    Recall,
    Read,
    Forget,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    action: Action,
    content: Option<String>,
    memory_id: Option<MemoryId>,
    query: Option<String>,
    limit: Option<u32>,
}

impl Default for ManageMemory {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Your memory of the user, shared by all their agents. save: keep a sentence, or correct one (with \
                 memory_id). recall: find what fits a query, shortened. read: one in full. forget: delete one. \
                 <memories> has only the newest."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["save", "recall", "read", "forget"]},
                    "content": {"type": "string", "description": "One sentence; for save."},
                    "memory_id": {"type": "string",
                                  "description": "For read and forget; for save, the one it takes the place of."},
                    "query": {"type": "string", "description": "What to look for, in a few words; for recall."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_ITEMS,
                              "description": "How many at most; for recall; 5 when left out."},
                },
                "required": ["action"],
                "additionalProperties": false,
            }),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ManageMemory {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Memory)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { action, content, memory_id, query, limit } = input::read(NAME, input)?;
        let needs = |field: &str| InvalidInput(format!("{NAME}: this action needs `{field}`"));
        let id = || memory_id.ok_or_else(|| needs("memory_id"));
        Ok(Plan::Record(Record::Knowledge(match action {
            Action::Save => {
                let content = content.ok_or_else(|| needs("content"))?;
                let content = input::text(NAME, "content", content, MAX_SENTENCE_BYTES)?;
                KnowledgeAction::SaveMemory { content, instead_of: memory_id }
            }
            Action::Recall => {
                let query = query.ok_or_else(|| needs("query"))?;
                let query = input::line(NAME, "query", query, MAX_QUERY_CHARS)?;
                KnowledgeAction::RecallMemories { query, limit: input::limit(NAME, limit, 5, MAX_ITEMS)? }
            }
            Action::Read => KnowledgeAction::ReadMemory(id()?),
            Action::Forget => KnowledgeAction::ForgetMemory(id()?),
        })))
    }
}
