//! Steps one after the other, each with its name and how long it took.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use houston_xtask::console::tell;

/// A failure does not keep the later steps from saying what they find.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    failed: Vec<&'static str>,
}

impl Steps {
    pub(crate) async fn take(&mut self, name: &'static str, step: impl Future<Output = Result<()>>) {
        tell(&format!("── {name}"));
        let began = Instant::now();
        match Box::pin(step).await {
            Ok(()) => tell(&format!("   {name}: fine ({:.1} s)", began.elapsed().as_secs_f64())),
            Err(error) => {
                self.failed.push(name);
                tell(&format!("   {name}: {error:#}"));
            }
        }
    }

    /// The exit code, after a closing line: `passed`, or which steps failed.
    pub(crate) fn end(&self, passed: &str) -> ExitCode {
        if self.failed.is_empty() {
            tell(&format!("── {passed}"));
            return ExitCode::SUCCESS;
        }
        tell(&format!("── failed: {}", self.failed.join(", ")));
        ExitCode::FAILURE
    }
}
