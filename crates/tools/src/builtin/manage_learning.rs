//! `manage_learning`: adds, corrects and removes learnings.

use houston_domain::capability::Capability;
use houston_domain::id::LearningId;
use houston_domain::knowledge::{KnowledgeKind, MAX_SENTENCE_BYTES};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::knowledge_item::KnowledgeChange;
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::list_learnings;
use crate::input;
use crate::record::{Record, RecordFuture, created};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "manage_learning";

/// Adds, corrects or removes a learning. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct ManageLearning(ToolDefinition);

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Add,
    Update,
    Remove,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    action: Action,
    content: Option<String>,
    learning_id: Option<LearningId>,
}

impl Default for ManageLearning {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Remember something lasting about the user or the goal (a preference, a fact, a \
                          constraint), correct it, or forget it. What you remember is listed in <learnings>."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["add", "update", "remove"]},
                    "content": {"type": "string", "description": "One sentence; for add and update."},
                    "learning_id": {"type": "string",
                                    "description": "An id from <learnings>; for update and remove."},
                },
                "required": ["action"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ManageLearning {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Learnings)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { action, content, learning_id } = input::read(NAME, input)?;
        let content = || {
            let text = content.ok_or_else(|| InvalidInput(format!("{NAME}: this action needs `content`")))?;
            input::text(NAME, "content", text, MAX_SENTENCE_BYTES)
        };
        let id = || {
            learning_id.ok_or_else(|| {
                InvalidInput(format!("{NAME}: this action needs `learning_id`, an id from <learnings>"))
            })
        };
        Ok(Plan::record(match action {
            Action::Add => Call::Add { content: content()? },
            Action::Update => Call::Update { id: id()?, content: content()? },
            Action::Remove => Call::Remove { id: id()? },
        }))
    }
}

#[derive(Debug)]
enum Call {
    Add { content: String },
    Update { id: LearningId, content: String },
    Remove { id: LearningId },
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        let kind = KnowledgeKind::Learning;
        Box::pin(async move {
            let (id, done, text) = match self {
                Self::Add { content } => {
                    let done = tx.create_item(kind, None, content).await;
                    return created(done, || format!("Remembered as {}.", LearningId(tx.ids().row)));
                }
                Self::Update { id, content } => {
                    let change = KnowledgeChange { content: Some(content), ..KnowledgeChange::default() };
                    (id, tx.change_item(kind, *id, change).await?.is_some(), "Corrected")
                }
                Self::Remove { id } => (id, tx.delete_item(kind, *id).await?, "Forgot"),
            };
            Ok(if done { ToolResponse::success(format!("{text} {id}.")) } else { unknown(*id) })
        })
    }
}

fn unknown(id: LearningId) -> ToolResponse {
    ToolResponse::failure(
        ToolErrorCode::NotFound,
        format!("there is no {id}: use an id from <learnings> or {}, or add a new one", list_learnings::NAME),
    )
}
