//! Child processes that evaluate expressions which are not plain, for this process.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use houston_domain::plan::{ExpressionError, evaluate_elsewhere};
use houston_sandbox::{Evaluators, NoAnswer, Program};
use serde_json::Value;
use tokio::runtime::Handle;

/// Child processes that evaluate at once.
const CHILDREN: usize = 8;
/// How long a thread waits for a child process, whose own limits are lower.
const PATIENCE: Duration = Duration::from_secs(60);

/// Evaluates in child processes of this program from now on: those of `houston_domain::plan::answer_evaluation`. Without it,
/// expressions are evaluated in place, where only the fuel of the template engine bounds them: that is for tests, and for
/// programs that are not `houston` and trust their tenants.
pub(crate) fn use_children(runtime: Handle) {
    let evaluators = Arc::new(Evaluators::new(Program::this(), CHILDREN));
    let wrong =
        |reason: &dyn std::fmt::Display| ExpressionError::Wrong(format!("cannot be evaluated: {reason}"));
    evaluate_elsewhere(Box::new(move |evaluation| {
        let request = serde_json::to_string(evaluation).map_err(|error| wrong(&error))?;
        let (send, receive) = sync_channel(1);
        let evaluators = Arc::clone(&evaluators);
        runtime.spawn(async move {
            let _ = send.send(evaluators.evaluate(&request).await);
        });
        match receive.recv_timeout(PATIENCE) {
            Ok(Ok(answer)) => serde_json::from_str::<Result<Value, ExpressionError>>(answer.get())
                .unwrap_or_else(|error| Err(wrong(&error))),
            Ok(Err(NoAnswer::Sandbox(error))) => {
                tracing::error!(%error, "an expression could not be evaluated");
                Err(wrong(&"its process could not be started"))
            }
            Ok(Err(over)) => Err(ExpressionError::Budget(over.to_string())),
            Err(_) => Err(ExpressionError::Budget(NoAnswer::Time.to_string())),
        }
    }));
}
