//! The runtime of a command: Tokio, the limit on open files, and child processes that evaluate expressions which are not plain.
//! Each client connection is an open file; shells and service managers start with 1,024 and allow more.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use houston_domain::plan::{ExpressionError, evaluate_elsewhere};
use houston_sandbox::{Evaluators, NoAnswer, Program};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use tokio::runtime::{Handle, Runtime};

/// How long the end of a command waits for computations that nobody waits for any more, such as the patterns of a tenant: the
/// process ends without them.
const LAST_COMPUTATIONS: Duration = Duration::from_secs(2);
/// More than `server.clients.max_connections` and everything else need. Not unlimited: some hosts allow 10^9, which
/// slows down programs that close all possible descriptors.
const TARGET: u64 = 65_536;

/// Child processes that evaluate at once.
const CHILDREN: usize = 8;

/// The Tokio runtime of the process.
#[derive(Debug)]
pub(crate) struct CommandRuntime(Runtime);

impl CommandRuntime {
    /// Runs the command to its end.
    pub(crate) fn block_on<F: Future>(self, command: F) -> F::Output {
        let output = self.0.block_on(command);
        self.0.shutdown_timeout(LAST_COMPUTATIONS);
        output
    }
}

/// Raises the limit on open files and builds the Tokio runtime of the process.
pub(crate) fn runtime() -> std::io::Result<CommandRuntime> {
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    evaluate_in_children(runtime.handle().clone());
    Ok(CommandRuntime(runtime))
}

/// Raises the limit of this process, and of the servers it starts, up to [`TARGET`] or the hard limit. The API warns in
/// the log when the limit is too low.
fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(TARGET, |maximum| maximum.min(TARGET));
    if current.is_some_and(|current| current < wanted) {
        // When refused, the limit stays as it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

/// Evaluates in child processes of this program from now on: those of `houston_domain::plan::answer_evaluation`. Without it,
/// expressions are evaluated in place, where only the fuel of the template engine bounds them: that is for tests, and for
/// programs that are not `houston` and trust their tenants.
fn evaluate_in_children(runtime: Handle) {
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
        match receive.recv() {
            Ok(Ok(answer)) => serde_json::from_str::<Result<Value, ExpressionError>>(answer.get())
                .unwrap_or_else(|error| Err(wrong(&error))),
            Ok(Err(NoAnswer::Sandbox(error))) => {
                tracing::error!(%error, "an expression could not be evaluated");
                Err(wrong(&"its process could not be started"))
            }
            Ok(Err(over)) => Err(ExpressionError::Budget(over.to_string())),
            Err(_) => Err(wrong(&"Houston is stopping")),
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_file_limit_is_raised_up_to_the_hard_limit() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(512), maximum }).unwrap();
        raise_file_limit();
        let raised = getrlimit(Resource::Nofile).current;
        assert!(raised >= Some(maximum.unwrap_or(TARGET).min(TARGET)), "{raised:?}");
    }
}
