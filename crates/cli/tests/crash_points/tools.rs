//! Tools with an effect outside of Houston: lines in a ledger.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use houston_cli::App;
use houston_cli::tool::{
    CallContext, EffectClass, InvalidInput, Plan, SharedTool, Tool, ToolDefinition, ToolErrorCode,
    ToolResponse,
};
use houston_testkit::tool_ledger::{Execution, ToolLedger};
use serde_json::{Value, json};

/// The variable with the path of the ledger.
pub(crate) const LEDGER: &str = "CRASH_LEDGER";
/// A tool of the class `effect`.
pub(crate) const SEND_LETTER: &str = "send_letter";
/// A tool of the class `idempotent`.
pub(crate) const SET_LABEL: &str = "set_label";
/// A tool of the class `read`.
pub(crate) const LOOK_UP: &str = "look_up";

/// Records its execution in the ledger, then waits.
struct LedgerTool {
    definition: ToolDefinition,
    ledger: PathBuf,
}

/// Houston with these tools.
pub(crate) fn houston() -> ExitCode {
    let ledger = PathBuf::from(std::env::var_os(LEDGER).unwrap_or_default());
    let act = |name: &str, effect| -> SharedTool {
        Arc::new(LedgerTool {
            definition: ToolDefinition {
                name: name.to_owned(),
                description: "Writes a line into a ledger.".to_owned(),
                input_schema: json!({"type": "object", "properties": {
                    "name": {"type": "string"}, "ms": {"type": "integer"}}})
                .into(),
                effect,
                timeout: Duration::from_secs(60),
            },
            ledger: ledger.clone(),
        })
    };
    App::default()
        .with_tool(act(SEND_LETTER, EffectClass::Effect))
        .with_tool(act(SET_LABEL, EffectClass::Idempotent))
        .with_tool(act(LOOK_UP, EffectClass::Read))
        .main()
}

impl Tool for LedgerTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let execution = Execution {
            call_id: input["name"].as_str().unwrap_or_default().to_owned(),
            idempotency_key: context.idempotency_key.clone(),
            at: context.now,
        };
        let (ledger, time) = (self.ledger.clone(), Duration::from_millis(input["ms"].as_u64().unwrap_or(0)));
        Ok(Plan::Execute(Box::pin(async move {
            if let Err(error) = ToolLedger::open(ledger).and_then(|ledger| ledger.write(&execution)) {
                return ToolResponse::failure(ToolErrorCode::IoError, error.to_string());
            }
            tokio::time::sleep(time).await;
            ToolResponse::success(format!("{} is done.", execution.call_id))
        })))
    }
}
