//! Runs the steps of a command and prints the result and duration of each.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use houston_testkit::console::print_status;

/// The failed steps. Later steps run also after a failure.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    failed: Vec<String>,
}

impl Steps {
    pub(crate) async fn run(&mut self, name: &str, step: impl Future<Output = Result<()>>) {
        print_status(&format!("── {name}"));
        let began = Instant::now();
        match Box::pin(step).await {
            Ok(()) => print_status(&format!("   {name}: passed ({:.1} s)", began.elapsed().as_secs_f64())),
            Err(error) => {
                self.failed.push(name.to_owned());
                print_status(&format!("   {name}: {error:#}"));
            }
        }
    }

    /// Prints a closing line, `passed` or the failed steps; returns the exit code.
    pub(crate) fn end(&self, passed: &str) -> ExitCode {
        if self.failed.is_empty() {
            print_status(&format!("── {passed}"));
            return ExitCode::SUCCESS;
        }
        print_status(&format!("── failed: {}", self.failed.join(", ")));
        ExitCode::FAILURE
    }
}
