//! A Houston whose tools write down what they did: what `cargo xtask chaos` runs.
//!
//! Each tool appends one line to a ledger in the folder named by `CHAOS_LEDGERS` before it takes its time, so that
//! whatever kills the process cannot take the line back. `op` names the act; the model never asks twice for one.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use houston_cli::tool::{
    CallContext, EffectClass, InvalidInput, Plan, Tool, ToolDefinition, ToolErrorCode, ToolResponse,
};
use houston_testkit::tool_ledger::{Execution, ToolLedger};
use serde_json::{Value, json};

/// The tools, with what a crash allows. The last one takes its process down with it, each time.
const TOOLS: [(&str, EffectClass); 4] = [
    ("charge", EffectClass::Effect),
    ("upsert", EffectClass::Idempotent),
    ("look", EffectClass::Read),
    ("poison", EffectClass::Read),
];

struct Act(ToolDefinition);

impl Act {
    fn new(name: &str, effect: EffectClass) -> Self {
        Self(ToolDefinition {
            name: name.to_owned(),
            description: format!("Does an act of the class {effect:?} and writes it down."),
            input_schema: json!({
                "type": "object",
                "properties": {"op": {"type": "string"}, "ms": {"type": "integer"}},
                "required": ["op"],
                "additionalProperties": false,
            }),
            effect,
            timeout: Duration::from_secs(30),
        })
    }
}

impl Tool for Act {
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
        Ok(Plan::Execute(Box::pin(async move {
            if let Err(error) = write_down(&name, &execution) {
                return ToolResponse::failure(ToolErrorCode::IoError, format!("the ledger is gone: {error}"));
            }
            if name == "poison" {
                std::process::abort();
            }
            tokio::time::sleep(time).await;
            ToolResponse::success("Done.")
        })))
    }
}

fn write_down(tool: &str, execution: &Execution) -> std::io::Result<()> {
    let folder = std::env::var_os("CHAOS_LEDGERS").map(PathBuf::from).unwrap_or_default();
    ToolLedger::open(folder.join(tool))?.write(execution)
}

fn main() -> ExitCode {
    let tools = TOOLS.map(|(name, effect)| Arc::new(Act::new(name, effect)));
    tools.into_iter().fold(houston_cli::App::default(), |app, tool| app.with_tool(tool)).main()
}
