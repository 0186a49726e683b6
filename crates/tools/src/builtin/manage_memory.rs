//! `manage_memory`: memories, which all agents of the user share.

use houston_domain::capability::Capability;
use houston_domain::id::MemoryId;
use houston_domain::knowledge::{KnowledgeKind, MAX_QUERY_CHARS, MAX_SENTENCE_BYTES};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::knowledge_item::{KnowledgeChange, KnowledgeItem};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::listing;
use crate::record::{Record, RecordFuture, created, not_found};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::untrusted;

pub const NAME: &str = "manage_memory";
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
            }).into(),
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
        Ok(Plan::record(match action {
            Action::Save => {
                let content = content.ok_or_else(|| needs("content"))?;
                let content = input::text(NAME, "content", content, MAX_SENTENCE_BYTES)?;
                Call::Save { content, instead_of: memory_id }
            }
            Action::Recall => {
                let query = query.ok_or_else(|| needs("query"))?;
                let query = input::line(NAME, "query", query, MAX_QUERY_CHARS)?;
                Call::Recall { query, limit: input::limit(NAME, limit, 5, MAX_ITEMS)? }
            }
            Action::Read => Call::Read(id()?),
            Action::Forget => Call::Forget(id()?),
        }))
    }
}

#[derive(Debug)]
enum Call {
    Save { content: String, instead_of: Option<MemoryId> },
    Recall { query: String, limit: u32 },
    Read(MemoryId),
    Forget(MemoryId),
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        let kind = KnowledgeKind::Memory;
        let answer = |id: &MemoryId, text: Option<String>| match text {
            Some(text) => ToolResponse::success(text),
            None => not_found(id, &format!("{NAME} with `recall`")),
        };
        Box::pin(async move {
            Ok(match self {
                Self::Save { content, instead_of: None } => {
                    let done = tx.create_item(kind, None, content).await;
                    return created(done, || format!("Saved {}.", MemoryId(tx.ids().row)));
                }
                Self::Save { content, instead_of: Some(id) } => {
                    let change = KnowledgeChange { content: Some(content), ..KnowledgeChange::default() };
                    let changed = tx.change_item(kind, *id, change).await?;
                    answer(id, changed.map(|_| format!("Corrected {id}.")))
                }
                Self::Recall { query, limit } => {
                    let chars = tx.knowledge_limits().excerpt_chars;
                    let (found, reads) =
                        (tx.best_matches(kind, query, *limit, chars).await?, format!("{NAME} with `read`"));
                    let lines =
                        found.into_iter().map(|found| listing::line::<MemoryId>(found, &reads, chars));
                    let lines: Vec<_> = lines.collect();
                    let none = "Nothing like it is in memory: try other words.".to_owned();
                    ToolResponse::success(if lines.is_empty() { none } else { lines.join("\n\n") })
                }
                Self::Read(id) => {
                    let text = |memory: KnowledgeItem| {
                        untrusted::stored(memory.untrusted, &id.to_string(), memory.content)
                    };
                    answer(id, tx.item(kind, *id).await?.map(text))
                }
                Self::Forget(id) => {
                    let is_gone = tx.delete_item(kind, *id).await?;
                    answer(id, is_gone.then(|| format!("Forgot {id}.")))
                }
            })
        })
    }
}
