//! The Houston that `cargo xtask chaos` runs: its tools record their executions.
//!
//! Each tool appends one line to a ledger in the folder `CHAOS_LEDGERS` before it waits, so that a kill cannot lose the
//! line. The argument `op` identifies a call; the model never requests the same one twice. `ms` is how long it takes, `words`
//! the length of what it returns.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use houston_cli::tool::{
    CallContext, EffectClass, InvalidInput, Plan, Tool, ToolDefinition, ToolErrorCode, ToolResponse,
};
use houston_testkit::tool_ledger::{Execution, ToolLedger};
use serde_json::{Value, json};

/// The tools and their effect classes. `poison` aborts its process every time.
const TOOLS: [(&str, EffectClass); 4] = [
    ("charge", EffectClass::Effect),
    ("upsert", EffectClass::Idempotent),
    ("look", EffectClass::Read),
    ("poison", EffectClass::Read),
];

struct LedgerTool(ToolDefinition);

impl LedgerTool {
    fn new(name: &str, effect: EffectClass) -> Self {
        Self(ToolDefinition {
            name: name.to_owned(),
            description: format!("Executes an operation of the class {effect:?} and records it."),
            input_schema: json!({
                "type": "object",
                "properties": {"op": {"type": "string"}, "ms": {"type": "integer"}, "words": {"type": "integer"}},
                "required": ["op"],
                "additionalProperties": false,
            })
            .into(),
            effect,
            timeout: Duration::from_secs(30),
        })
    }
}

impl Tool for LedgerTool {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let name = self.0.name.clone();
        let Some(op) = input["op"].as_str() else {
            return Err(InvalidInput(format!("{name}: `op` must be a text")));
        };
        let execution = Execution {
            call_id: op.to_owned(),
            idempotency_key: context.idempotency_key.clone(),
            at: context.now,
        };
        let time = Duration::from_millis(input["ms"].as_u64().unwrap_or(0));
        let words: String =
            (0..input["words"].as_u64().unwrap_or(0)).map(|word| format!(" word{word}")).collect();
        Ok(Plan::Execute(Box::pin(async move {
            if let Err(error) = record(&name, &execution) {
                return ToolResponse::failure(
                    ToolErrorCode::IoError,
                    format!("the ledger cannot be written: {error}"),
                );
            }
            if name == "poison" {
                std::process::abort();
            }
            tokio::time::sleep(time).await;
            ToolResponse::success(format!("Done.{words}"))
        })))
    }
}

fn record(tool: &str, execution: &Execution) -> std::io::Result<()> {
    let folder = std::env::var_os("CHAOS_LEDGERS").map(PathBuf::from).unwrap_or_default();
    ToolLedger::open(folder.join(tool))?.write(execution)
}

fn main() -> ExitCode {
    let tools = TOOLS.map(|(name, effect)| Arc::new(LedgerTool::new(name, effect)));
    tools.into_iter().fold(houston_cli::App::default(), |app, tool| app.with_tool(tool)).main()
}
