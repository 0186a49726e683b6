//! A `houston` with a custom tool, `ring_bell`.
//!
//! ```sh
//! cargo run --example custom_tool -- dev --jobs my-jobs
//! ```
//! Here `my-jobs/agents/goal.toml` is a copy of `jobs/agents/goal.toml` with `"ring_bell"` among its tools.
//!
//! The tool appends a line to the file named by `BELL_LEDGER` and takes as long as its argument says, or until there is a file
//! of this name that ends in `.stop`. Fault tests use it as an effect outside of Houston.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use houston_cli::tool::{
    CallContext, EffectClass, InvalidInput, Plan, Tool, ToolDefinition, ToolErrorCode, ToolResponse,
};
use serde_json::{Value, json};

struct RingBell(ToolDefinition);

impl Default for RingBell {
    fn default() -> Self {
        Self(ToolDefinition {
            name: "ring_bell".to_owned(),
            description: "Ring the bell on the desk. Everybody hears it; it cannot be taken back.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "seconds": {"type": "number", "description": "How long; 0 when left out."},
                    "strokes": {"type": "integer", "description": "How often; each is reported. 1 when left out."},
                },
                "additionalProperties": false,
            }).into(),
            // It has an effect outside, so it must not be repeated after a crash.
            effect: EffectClass::Effect,
            timeout: Duration::from_secs(60),
        })
    }
}

impl Tool for RingBell {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let seconds = input["seconds"].as_f64().unwrap_or(0.0);
        if !(0.0..=60.0).contains(&seconds) {
            return Err(InvalidInput(format!("ring_bell: `seconds` is {seconds}, allowed are 0 to 60")));
        }
        let strokes = input["strokes"].as_u64().unwrap_or(1);
        let line = json!({"key": context.idempotency_key, "run": context.run}).to_string();
        Ok(Plan::Execute(Box::pin(async move {
            if let Err(error) = record(&line) {
                return ToolResponse::failure(
                    ToolErrorCode::IoError,
                    format!("the ledger cannot be written: {error}"),
                );
            }
            // That it is over in time is no error.
            let _ = tokio::time::timeout(Duration::from_secs_f64(seconds), stopped()).await;
            ToolResponse::success(report(strokes))
        })))
    }
}

fn report(strokes: u64) -> String {
    let each = |stroke| format!("stroke {stroke}: everybody heard it\n");
    if strokes == 1 { "The bell was rung.".to_owned() } else { (1..=strokes).map(each).collect() }
}

fn record(line: &str) -> std::io::Result<()> {
    let Some(path) = std::env::var_os("BELL_LEDGER") else { return Ok(()) };
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    writeln!(file, "{line}")?;
    file.sync_all()
}

/// Returns once somebody has stopped the bell.
async fn stopped() {
    let stop = std::env::var_os("BELL_LEDGER").map(|ledger| PathBuf::from(ledger).with_extension("stop"));
    while !stop.as_ref().is_some_and(|stop| stop.exists()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn main() -> ExitCode {
    houston_cli::App::default().with_tool(Arc::new(RingBell::default())).main()
}
